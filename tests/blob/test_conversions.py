"""Conversions to and from Blobs: scalars, lists, bytes, dtypes, devices, copies, pickles."""

import array
import copy
import operator
import pickle

import numpy as np
import pytest
import tiers
from made_blobs import CPU, DTYPES, GPU, PAIR, SPLIT, SYNCED, address, blob_in, values

import syncblob
from syncblob import Blob
from syncblob.memory import SyncedMemory

# --- scalars, lists, bytes ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_lists_and_scalars_are_numpys(dtype):
    blob, expected = blob_in(GPU, dtype), values(dtype)
    assert blob.tolist() == expected.tolist()
    assert blob.T.tobytes() == expected.T.tobytes()
    for order in "CFA":
        for view in (lambda a: a, lambda a: a.T, lambda a: a[:, ::2]):
            assert view(blob).tobytes(order) == view(expected).tobytes(order)
    for place in ((1, 2), (5,), ((0, 1),)):
        assert blob.item(*place) == expected.item(*place)
    assert type(blob.item(5)) is type(expected.item(5))
    assert blob.head is SYNCED
    for place in ((), (6,), (0, 3), (0, 0, 0)):
        with pytest.raises((ValueError, IndexError)):
            blob.item(*place)


def test_an_item_ends_no_borrow_of_a_thread_that_writes_meanwhile(monkeypatch):
    blob = Blob((4,), "int32", device="simulated")
    blob.mutable_cpu_data()[...] = 7
    newest, borrows = SyncedMemory.newest, []

    def newest_before_a_write(*args):
        found = newest(*args)
        borrows.append(blob.mutable_gpu_data())
        return found

    monkeypatch.setattr(SyncedMemory, "newest", newest_before_a_write)
    assert blob.item(1) == 7
    borrows[0][...] = 8
    assert blob.item(1) == 8


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.startswith("complex")])
def test_a_blob_without_axes_is_formatted_as_its_number(dtype):
    blob = blob_in(GPU, dtype, (2,))[1]
    number = blob.item()
    assert (f"{blob:5}", f"{blob:.2f}", f"{blob:e}") == (
        f"{number:5}",
        f"{number:.2f}",
        f"{number:e}",
    )
    assert "%.3f" % blob == "1.000"  # noqa: UP031  # the old formatting is tested
    with syncblob.record_transfers() as log:
        assert f"{blob_in(GPU, 'float32', ()) + 1.26:.1f}" == "1.3"
    assert [transfer.reason for transfer in log] == ["__format__"]


@pytest.mark.parametrize("convert", [bool, int, float, complex, operator.index])
@pytest.mark.parametrize("shape", [(1,), (2, 3), (0,)])
def test_a_blob_with_axes_converts_to_no_number_and_is_not_read(convert, shape):
    blob = blob_in(GPU, "int32", shape)
    with pytest.raises(TypeError, match="0-d Blob"):
        convert(blob)
    assert blob.head is GPU


def test_sizes_in_bytes_and_elements_and_no_hash():
    blob = Blob((2, 3), "complex128")[:, ::2]
    assert (blob.nbytes, blob.itemsize, blob.size, len(blob)) == (64, 16, 4, 2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(blob)


# --- astype and to_device ----------------------------------------------------------------------


@pytest.mark.parametrize("head", [CPU, GPU, SYNCED])
def test_astype_converts_on_the_blobs_device(simulated, head):
    blob = blob_in(head)
    simulated.reset_counts()
    result = blob.T.astype("int16")
    assert (result.dtype, result.shape, result.device) == (np.int16, (3, 2), blob.device)
    assert simulated.uploads + simulated.downloads == 0
    assert result.tolist() == values("int16").T.tolist()
    assert blob.astype("float32", copy=False) is blob is not blob.astype("float32")


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_astype_lays_out_and_casts_as_numpy_does(order):
    blob, array = blob_in(GPU).T, values().T
    result, expected = (x.astype("f8", order, "safe") for x in (blob, array))
    assert (result.strides, result.tolist()) == (expected.strides, expected.tolist())
    assert (blob.astype("f4", order, copy=False) is blob) is (order != "C")
    for casting in ("safe", "no"):
        with pytest.raises(TypeError, match=f"'{casting}'"):
            blob.astype("int16", casting=casting)
    with pytest.raises(ValueError, match="casting"):
        blob.astype("int16", casting="brave")
    with pytest.raises(ValueError, match="order"):
        blob.astype("f4", "brave", copy=False)


@pytest.mark.parametrize("target", tiers.dtypes([d for d in DTYPES if "complex" not in d]))
@pytest.mark.parametrize("source", tiers.dtypes([d for d in DTYPES if "complex" not in d]))
def test_astype_gives_numpys_values(source, target):
    expected = values(source).astype(Blob((), target).dtype)
    assert blob_in(CPU, source).astype(target).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["S3", "O", "datetime64[s]", ">f4", "longdouble", "nonsense", 5])
def test_dtypes_a_blob_cannot_hold_are_refused(dtype):
    with pytest.raises(TypeError):
        Blob(2, dtype)
    if dtype in {"nonsense", 5}:
        with pytest.raises(TypeError, match="expected a dtype"):
            blob_in(CPU).astype(dtype)


def test_to_device_checks_the_device_before_it_moves_anything():
    blob = blob_in(GPU)
    for device, error in (("cuda:99", syncblob.NoDeviceError), ("tpu", ValueError)):
        with pytest.raises(error):
            blob.to_device(device)
    assert blob.head is GPU


# --- copies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Blob.copy, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("head", PAIR)
def test_a_copy_is_independent_and_moves_nothing(simulated, head, make):
    blob = blob_in(head)
    if head:
        blob.diff[...] = 4
    expected = values("float32").tolist() if head else [[0] * 3] * 2
    simulated.reset_counts()
    result = make(blob)
    # If neither side holds everything, the missing bytes are uploaded to the device.
    assert simulated.uploaded_bytes == (4 if head is SPLIT else 0)
    assert simulated.downloads == 0
    assert result.device == blob.device
    assert result.head is {SYNCED: GPU, SPLIT: GPU}.get(head, head)
    assert (result.existing_diff() is None) == (not head)
    blob[...] = blob.diff[...] = 7
    assert result.tolist() == expected
    assert result.diff.tolist() == [[4 if head else 0] * 3] * 2
    result[...] = 1
    assert blob.tolist() == [[7] * 3] * 2


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_a_copy_in_any_order_is_no_view(order):
    blob = blob_in(GPU)
    result = blob.T.copy(order)
    assert result.base is None
    assert result.flags.owndata
    assert result.T.base is result
    assert result.strides == np.asarray(blob.T).copy(order).strides


# --- asarray -----------------------------------------------------------------------------------


class Converted:
    """An object that NumPy can convert only by making a new array."""

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("copy=False, and only a new array can be had")
        return np.arange(3.0, dtype=dtype)


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (3, "int64"),
        (2.5, "float64"),
        (1j, "complex128"),
        (True, "bool"),
        ([1, 2], "int64"),
        ([[1.5], [2.5]], "float64"),
        ((True, False), "bool"),
        ([], "float64"),
        (np.float32(2), "float32"),
        (Converted(), "float64"),
        (array.array("h", [1, 2]), "int16"),
        (b"ab", None),
        ("text", None),
        ([None], None),
        ({1: 2}, None),
        (np.zeros(2, "datetime64[s]"), None),
        (bytearray(b"ab"), "uint8"),
        (memoryview(bytearray(b"ab")), "uint8"),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), None),
        (np.ones((1, 2)).view(type("Sub", (np.ndarray,), {})), "float64"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_whatever_numpy_converts_becomes_a_blob(x, dtype):
    if dtype is None:
        with pytest.raises(TypeError):
            Blob.asarray(x)
        return
    blob, expected = Blob.asarray(x), np.asarray(x)
    assert (blob.shape, blob.dtype) == (expected.shape, dtype)
    assert blob.tolist() == expected.tolist()
    assert type(blob.cpu_data()) is np.ndarray
    assert syncblob.asarray(x, dtype="complex64").tolist() == expected.astype("c8").tolist()
    moved = Blob.asarray(x, device="simulated")
    assert (moved.device, moved.gpu_data().tolist()) == ("simulated:0", expected.tolist())


ADOPTABLE = {
    "C order": lambda a: a,
    "Fortran order": lambda a: a.reshape(4, 3, 2).T,
    "reversed": lambda a: a[::-1, :, ::-1],
    "part": lambda a: a[1:],
    "permuted": lambda a: a.transpose(1, 0, 2)[:, :, None],
    "no elements": lambda a: a[:, :0],
    "no axes": lambda a: a[1, 2, 3, ...],
}
NOT_ADOPTABLE = {
    "gaps": lambda a: a[:, :, ::2],
    "inner part": lambda a: a[:, 1:],
    "broadcast": lambda a: np.lib.stride_tricks.as_strided(a, (2, 3), (0, 4)),
    "overlapping": lambda a: np.lib.stride_tricks.as_strided(a, (3, 3), (4, 4)),
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype),
    "byte-swapped": lambda a: a.astype(">f4"),
    "unaligned": lambda a: np.frombuffer(bytearray(a.nbytes + 1), "f4", a.size, 1),
    "list": lambda a: a.tolist(),
    "scalar": lambda a: a[0, 0, 0],
    "bytes-like, read-only": lambda a: memoryview(a.tobytes()),
    "converted": lambda _: Converted(),
}


@pytest.mark.parametrize("name", ADOPTABLE)
def test_memory_of_exactly_the_elements_is_adopted_in_any_order(simulated, name):
    whole = values("float32", (2, 3, 4))
    part = ADOPTABLE[name](whole)
    before = whole.copy()
    for kwargs in ({}, {"dtype": "float32", "copy": False}):
        blob = Blob.asarray(part, **kwargs)
        assert (blob.shape, blob.strides) == (part.shape, part.strides) or not part.size
        assert address(blob.cpu_data()) == address(part) or not part.size
    assert (blob.head, blob.device, simulated.host_allocations) == (CPU, "cpu", 0)
    blob.memory.side_of(simulated)
    blob.mutable_gpu_data()[...] *= -1
    np.testing.assert_array_equal(blob.cpu_data(), ADOPTABLE[name](-before))
    changed = np.count_nonzero(whole != before)
    assert changed == np.count_nonzero(ADOPTABLE[name](before))


@pytest.mark.parametrize("name", NOT_ADOPTABLE)
def test_other_memory_is_copied_or_with_copy_false_refused(name):
    source = NOT_ADOPTABLE[name](values("float32", (2, 3, 4)))
    expected = np.array(source)
    with pytest.raises(ValueError, match="copy"):
        Blob.asarray(source, copy=False)
    blob = Blob.asarray(source)
    assert blob.dtype == expected.dtype.newbyteorder("=")
    assert blob.tolist() == expected.tolist()
    blob[...] = 9
    np.testing.assert_array_equal(np.array(source), expected)


@pytest.mark.parametrize("name", [*ADOPTABLE, *NOT_ADOPTABLE])
def test_copy_true_always_copies(name):
    whole = values("float32", (2, 3, 4))
    source = {**ADOPTABLE, **NOT_ADOPTABLE}[name](whole)
    blob = Blob.asarray(source, copy=True)
    assert blob.tolist() == np.asarray(source).tolist()
    blob[...] = 99
    np.testing.assert_array_equal(whole, values("float32", (2, 3, 4)))


@pytest.mark.parametrize("kwargs", [{"dtype": "float64"}, {"device": "simulated"}])
def test_copy_false_refuses_conversions_and_moves(kwargs):
    for x in (values("float32"), blob_in(CPU), bytearray(8)):
        with pytest.raises(ValueError, match="copy=False"):
            Blob.asarray(x, copy=False, **kwargs)
        assert Blob.asarray(x, **kwargs).size == np.asarray(x).size


def test_asarray_of_a_blob_is_that_blob_where_nothing_changes():
    blob = blob_in(GPU)
    for kwargs in ({}, {"dtype": "float32"}, {"device": "simulated:0"}, {"copy": False}):
        assert Blob.asarray(blob, **kwargs) is blob
    for kwargs in ({"copy": True}, {"dtype": "int8"}, {"device": "cpu"}, {"device": "simulated:1"}):
        for each in (blob, blob.T, blob[0].const):
            result = Blob.asarray(each, **kwargs)
            assert result.memory is not blob.memory
            assert result.tolist() == each.tolist()
            assert result.device == kwargs.get("device", "simulated:0")
            result[...] = 0


@pytest.mark.parametrize("named", [False, True])
def test_arrays_for_an_accelerator_are_copied_and_move_once_when_used(simulated, named):
    array = values("float32")
    with syncblob.use_device("cpu" if named else "simulated"):
        blob = Blob.asarray(array, device="simulated" if named else None)
        shared = Blob.from_dlpack(array)
        pinned = Blob.asarray(array, copy=False)
    assert (blob.device, blob.head, simulated.uploads) == ("simulated:0", CPU, 0)
    for each in (shared, pinned):
        assert each.device == "cpu"
        assert np.shares_memory(each.cpu_data(), array)
    array[...] = 0
    for _ in range(3):
        assert (blob + 0).tolist() == values("float32").tolist()
    assert (blob.head, simulated.uploads) == (SYNCED, 1)


# --- pickles -----------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", tiers.dtypes(DTYPES))
def test_pickles_of_every_protocol_bring_data_and_diff_back(protocol, dtype):
    blob = blob_in(GPU, dtype)
    blob.diff[0] = 1
    assert len(pickle.dumps(Blob((1000, 1000)), protocol)) < 1000
    for each in (blob, blob.T[::-1], blob[0, 0], blob[:, :0]):
        result = pickle.loads(pickle.dumps(each, protocol))
        assert (type(result), result.shape, result.dtype) == (Blob, each.shape, each.dtype)
        assert result.tolist() == each.tolist()
        assert result.diff.tolist() == each.diff.tolist()
        result[...] = 0


@pytest.mark.parametrize("device", ["cpu", "simulated:1"])
@pytest.mark.parametrize("side", ["cpu", "gpu"])
def test_a_pickle_brings_device_and_accelerator_back_whoever_was_written_last(device, side):
    blob = Blob(2, device=device)
    blob.memory.side_of(syncblob.simulated(1))
    getattr(blob, f"mutable_{side}_data")()[...] = 3
    blob.diff[...] = 1
    for each in (blob, blob[:1], blob.const, blob.const[1:]):
        result = pickle.loads(pickle.loads(pickle.dumps(pickle.dumps(each))))
        assert result.flags.writeable == each.flags.writeable == result.diff.flags.writeable
        assert str(each.device) == str(result.device) == str(result.diff.device) == device
        assert result.gpu_data().tolist() == [3] * each.size
        assert result.gpu_diff().tolist() == [1] * each.size
        assert str(result.memory.accelerator.device) == "simulated:1"
        assert str((result + 1).device) == device


@pytest.mark.parametrize("device", [b"cuda:123456", b"otherbus:12"])
def test_a_pickle_of_a_device_that_cannot_be_used_comes_back_on_the_host(device):
    blob = Blob(2, device="simulated:1")
    blob[...] = 4
    result = pickle.loads(pickle.dumps(blob, 4).replace(b"simulated:1", device))
    assert (str(result.device), result.tolist()) == ("cpu", [4, 4])


@pytest.mark.parametrize(
    "kind",
    [bytes, bytearray, lambda buffer: memoryview(bytearray(b"?" + bytes(buffer)))[1:]],
    ids=["read-only", "writable", "unaligned"],
)
def test_out_of_band_buffers_hold_the_bytes_and_what_is_loaded_is_nobody_elses(kind):
    blob, buffers = blob_in(GPU), []
    blob.diff[...] = 5
    stream = pickle.dumps(blob, 5, buffer_callback=buffers.append)
    assert [buffer.raw().nbytes for buffer in buffers] == [24, 24]
    assert address(np.frombuffer(buffers[0])) == address(blob.cpu_data())
    received = [kind(buffer) for buffer in buffers]
    result = pickle.loads(stream, buffers=received)
    assert (result.tolist(), result.cpu_diff().tolist()) == (blob.tolist(), [[5] * 3] * 2)
    assert result.cpu_data().flags.aligned
    result[...] = 8
    assert received[0] == bytes(buffers[0])
    twin = pickle.loads(stream, buffers=buffers)
    twin.mutable_cpu_data()[...] = 9
    assert blob.tolist() == values("float32").tolist()
    assert pickle.loads(pickle.dumps(result)).tolist() == [[8] * 3] * 2


def test_what_is_loaded_twice_from_the_buffers_of_a_strided_view_is_no_twin():
    blob = Blob.asarray(np.zeros((2, 3), "float32"), copy=True)
    buffers = []
    pickled = pickle.dumps(blob.T, protocol=5, buffer_callback=buffers.append)
    first, second = (pickle.loads(pickled, buffers=buffers) for _ in range(2))
    first[...] = 9
    assert not np.any(second)


@pytest.mark.parametrize("method", [Blob.flatten, Blob.copy_from, Blob.from_dlpack, Blob.item])
def test_errors_name_the_method_and_it_can_be_pickled(method):
    with pytest.raises(TypeError, match=rf"^\w+\.{method.__name__}\(\) "):
        method(*[Blob(3)] * (method is not Blob.from_dlpack), unknown=1)
    assert pickle.loads(pickle.dumps(method)) == method


@pytest.mark.parametrize("dtype", [">f8", object, str, "S3", "M8[s]", np.longdouble, "V4"])
@pytest.mark.parametrize("head", [CPU, GPU])
def test_astype_to_a_dtype_that_no_blob_has_gives_numpys_array(simulated, head, dtype):
    blob = blob_in(head)
    simulated.reset_counts()
    for view in (lambda a: a, lambda a: a[:, ::2], lambda a: a.T):
        expected = view(values()).astype(dtype)
        result = view(blob).astype(dtype)
        assert (type(result), result.dtype) == (np.ndarray, expected.dtype)
        assert result.tolist() == expected.tolist()
    assert simulated.uploads == 0
    assert simulated.downloaded_bytes == (24 if head is GPU else 0)
    assert blob.T.astype(dtype, "F").flags.f_contiguous
    with pytest.raises(TypeError, match="safe"):
        blob_in(head, "float64").astype(">f4", casting="safe")
    other = "simulated" if head is CPU else "cpu"
    if other == "simulated":
        with syncblob.compute_only_on(other), pytest.raises(syncblob.DeviceGuardError):
            blob.astype(dtype)
