"""copy_from, update, sums and scales: Caffe's tables of heads and transfers, for every dtype."""

import math

import numpy as np
import pytest
import tiers
from made_blobs import CPU, GPU, NONE, PAIR, SPLIT, SYNCED, put

import syncblob
from syncblob import Blob

NUMBERS = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16"),
]
BOOL_TOO = ["bool", *NUMBERS]

# (source before, destination before): (source after, Caffe's downloads) in CPU mode, and the same
# with uploads in GPU mode. Afterwards the destination is HEAD_AT_CPU or HEAD_AT_GPU.
COPY = {
    (NONE, NONE): ((CPU, 0), (GPU, 0)),
    (NONE, CPU): ((CPU, 0), (GPU, 1)),
    (NONE, GPU): ((CPU, 1), (GPU, 0)),
    (NONE, SYNCED): ((CPU, 0), (GPU, 0)),
    (CPU, NONE): ((CPU, 0), (SYNCED, 1)),
    (CPU, CPU): ((CPU, 0), (SYNCED, 2)),
    (CPU, GPU): ((CPU, 1), (SYNCED, 1)),
    (CPU, SYNCED): ((CPU, 0), (SYNCED, 1)),
    (GPU, NONE): ((SYNCED, 1), (GPU, 0)),
    (GPU, CPU): ((SYNCED, 1), (GPU, 1)),
    (GPU, GPU): ((SYNCED, 2), (GPU, 0)),
    (GPU, SYNCED): ((SYNCED, 1), (GPU, 0)),
    (SYNCED, NONE): ((SYNCED, 0), (SYNCED, 0)),
    (SYNCED, CPU): ((SYNCED, 0), (SYNCED, 1)),
    (SYNCED, GPU): ((SYNCED, 1), (SYNCED, 0)),
    (SYNCED, SYNCED): ((SYNCED, 0), (SYNCED, 0)),
}
# data before, diff before: data after, diff after, uploads, downloads, accelerator allocations.
UPDATE = [
    (CPU, NONE, CPU, CPU, 0, 0, 0),
    (CPU, CPU, CPU, CPU, 0, 0, 0),
    (CPU, GPU, CPU, SYNCED, 0, 1, 0),
    (CPU, SYNCED, CPU, SYNCED, 0, 0, 0),
    (GPU, NONE, GPU, GPU, 0, 0, 1),
    (GPU, CPU, GPU, SYNCED, 1, 0, 1),
    (GPU, GPU, GPU, GPU, 0, 0, 0),
    (GPU, SYNCED, GPU, SYNCED, 0, 0, 0),
    (SYNCED, NONE, GPU, GPU, 0, 0, 1),
    (SYNCED, CPU, GPU, SYNCED, 1, 0, 1),
    (SYNCED, GPU, GPU, GPU, 0, 0, 0),
    (SYNCED, SYNCED, GPU, SYNCED, 0, 0, 0),
]


def of_device(device, head, value):
    """Make a Blob with any head on any device."""
    if head is NONE:
        return Blob(6, device=device)
    contents = np.full(6, value, "f4").view(np.uint8)
    blob = Blob.from_source(6, "float32", lambda: contents, device=device)
    if head is not GPU:
        blob.cpu_data()
    if head is not CPU:
        blob.gpu_data()
    return blob


def numbers(dtype, *values):
    return np.array(values).astype(Blob((), dtype).dtype)


def filled(array, device="cpu", head=None):
    blob = Blob(array.shape, array.dtype, device=device)
    put(blob, head or (CPU if device == "cpu" else GPU), array)
    return blob


# --- copy_from ---------------------------------------------------------------------------------


@pytest.mark.parametrize("copy_diff", [False, True])
@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
@pytest.mark.parametrize("heads", COPY, ids=lambda heads: f"{heads[0].name}-{heads[1].name}")
def test_copy_from_ends_as_caffes_does_with_no_more_transfers(simulated, heads, device, copy_diff):
    before, dest = heads
    on_host = device == "cpu"
    (after, by_caffe) = COPY[heads][0 if on_host else 1]
    which = "diff" if copy_diff else "data"
    with syncblob.use_device("simulated:0"):
        source, blob = Blob(6), of_device(device, NONE if copy_diff else dest, 1)
        put(source, before, 7, which)
        if copy_diff:
            put(blob, dest, 1, which)
        data_head = blob.head
        simulated.reset_counts()
        blob.copy_from(source, copy_diff=copy_diff)
    heads_after = [b.diff_head if copy_diff else b.head for b in (source, blob)]
    assert heads_after == [after, CPU if on_host else GPU]
    ours = simulated.downloads if on_host else simulated.uploads
    assert simulated.uploads + simulated.downloads == ours <= by_caffe
    assert ours == (before is (GPU if on_host else CPU))
    assert blob.device == device
    assert not copy_diff or blob.head is data_head
    copied = blob.cpu_diff() if copy_diff else blob.cpu_data()
    assert copied.tolist() == [7 if before else 0] * 6


def test_copy_from_takes_equal_shapes_or_resizes():
    blob, source = Blob((2, 3)), filled(numbers("float32", 1, 2, 3, 4))
    for other in (source, Blob((3, 2)), Blob((2, 3, 1))):
        with pytest.raises(ValueError, match="resize=True"):
            blob.copy_from(other)
    assert blob.head is NONE
    blob.copy_from(source, resize=True)
    assert (blob.shape, blob.tolist()) == ((4,), [1, 2, 3, 4])


def test_copy_from_between_views_strides_and_arrays():
    array = np.arange(12, dtype="f4").reshape(3, 4)
    blob = filled(array, "simulated:0")
    blob[0].copy_from(blob[2])
    blob[:, 0].copy_from([5, 6, 7])
    blob.T[1:3].copy_from(filled(array)[::-1].T[1:3])
    expected = array.copy()
    expected[0] = array[2]
    expected[:, 0] = [5, 6, 7]
    expected.T[1:3] = array[::-1].T[1:3]
    assert blob.tolist() == expected.tolist()
    blob.copy_from(blob[::-1])
    blob.copy_from(blob)
    assert blob.tolist() == expected[::-1].tolist()


@pytest.mark.parametrize("target", tiers.dtypes(BOOL_TOO))
@pytest.mark.parametrize("source", tiers.dtypes(BOOL_TOO))
def test_copy_from_converts_what_numpy_calls_the_same_kind(source, target):
    values = numbers(source, 0, 1, 1, 0)
    blob = Blob(4, target)
    # NumPy treats bfloat16 as a kind of its own. Blobs treat it as a float.
    first, second = ("float16" if dtype == "bfloat16" else dtype for dtype in (source, target))
    if np.can_cast(first, second, casting="same_kind"):
        blob.copy_from(filled(values))
        assert blob.tolist() == [0, 1, 1, 0]
    else:
        with pytest.raises(TypeError, match="astype"):
            blob.copy_from(filled(values))
        assert blob.head is NONE


def test_copy_diff_needs_a_blob_and_a_copy_comes_from_any_accelerator():
    with pytest.raises(TypeError, match=r"ndarray.*blob\.diff\.copy_from\(array\)"):
        Blob(2).copy_from(np.zeros(2), copy_diff=True)
    blob = filled(numbers("float32", 1, 2), "simulated:0")
    source = filled(numbers("float32", 3, 4), "simulated:1")
    source.gpu_data()
    with syncblob.record_transfers() as log:
        blob.copy_from(source)
    assert [(one.direction, one.nbytes) for one in log] == [("peer", 8)]
    assert (blob.head, blob.tolist()) == (GPU, [3, 4])


# --- update ------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", UPDATE, ids=lambda row: f"{row[0].name}-{row[1].name}")
def test_update_is_caffes_table(simulated, row):
    data, diff, data_after, diff_after, uploads, downloads, allocations = row
    blob = Blob(6, device="simulated:0")
    put(blob, data, 5)
    put(blob, diff, 2, "diff")
    simulated.reset_counts()
    blob.update()
    assert (blob.head, blob.diff_head) == (data_after, diff_after)
    assert (simulated.uploads, simulated.downloads) == (uploads, downloads)
    assert simulated.allocations == allocations
    assert blob.tolist() == [3 if diff else 5] * 6


@pytest.mark.parametrize("diff", PAIR)
def test_update_of_untouched_data_counts_it_as_zeros(diff):
    blob = Blob(6, device="simulated:0")
    put(blob, diff, 2, "diff")
    blob.update()
    assert blob.tolist() == [-2 if diff else 0] * 6


@pytest.mark.parametrize("dtype", NUMBERS)
def test_update_wraps_and_rounds_in_the_blobs_own_dtype(accelerator, dtype):
    data, diff = numbers(dtype, 1, 0, 100), numbers(dtype, 3, 1, 27)
    blob = Blob(3, dtype, device=accelerator)
    blob.mutable_cpu_data()[...] = data
    blob.gpu_data()
    blob.mutable_cpu_diff()[...] = diff
    blob.update()
    np.testing.assert_array_equal(np.asarray(blob), data - diff)


def test_update_of_views_shapes_without_axes_and_without_elements():
    blob = filled(np.ones((3, 4), "f4"), "simulated:0")
    blob.diff[...] = 1
    blob.T[::-2, 1:].update()
    assert blob.tolist() == [[1] * 4, [1, 0, 1, 0], [1, 0, 1, 0]]
    scalar = filled(np.float32([3])).reshape(())
    scalar.diff[...] = 1
    scalar.update()
    assert scalar.item() == 2
    Blob((0, 3)).update()


def test_bool_has_no_subtraction():
    with pytest.raises(TypeError, match="bool"):
        Blob(2, "bool").update()


# --- sums --------------------------------------------------------------------------------------

AFTER_SCALE = {NONE: NONE, CPU: CPU, GPU: GPU, SYNCED: GPU}


@pytest.mark.parametrize("which", ["data", "diff"])
@pytest.mark.parametrize("head", AFTER_SCALE)
def test_sums_and_scales_run_at_the_head_and_transfer_nothing(simulated, which, head):
    blob = Blob(6, device="simulated:0")
    put(blob, head, -3, which)
    allocated = simulated.allocations + simulated.host_allocations
    now = lambda: blob.head if which == "data" else blob.diff_head  # noqa: E731  # read four times
    simulated.uploads = simulated.downloads = 0
    assert getattr(blob, f"asum_{which}")() == (18 if head else 0)
    assert getattr(blob, f"sumsq_{which}")() == (54 if head else 0)
    assert now() is head
    getattr(blob, f"scale_{which}")(-2)
    assert now() is AFTER_SCALE[head]
    assert simulated.uploads + simulated.downloads == 0
    assert simulated.allocations + simulated.host_allocations == allocated
    assert getattr(blob, f"asum_{which}")() == (36 if head else 0)


@pytest.mark.parametrize("which", ["data", "diff"])
@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_of_a_split_blob_they_run_on_its_device_and_bring_what_is_missing_there(
    simulated, which, device
):
    def split():
        blob = Blob(6, device="simulated:0")
        put(blob, SPLIT, -3, which)
        simulated.reset_counts()
        return blob.on(device)

    after, moved = (CPU, (0, 20)) if device == "cpu" else (GPU, (4, 0))
    for action in (f"asum_{which}", f"sumsq_{which}"):
        blob = split()
        for _ in range(2):
            assert getattr(blob, action)() == (18 if "asum" in action else 54)
            assert (simulated.uploaded_bytes, simulated.downloaded_bytes) == moved
        assert (blob.head if which == "data" else blob.diff_head) is after
    blob = split()
    getattr(blob, f"scale_{which}")(-2)
    assert (simulated.uploaded_bytes, simulated.downloaded_bytes) == moved
    assert (blob.head if which == "data" else blob.diff_head) is after
    assert getattr(blob, which).tolist() == [6] * 6


@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_sums_and_scales_see_the_contents_of_a_source_nobody_has_read(device):
    def make():
        contents = np.array([-3, 4], "f4").view(np.uint8)
        return Blob.from_source(
            2, "float32", lambda: contents, diff_source=lambda: contents, device=device
        )

    assert (make().asum_data(), make().sumsq_diff()) == (7, 25)
    for which in ("data", "diff"):
        blob = make()
        getattr(blob, f"scale_{which}")(2)
        assert getattr(blob, which).tolist() == [-6, 8]
    blob = make()
    blob.update()
    assert blob.tolist() == [0, 0]
    blob.copy_from(make(), copy_diff=True)
    assert blob.diff.tolist() == make().copy().tolist() == [-3, 4]


@pytest.mark.parametrize(
    ("dtype", "values", "asum", "sumsq"),
    [
        ("bool", [1, 0, 1], 2, 2),
        ("int8", [-128, 127, -1], 256, 128**2 + 127**2 + 1),
        ("int16", [-(2**15), 1], 2**15 + 1, 2**30 + 1),
        ("int32", [-(2**31), 2**31 - 1], 2**32 - 1, 2**62 + (2**31 - 1) ** 2),
        ("int64", [-5, 2**40], 2**40 + 5, (2**80 + 25) % 2**64),
        ("int64", [-(2**62), 2**62, 3], -(2**63) + 3, 9),
        ("uint8", [255, 255], 510, 2 * 255**2),
        ("uint32", [2**32 - 1], 2**32 - 1, (2**32 - 1) ** 2),
        ("uint64", [2**64 - 1, 2], 1, 5),
        ("float16", [-60000, 60000], 120000.0, 7.2e9),
        ("bfloat16", [-3, 0.5], 3.5, 9.25),
        ("float32", [-(2.0**100), 1], 2.0**100, 2.0**200),
        ("float64", [-1e300, 1.0], 1e300, None),
        ("complex64", [3 - 4j, -1j], 8.0, 26.0),
        ("complex128", [3 - 4j, -1j], 8.0, 26.0),
        ("float32", [math.inf, -1], math.inf, math.inf),
    ],
)
@pytest.mark.parametrize("which", ["data", "diff"])
def test_sums_of_every_dtype(accelerator, which, dtype, values, asum, sumsq):
    array = np.array(values, Blob((), dtype).dtype)
    blob = Blob(array.shape, array.dtype, device=accelerator)
    getattr(blob, f"mutable_cpu_{which}")()[...] = array
    getattr(blob, f"gpu_{which}")()
    for blob_now in (blob, blob[::-1], blob.reshape(1, -1).T):
        result = getattr(blob_now, f"asum_{which}")()
        assert result == asum
        assert type(result) is (int if array.dtype.kind in "iub" else float)
        if sumsq is not None:
            assert getattr(blob_now, f"sumsq_{which}")() == sumsq


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_sums_of_many_elements_are_as_good_as_exact(accelerator, dtype):
    rng = np.random.default_rng(7)
    array = rng.standard_normal((521, 389)).astype(Blob((), dtype).dtype)
    doubles = array.astype("f8")
    blob = Blob(array.shape, array.dtype, device=accelerator)
    blob.mutable_cpu_data()[...] = array
    blob.gpu_data()
    for view, part in ((blob, doubles), (blob.T, doubles.T), (blob[::3, ::-2], doubles[::3, ::-2])):
        values = part.ravel().tolist()
        assert view.asum_data() == pytest.approx(math.fsum(map(abs, values)), rel=1e-13)
        assert view.sumsq_data() == pytest.approx(math.fsum(x * x for x in values), rel=1e-13)


# --- scales ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[::-2], lambda a: a.T[1:]])
def test_scale_multiplies_in_the_blobs_own_dtype(accelerator, dtype, view):
    array = np.arange(12).reshape(3, 4).astype(Blob((), dtype).dtype)
    factor = 100 if array.dtype.kind in "iu" else -0.5
    blob = Blob(array.shape, array.dtype, device=accelerator)
    blob.mutable_cpu_data()[...] = array
    blob.gpu_data()
    view(blob).scale_data(factor)
    part = view(array)
    part *= array.dtype.type(factor)
    np.testing.assert_array_equal(np.asarray(blob), array)


@pytest.mark.parametrize(
    ("dtype", "factor", "error"),
    [
        ("bool", 1, TypeError),
        ("int32", 0.5, TypeError),
        ("int32", 2.0, TypeError),
        ("int8", 300, ValueError),
        ("uint8", -1, ValueError),
        ("float32", 1j, TypeError),
        ("bfloat16", 1j, TypeError),
        ("float32", "2", TypeError),
        ("float32", None, TypeError),
        ("float32", True, TypeError),
        ("float32", np.ones(2), TypeError),
    ],
)
def test_scale_refuses_factors_the_dtype_cannot_take_and_changes_nothing(dtype, factor, error):
    blob = filled(numbers(dtype, 1, 0), "simulated:0", SYNCED)
    for scale in (blob.scale_data, blob.scale_diff):
        with pytest.raises(error):
            scale(factor)
    assert (blob.head, blob.diff_head, blob.tolist()) == (SYNCED, NONE, [1, 0])


def test_complex_blobs_scale_by_complex_and_halves_overflow_to_infinity():
    blob = filled(numbers("complex64", 1, 1j))
    blob.scale_data(1j)
    assert blob.tolist() == [1j, -1]
    half = filled(numbers("float16", 60000, -60000, 1))
    with np.errstate(over="ignore"):
        half.scale_data(2)
    assert half.tolist() == [math.inf, -math.inf, 2]
