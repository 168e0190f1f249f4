"""Creation functions: shapes, dtypes, devices and errors."""

import math
import warnings

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob, Head, no_transfers

CALLS = {
    "arange": lambda **k: xp.arange(1, 7, 2, **k),
    "empty": lambda **k: xp.empty((2, 3), **k),
    "eye": lambda **k: xp.eye(3, **k),
    "full": lambda **k: xp.full((2, 3), 7, **k),
    "linspace": lambda **k: xp.linspace(0, 1, 5, **k),
    "ones": lambda **k: xp.ones((2, 3), **k),
    "zeros": lambda **k: xp.zeros((2, 3), **k),
    "empty_like": lambda **k: xp.empty_like(xp.ones(2), **k),
    "full_like": lambda **k: xp.full_like(xp.ones(2), 7, **k),
    "ones_like": lambda **k: xp.ones_like(xp.ones(2), **k),
    "zeros_like": lambda **k: xp.zeros_like(xp.ones(2), **k),
}
DEVICES = ["cpu", "simulated:0", "simulated:1"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", list(CALLS))
def test_blobs_are_made_where_they_are_wanted(name, device, simulated):
    with no_transfers():
        made = [CALLS[name](device=device), CALLS[name](device=xp.Device(device))]
        with xp.use_device(device):
            made.append(CALLS[name]())
    head = Head.HEAD_AT_CPU if device == "cpu" else Head.HEAD_AT_GPU
    for blob in made:
        assert (type(blob), blob.device, blob.head) == (Blob, device, head)
        blob.resize(4)
    assert (simulated.uploads, simulated.downloads) == (0, 0)


@pytest.mark.parametrize("name", list(CALLS))
def test_dtypes_are_given_in_any_way(name):
    for dtype in ("float32", np.float32, np.dtype("float32"), xp.float32):
        assert CALLS[name](dtype=dtype).dtype == np.dtype("float32")
    with pytest.raises(TypeError, match=r"dtype|holds"):
        CALLS[name](dtype="no dtype")
    with pytest.raises(TypeError):
        CALLS[name](dtype=object)
    with pytest.raises(ValueError, match="device"):
        CALLS[name](device="tpu")


@pytest.mark.parametrize("name", [name for name in CALLS if name.endswith("_like")])
@pytest.mark.parametrize("device", DEVICES)
def test_what_is_made_like_a_blob_is_where_it_is(name, device):
    like = xp.ones((2, 3), dtype="int16", device=device)
    args = (7,) if name == "full_like" else ()
    with no_transfers():
        made = getattr(xp, name)(like.T, *args)
        moved = getattr(xp, name)(like, *args, device="simulated:0", dtype="float32")
    assert (made.shape, made.dtype, made.device) == ((3, 2), np.dtype("int16"), device)
    assert (moved.dtype, moved.device) == (np.dtype("float32"), "simulated:0")
    for wrong in (np.ones(2), 1, [1, 2]):
        with pytest.raises(TypeError, match="asarray"):
            getattr(xp, name)(wrong, *args)


@pytest.mark.parametrize("function", [xp.zeros, xp.ones, xp.empty, lambda s: xp.full(s, 1)])
def test_shapes_are_integers_that_are_not_negative(function):
    assert [function(s).shape for s in (3, (3,), (), (0, 2), [2, 3])] == [
        (3,), (3,), (), (0, 2), (2, 3),
    ]  # fmt: skip
    for wrong in (-1, (2, -1)):
        with pytest.raises(ValueError, match=r"negative|-1"):
            function(wrong)
    for wrong in (1.5, (2.0,), "3", None):
        with pytest.raises(TypeError):
            function(wrong)


def test_linspace_takes_ends_that_are_blobs(on, device):
    end, ends = on(3.0, "f4"), on([1.0, 2.0])
    with xp.no_transfers():
        line = xp.linspace(0, end, 4)
        columns = xp.linspace(end, ends, 3, endpoint=False, dtype=xp.float32)
    assert (line.device, line.dtype, line.tolist()) == (device, np.dtype("f4"), [0, 1, 2, 3])
    expected = np.linspace(3, [1.0, 2.0], 3, endpoint=False, dtype="f4")
    np.testing.assert_array_equal(np.asarray(columns), expected)
    assert xp.linspace(end, 5, 3, device="cpu").device == "cpu"
    with pytest.raises(TypeError, match=r"asarray\(\) first"):
        xp.linspace(end, [1.0, 2.0], 3)


def test_full_with_a_blob_takes_its_dtype():
    value = xp.asarray(3, dtype="int8")
    assert xp.full((2,), value).dtype == np.dtype("int8")
    assert xp.full_like(xp.ones(2), value).dtype == np.dtype("float64")
    assert xp.full((2,), value).tolist() == [3, 3]
    with pytest.raises(ValueError, match=r"size|one element|scalar"):
        xp.full((2,), xp.ones(2))


# --- asarray ------------------------------------------------------------------------------------


def test_asarray_passes_its_arguments_on():
    """Tests of `Blob.asarray` are in tests/blob/test_conversions.py."""
    blob = xp.asarray([xp.asarray(1.0), 2.0])
    assert blob.tolist() == [1, 2]
    assert xp.asarray(blob, copy=False) is blob
    assert xp.asarray(blob, copy=True).memory is not blob.memory
    made = xp.asarray(range(3), dtype="int8", device="simulated")
    assert (made.dtype, made.device) == (np.dtype("int8"), "simulated:0")
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray([1, 2], copy=False)


SCALARS = [True, 2**63, -0.0, math.nan, 1e300, complex(1, -0.0), np.float32(1.1), np.bool_(1)]


@pytest.mark.parametrize("dtype", [None, "bool", "int8", "uint64", "float16", "complex64"])
@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_a_scalar_is_filled_on_its_device_with_the_value_it_has_on_the_host(value, dtype, device):
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        try:
            expected = xp.asarray(value, dtype=dtype, device="cpu")
        except (OverflowError, TypeError, ValueError) as error:
            with pytest.raises(type(error)):
                xp.asarray(value, dtype=dtype, device=device)
            return
        with no_transfers():
            made = xp.asarray(value, dtype=dtype, device=device)
            with xp.use_device(device):
                again = xp.asarray(value, dtype=dtype)
            xp.stack([made, again])
    head = Head.HEAD_AT_CPU if device == "cpu" else Head.HEAD_AT_GPU
    for blob in (made, again):
        assert (blob.dtype, blob.device, blob.head) == (expected.dtype, device, head)
        assert blob.tobytes() == expected.tobytes()


@pytest.mark.parametrize("mask", [[0, 1], np.ma.nomask], ids=["a mask", "no mask"])
@pytest.mark.parametrize("make", [xp.asarray, xp.from_dlpack, Blob(2, "f8").copy_from])
def test_a_masked_array_is_refused_for_its_mask_would_be_lost(make, mask):
    masked = np.ma.array([1.0, 99.0], mask=mask)
    with pytest.raises(TypeError, match=r"\.filled\(\)"):
        make(masked)
    make(masked.data)
    make(masked.filled())


# --- matrices and grids --------------------------------------------------------------------------


def test_grids_are_a_tuple_of_blobs_with_memories_of_their_own():
    x, y = xp.arange(3), xp.arange(2)
    grid = xp.meshgrid(x, y)
    assert isinstance(grid, tuple)
    assert [part.tolist() for part in grid] == [[[0, 1, 2], [0, 1, 2]], [[0, 0, 0], [1, 1, 1]]]
    assert len({id(part.memory) for part in (x, y, *grid)}) == 4
    assert xp.meshgrid() == ()
    assert [part.shape for part in xp.meshgrid(x, y, indexing="ij")] == [(3, 2), (3, 2)]
    with pytest.raises(ValueError, match="indexing"):
        xp.meshgrid(x, y, indexing="yx")
