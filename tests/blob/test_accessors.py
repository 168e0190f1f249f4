"""The accessors of data and diff on both sides, adoption by set_*, sharing, single elements."""

import numpy as np
import pytest
from made_blobs import CPU, DTYPES, GPU, NONE, PAIR, SYNCED, address, put, values

import syncblob
from syncblob import Blob


def host(array):
    """Convert an accessor's array, of either side, to NumPy."""
    for method in ("get", "asnumpy"):
        if hasattr(array, method):
            return getattr(array, method)()
    return np.asarray(array)


def blob_in(head, which="data"):
    """Make a Blob whose data or diff has a given head and holds one value."""
    blob = Blob((2, 3), device="simulated")
    put(blob, head, 5, which)
    return blob


def head_of(blob, which):
    return blob.head if which == "data" else blob.diff_head


# --- accessors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("which", ["data", "diff"])
def test_contents_pass_between_the_sides_in_every_dtype(accelerator, dtype, which):
    expected = values(dtype)
    blob = Blob((2, 3), dtype, device=accelerator)
    getattr(blob, f"overwrite_cpu_{which}")()[...] = expected
    up = getattr(blob, f"gpu_{which}")()
    assert up.dtype == expected.dtype
    np.testing.assert_array_equal(host(up), expected)
    getattr(blob, f"mutable_gpu_{which}")()
    down = getattr(blob, f"cpu_{which}")()
    assert down.tobytes() == expected.tobytes()


# --- set_* -------------------------------------------------------------------------------------


def setter(blob, side, which):
    return getattr(blob if which == "data" else blob.diff, f"set_{side}_data")


@pytest.mark.parametrize("which", ["data", "diff"])
@pytest.mark.parametrize("side", ["cpu", "gpu"])
@pytest.mark.parametrize("before", PAIR)
def test_set_adopts_the_array_and_its_contents_are_the_newest(simulated, side, which, before):
    # Newer contents of the other side are discarded.
    blob = blob_in(before, which)
    simulated.reset_counts()
    array = np.full((2, 3), 9, "f4")
    setter(blob, side, which)(array)
    assert head_of(blob, which) is (CPU if side == "cpu" else GPU)
    assert simulated.uploads + simulated.downloads == 0
    assert address(getattr(blob, f"{side}_{which}")()) == address(array)
    assert np.unique(blob.cpu_data() if which == "data" else blob.cpu_diff()).tolist() == [9]


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.zeros((2, 3)), TypeError, "expected dtype float32, got float64"),
        (np.zeros((2, 3), "i4"), TypeError, "expected dtype float32, got int32"),
        (np.zeros((2, 3), ">f4"), TypeError, "expected dtype float32, got >f4"),
        (np.zeros(5, "f4"), ValueError, "expected 6 elements"),
        (np.zeros((3, 2), "f4").T, ValueError, "C-contiguous"),
        (np.zeros((2, 6), "f4")[:, ::2], ValueError, "C-contiguous"),
        (np.broadcast_to(np.float32(1), (2, 3)), ValueError, "C-contiguous"),
        (np.frombuffer(bytes(24), "f4"), ValueError, "read-only"),
        (np.zeros(25, "u1")[1:].view("f4"), ValueError, "aligned"),
        ([1.0] * 6, TypeError, "dtype"),
        (None, TypeError, None),
    ],
)
@pytest.mark.parametrize("side", ["cpu", "gpu"])
def test_set_refuses_what_it_cannot_adopt_and_changes_nothing(side, array, error, message):
    blob = blob_in(SYNCED)
    before = (address(blob.cpu_data()), address(blob.gpu_data()), blob.head, blob.device)
    for which in ("data", "diff"):
        with pytest.raises(error, match=message):
            setter(blob, side, which)(array)
    assert before == (address(blob.cpu_data()), address(blob.gpu_data()), blob.head, blob.device)
    assert blob.diff_head is NONE


def test_set_takes_another_shape_of_the_same_count_as_caffe_does():
    blob = Blob((2, 3))
    blob.set_cpu_data(np.arange(6, dtype="f4"))
    assert blob.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("side", ["cpu", "gpu"])
def test_setting_the_buffer_it_already_has_is_harmless(side):
    # Caffe frees the buffer in this case.
    blob = blob_in(CPU if side == "cpu" else GPU)
    setter(blob, side, "data")(getattr(blob, f"mutable_{side}_data")())
    assert np.unique(blob.mutable_cpu_data()).tolist() == [5]
    blob.mutable_cpu_data()[...] = 6
    assert np.unique(blob.gpu_data()).tolist() == [6]


def test_a_blob_made_smaller_leaves_its_memory_for_the_data_that_is_set():
    blob, sharer = Blob(6, device="simulated"), Blob(2, device="simulated")
    blob.mutable_cpu_diff()[...] = 3
    blob.resize(2)
    sharer.share_data(blob)
    array = np.array([1, 2], "f4")
    borrow = blob.mutable_cpu_data()
    blob.set_cpu_data(array)
    assert (blob.tolist(), sharer.tolist()) == ([1, 2], [0, 0])
    assert blob.cpu_diff().tolist() == [3, 3]
    assert (blob.memory.nbytes, borrow.flags.writeable) == (8, False)
    blob.resize(5)
    blob.mutable_cpu_data()[...] = 4
    assert blob.gpu_data().tolist() == [4] * 5
    assert (array.tolist(), sharer.tolist()) == ([1, 2], [0, 0])


@pytest.mark.parametrize("view", [lambda b: b[0], lambda b: b.T, lambda b: b[:, 1:]])
def test_a_view_of_a_part_or_of_other_strides_cannot_be_set(view):
    blob = Blob((2, 3))
    with pytest.raises(ValueError, match=r"expected|strided"):
        view(blob).set_cpu_data(np.zeros(view(blob).shape, "f4"))


# --- diff, sharing, elements -------------------------------------------------------------------


def test_diff_is_created_by_the_first_use_and_not_before(simulated):
    blob = blob_in(SYNCED)
    simulated.reset_counts()
    calls = [blob.asum_diff, blob.sumsq_diff, lambda: blob.scale_diff(2), blob.copy]
    calls += [lambda: blob.resize(2, 2), lambda: blob.data, lambda: blob[0], lambda: repr(blob)]
    for call in [*calls, lambda: blob.diff_head, lambda: blob.nbytes, lambda: blob.shape]:
        call()
        assert blob.existing_diff() is None
    blob.resize(2, 3)
    assert blob.gpu_diff().tolist() == [[0] * 3] * 2
    assert simulated.host_allocations == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_single_elements_are_python_scalars(dtype):
    blob = Blob((2, 3), dtype, device="simulated")
    blob.overwrite_gpu_data()[...] = blob.overwrite_gpu_diff()[...] = values(dtype)
    expected = values(dtype)[1, 2].item()
    for element in (blob.data_at(1, 2), blob.diff_at((1, 2)), blob.T.data_at([2, 1])):
        assert element == expected
        assert type(element) is type(expected)
    assert blob.data_at() == values(dtype)[0, 0].item()
    assert blob.data_at(1) == values(dtype)[1, 0].item()


def test_an_element_of_a_blob_without_axes_and_none_of_one_without_elements():
    assert Blob(()).data_at() == 0
    for element in (Blob((0, 5)).data_at, Blob((0, 5)).diff_at):
        with pytest.raises(IndexError):
            element()


def test_the_shape_is_uploaded_once_for_each_shape(simulated):
    blob = Blob((2, 3, 4), device="simulated")
    for _ in range(3):
        shape = blob.gpu_shape()
    assert (shape.tolist(), shape.dtype) == ([2, 3, 4], np.int32)
    assert (simulated.uploads, simulated.uploaded_bytes) == (1, 12)
    blob.resize(2, 3, 4)
    blob.gpu_shape()
    assert simulated.uploads == 1
    blob.resize(6, 4)
    assert blob.gpu_shape().tolist() == [6, 4]
    assert blob.reshape(4, 3, 2).gpu_shape().tolist() == [4, 3, 2]
    assert Blob((), device="simulated").gpu_shape().shape == (0,)
    assert (blob.head, simulated.uploads) == (NONE, 3)


def test_the_shape_follows_its_blob_to_other_memory():
    blob, other = Blob(3, device="cpu"), Blob(3, device="simulated:1")
    with syncblob.use_device("simulated:0"):
        blob.gpu_shape()
    blob.share_data(other)
    first, second = syncblob.simulated(0), syncblob.simulated(1)
    uploads = first.uploads, second.uploads
    assert blob.gpu_shape().tolist() == [3]
    assert (first.uploads, second.uploads) == (uploads[0], uploads[1] + 1)


@pytest.mark.parametrize("which", ["data", "diff"])
def test_sharing_takes_the_memory_with_its_head_and_no_copy(simulated, which):
    other, blob = blob_in(GPU, which), Blob(6, device="simulated")
    getattr(blob, f"share_{which}")(other)
    assert head_of(blob, which) is GPU
    getattr(blob, f"mutable_gpu_{which}")()[0] = 1
    getattr(other, f"cpu_{which}")()
    assert head_of(blob, which) is SYNCED
    assert getattr(blob, f"cpu_{which}")().tolist() == [1, 5, 5, 5, 5, 5]
    assert simulated.downloads == 1
    assert head_of(blob, "diff" if which == "data" else "data") is NONE


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (lambda: Blob((2, 2)), ValueError),
        (lambda: Blob((2, 3), "int32"), TypeError),
        (lambda: Blob((3, 2)).T, ValueError),
        (lambda: Blob((4, 3))[2:], ValueError),
        (lambda: Blob((2, 3)).const, ValueError),
        (lambda: np.zeros((2, 3), "f4"), TypeError),
    ],
)
def test_sharing_refuses_other_counts_dtypes_layouts_and_kinds(other, error):
    blob = Blob((2, 3))
    memory = blob.memory
    for share in (blob.share_data, blob.share_diff):
        with pytest.raises(error, match=r"share_|expect"):
            share(other())
    assert (blob.memory, blob.existing_diff()) == (memory, None)


def test_a_device_of_which_no_arrays_are_kept_copies_once_beside_an_alias(simulated, monkeypatch):
    monkeypatch.setattr(type(simulated), "accessor_views", lambda *_: None)
    blob = Blob(4, device="simulated:0")
    blob.gpu_data()
    alias = np.asarray(blob.cpu)
    for value in 1, 2:
        alias[...] = value
        simulated.reset_counts()
        assert blob.gpu_data().tolist() == [value] * 4
        assert simulated.uploads == 1


def test_each_operand_beside_an_alias_is_copied_once(simulated):
    first, second = (Blob.asarray(np.full((4, 3), 2.0), copy=True) for _ in range(2))
    first, second = first.on("simulated:0"), second.on("simulated:0")
    aliases = np.from_dlpack(first.cpu), np.from_dlpack(second[0].cpu)
    for _ in range(2):
        simulated.reset_counts()
        assert (first + second).tolist() == [[4.0] * 3] * 4
        assert simulated.uploads == 2
    del aliases
