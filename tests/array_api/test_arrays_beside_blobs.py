"""Beside a Blob, functions take arrays of any library, as operators do."""

import numpy as np
import pytest
from call_texts import functions
from namespace_calls import calls

import syncblob as xp
from syncblob import Blob

try:
    import torch
except ImportError:
    torch = None

# The call of searchsorted sorts its first array itself.
OF_SEVERAL = [c for c in calls() if len(c.shapes) > 1 and c.name != "searchsorted"]
LIBRARIES = [np.asarray] if torch is None else [np.asarray, torch.from_numpy]


def arrays_for(call):
    """Make arrays that the function accepts: positive numbers, or indices."""
    rng = np.random.default_rng(0)
    of_bits = call.name.startswith("bitwise") or "f" not in call.kinds
    dtype, stop = ("i4", 4) if of_bits else ("f4", 9)
    arrays = [rng.integers(1, stop, shape).astype(dtype) for shape in call.shapes]
    if call.name in {"repeat", "take", "take_along_axis"}:
        arrays[1] = arrays[1].astype("i8") - 1
    return arrays


def described(result):
    if isinstance(result, (tuple, list)):
        return [described(part) for part in result]
    return result.device, result.dtype, result.tolist()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
@pytest.mark.parametrize("call", OF_SEVERAL, ids=[f"{c.name}-{c.shapes}" for c in OF_SEVERAL])
def test_the_result_is_that_of_blobs(call, device, library):
    arrays = arrays_for(call)
    blobs = [xp.asarray(array, device=device, copy=True) for array in arrays]
    expected = described(call.with_blobs(blobs))
    for place, array in enumerate(arrays):
        given = [*blobs]
        given[place] = library(array)
        assert described(call.with_blobs(given)) == expected


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_arguments_that_no_call_above_has(device, library):
    x = xp.asarray([1.0, 3, 5], device=device)
    array = library(np.array([3.0, 4, 1]))
    for result, expected in (
        (xp.searchsorted(library(np.array([1.0, 2, 4])), x), [0, 2, 3]),
        (xp.searchsorted(x, array, sorter=library(np.arange(3))), [1, 2, 0]),
        (xp.diff(x, prepend=array, append=array), [1, -3, 0, 2, 2, -2, 1, -3]),
        (xp.linalg.pinv(xp.eye(3, device=device), rtol=library(np.array(0.5))), np.eye(3).tolist()),
        (xp.where(library(np.array([True, False, True])), x, array), [1, 4, 5]),
        (xp.clip(array, x, None), [3, 4, 5]),
    ):
        assert (result.device, result.tolist()) == (device, expected)


@pytest.mark.parametrize("library", LIBRARIES)
def test_of_dtypes_no_element_is_read(library):
    x, array = Blob(3, "int8", device="simulated"), library(np.ones(2, "float32"))
    with xp.no_transfers():
        assert xp.result_type(x, array) == xp.result_type(array, x, 1) == np.dtype("float32")
        assert xp.result_type(array, xp.float64) == np.dtype("float64")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_conversion_to_a_dtype_needs_no_blob_beside(library):
    array = library(np.ones(2))
    for device in ("cpu", "simulated:0"):
        result = xp.astype(array, xp.float32, device=device)
        assert described(result) == (xp.Device(device), np.dtype("float32"), [1, 1])
        result = xp.astype(array, xp.float64, device=device)
        result += 1
        assert array.tolist() == [1, 1]
    with pytest.raises(TypeError, match="imaginary"):
        xp.astype(library(np.ones(2, "c8")), xp.float32)


def test_xarray_mixes_arrays_and_blobs():
    xarray = pytest.importorskip("xarray")
    array = np.array([[1.0, np.nan, 3], [4, 5, 6]])
    calls = functions(
        """
        p.where(q > 2, q); xarray.where(p > 2, p, q); p.fillna(q); p.combine_first(q);
        xarray.dot(p, q, dim='x'); p.clip(q, q + 1); p.isin(q); xarray.concat([p, q], 'x');
        p.weighted(q.fillna(1)).mean(); p.where(q > 3, drop=True);
        xarray.Dataset({'a': p, 'b': q}).to_array()
        """,
        "p, q",
        globals() | {"xarray": xarray},
    )
    for device in ("cpu", "simulated"):
        host = xarray.DataArray(array, dims=("x", "y"))
        blob = xarray.DataArray(xp.asarray(array, device=device, copy=True), dims=("x", "y"))
        for name, call in calls.items():
            expected = call(host, host).data
            for pair in ((blob, host), (host, blob)):
                np.testing.assert_allclose(np.asarray(call(*pair).data), expected, err_msg=name)


def test_only_the_array_moves_and_a_later_write_to_it_is_its_own(simulated):
    x, array = xp.ones((2, 3), device="simulated"), np.ones(3)
    simulated.reset_counts()
    result = xp.where(x > 0, array, x)
    assert (simulated.uploaded_bytes, simulated.downloads) == (24, 0)
    wide, same = xp.broadcast_arrays(array, x)
    array[...] = 7
    assert result.tolist() == wide.tolist() == same.tolist() == [[1] * 3] * 2
    for device in ("cpu", "simulated"):
        (alone, _) = xp.broadcast_arrays(array, xp.zeros(3, device=device))
        alone += 1
        assert array.tolist() == [7] * 3


def test_without_a_blob_and_with_gradients_they_are_refused():
    for call in (xp.add, xp.matmul, xp.isin, lambda a, b: xp.concat([a, b])):
        with pytest.raises(TypeError, match=r"Blob.* ndarray"):
            call(np.ones(3), np.ones(3))
    if torch is not None:
        with pytest.raises(BufferError, match="detach"):
            xp.add(xp.ones(3), torch.ones(3, requires_grad=True))
