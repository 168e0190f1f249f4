"""Blobs passed to NumPy, and to libraries that call it: __array__, buffers, from_dlpack."""

import ctypes
import gc
import hashlib
import io
import struct
import sys
import weakref
import zlib

import numpy as np
import pytest
from call_texts import functions
from made_blobs import CPU, DTYPES, GPU, NONE, PAIR, SPLIT, SYNCED, address, blob_in, values

import syncblob
from syncblob import Blob

VIEWS = functions(
    "a; a.T; a[1:]; a[:, ::2]; a[::-1, ::-1]; a[:, None]; a[1, 2, ...]; a[:, :0]", "a", globals()
)


# --- __array__ ---------------------------------------------------------------------------------


@pytest.mark.parametrize("const", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_asarray_is_the_blobs_own_memory_to_read(dtype, const):
    blob = blob_in(CPU, dtype)
    array = np.asarray(blob.const if const else blob)
    assert address(array) == address(blob.mutable_cpu_data())
    assert (array.shape, array.dtype, array.strides) == (blob.shape, blob.dtype, blob.strides)
    assert array.tobytes() == values(dtype).tobytes()
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0
    blob[...] = 1
    assert array.tolist() == [[1] * 3] * 2


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["int8", "complex128", "bfloat16"])
def test_views_are_exported_with_their_strides(view, dtype):
    view = VIEWS[view]
    blob, expected = view(blob_in(GPU, dtype)), view(values(dtype))
    array = np.asarray(blob)
    assert array.shape == expected.shape
    long = [axis for axis, dim in enumerate(array.shape) if dim > 1 and array.size]
    assert [array.strides[axis] for axis in long] == [expected.strides[axis] for axis in long]
    assert array.tobytes() == expected.tobytes()
    assert address(array) == address(blob.cpu_data())


@pytest.mark.parametrize(
    ("head", "after", "downloads"),
    [(NONE, CPU, 0), (CPU, CPU, 0), (GPU, SYNCED, 24), (SYNCED, SYNCED, 0), (SPLIT, CPU, 20)],
)
def test_reading_takes_the_const_path(simulated, head, after, downloads):
    blob = blob_in(head)
    simulated.reset_counts()
    for _ in range(3):
        assert np.asarray(blob).tolist() == (values() * bool(head)).tolist()
    assert (blob.head, simulated.downloads, simulated.uploads) == (after, bool(downloads), 0)
    assert simulated.downloaded_bytes == downloads


COPIES = functions(
    """
    np.array(b); np.array(b, copy=True); np.asarray(b, copy=True); np.asarray(b, dtype='float64');
    np.asarray(b, dtype=Blob((), 'bfloat16').dtype); b.__array__(copy=True);
    b.__array__('float64'); b.__array__(np.dtype('int16'), copy=True);
    np.from_dlpack(b, device='cpu', copy=True)
    """,
    "b",
    globals(),
)


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("head", [CPU, GPU, SPLIT])
@pytest.mark.parametrize("const", [False, True])
def test_copies_and_conversions_are_private_and_writable_and_take_the_const_path(make, head, const):
    blob = blob_in(head)
    array = make(blob.const if const else blob)
    assert array.astype("f4").tolist() == values().tolist()
    assert blob.head is (SYNCED if head is GPU else CPU)
    array[...] = 9
    assert blob.tolist() == values().tolist()


@pytest.mark.parametrize("head", PAIR)
@pytest.mark.parametrize(
    "ask", [np.asarray, np.array, lambda b, copy: np.array(b.cpu.const, copy=copy)]
)
def test_copy_false_lends_the_host_side_after_a_download_into_it(simulated, head, ask):
    blob = blob_in(head)
    simulated.reset_counts()
    array = ask(blob, copy=False)
    assert simulated.downloaded_bytes == {GPU: 24, SPLIT: 20}.get(head, 0)
    assert address(array) == address(blob.cpu_data())
    assert array.tolist() == (values() * bool(head)).tolist()
    assert not array.flags.writeable


CALLS = [
    lambda blob, dtype: np.asarray(blob, dtype, copy=False),
    lambda blob, dtype: blob.__array__(dtype, copy=False),
]


@pytest.mark.parametrize(("head", "dtype"), [(GPU, "float64"), (CPU, "float64"), (SYNCED, "int8")])
@pytest.mark.parametrize("call", CALLS)
def test_copy_false_refuses_conversions(head, dtype, call):
    blob = blob_in(head)
    with pytest.raises(ValueError, match="copy"):
        call(blob, dtype)
    assert blob.head is head


@pytest.mark.parametrize("export", [np.asarray, np.from_dlpack, Blob.mutable_cpu_data])
def test_an_array_keeps_the_bytes_and_no_longer_than_it_lives(export):
    blob = blob_in(CPU)
    memory, gone = weakref.ref(blob.memory), weakref.ref(blob)
    array = export(blob)
    before = sys.getrefcount(blob.memory)
    for _ in range(5):
        export(blob)
    after = sys.getrefcount(blob.memory)
    assert after == before
    del blob
    gc.collect()
    assert gone() is memory() is None
    noise = [Blob((2, 3)).mutable_cpu_data() for _ in range(50)]
    assert len(noise) == 50
    assert array.tolist() == values().tolist()
    del array
    gc.collect()
    assert gone() is memory() is None


@pytest.mark.parametrize("how", ["set", "share", "grow"])
def test_memory_that_was_replaced_is_given_back(how):
    blob, array = Blob(3), np.ones(3, "f4")
    blob.set_cpu_data(array)
    assert np.asarray(blob).tolist() == blob.cpu_data().tolist() == [1, 1, 1]
    gone = weakref.ref(array)
    del array
    if how == "set":
        blob.set_cpu_data(np.zeros(3, "f4"))
    elif how == "share":
        blob.share_data(Blob(3))
    else:
        blob.resize(4)
    assert gone() is None
    assert set(blob.tolist()) == {0}


def test_to_numpy_is_asarray_or_a_copy():
    blob = blob_in(GPU)
    array = blob.to_numpy()
    assert (address(array), array.flags.writeable, blob.head) == (
        address(blob.cpu_data()),
        False,
        SYNCED,
    )
    for private in (blob.to_numpy(copy=True), blob.to_numpy("f8")):
        private[...] = 0
    assert blob.tolist() == values().tolist()


def test_ctypes_is_the_host_side_to_be_written():
    blob = blob_in(GPU)
    pointer = blob[1].ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    for number in range(3):
        assert blob.gpu_data()[1, 0] == 3 + number  # the last write
        pointer[0] = 4 + number
    assert blob.gpu_data()[1].tolist() == [6, 4, 5]
    del pointer
    assert blob.T.ctypes.strides[:] == [4, 12]
    synced = blob_in(SYNCED).const
    ctypes.memmove(read := ctypes.create_string_buffer(24), synced.ctypes, 24)
    assert (read.raw, synced.head) == (values().tobytes(), SYNCED)


# --- buffers ------------------------------------------------------------------------------------


CONSUMERS = functions(
    """
    memoryview(blob); io.BytesIO().write(blob); io.BytesIO(b'abcdef').readinto(blob);
    np.frombuffer(blob, 'uint8'); np.ndarray(blob.shape, blob.dtype, buffer=blob);
    hashlib.sha256(blob)
    """,
    "blob",
    globals(),
)


@pytest.mark.parametrize("consume", CONSUMERS.values(), ids=CONSUMERS)
def test_a_blob_has_no_buffer(consume):
    """Some consumers release the buffer at once and keep its address."""
    blob = blob_in(GPU, "uint8")
    with pytest.raises(TypeError):
        consume(blob)
    assert blob.head is GPU


@pytest.mark.parametrize("head", [CPU, GPU])
def test_every_consumer_of_buffers_has_a_spelling(head):
    """The consumers in the table of docs/protocols.md."""
    expected = values().tobytes()
    blob = blob_in(head)
    file = io.BytesIO()
    file.write(blob.cpu_data())
    assert file.getvalue() == blob.tobytes() == expected
    assert hashlib.sha256(blob.cpu_data()).digest() == hashlib.sha256(expected).digest()
    assert zlib.crc32(blob.cpu_data()) == zlib.crc32(expected)
    assert struct.unpack_from("6f", blob.cpu_data()) == tuple(range(6))
    assert np.asarray(blob).reshape(-1).view("u1").tobytes() == expected
    assert io.BytesIO(bytes(24)).readinto(blob.overwrite_cpu_data()) == 24
    assert set(blob.gpu_data().ravel().tolist()) == {0}


# --- numpy.testing -------------------------------------------------------------------------------

ASSERTIONS = {
    name: getattr(np.testing, name)
    for name in """
        assert_equal assert_almost_equal assert_array_equal assert_array_almost_equal
        assert_allclose assert_array_almost_equal_nulp assert_array_max_ulp
    """.split()
}


@pytest.mark.parametrize("device", ["cpu", "simulated"])
@pytest.mark.parametrize("numbers", [[1, 2], [[0.0, -1], [2, 3]], [np.nan, 1], [np.nan] * 2, 5.0])
@pytest.mark.parametrize("name", ASSERTIONS)
def test_numpys_assertions_compare_blobs_as_arrays(name, numbers, device):
    array = np.array(numbers, "f8")
    blob, other = (syncblob.asarray(array, device=device, copy=True) for _ in range(2))
    try:
        ASSERTIONS[name](array, array.copy())
    except AssertionError:
        # Of NaN, in units in the last place.
        return
    pairs, unlike = [(blob, array), (array, blob)], [(blob + 1, array), (array, blob + 1)]
    if blob.shape and name in {"assert_equal", "assert_almost_equal"}:
        # Of two Blobs they ask for one truth value, as of two arrays of another library.
        with pytest.raises(TypeError, match=r"any\(\) or all\(\)"):
            ASSERTIONS[name](blob, other)
    else:
        pairs, unlike = [(blob, other), *pairs], [(blob, other + 1), *unlike]
    for pair in pairs:
        ASSERTIONS[name](*pair)
    if np.isnan(array).all():
        return
    for pair in unlike:
        with pytest.raises(AssertionError):
            ASSERTIONS[name](*pair)
