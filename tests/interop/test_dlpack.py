"""DLPack in both directions: every keyword and refusal, capsules byte by byte, lifetimes."""

import ctypes
import gc
import weakref

import numpy as np
import pytest
import tiers
from call_texts import texts
from made_blobs import CPU, GPU, NONE, PAIR, SPLIT, SYNCED, address, blob_in, values

import syncblob
from syncblob import Blob

# DLPack's type codes and bits.
CODES = {
    "bool": (6, 8),
    **{f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (2, bits) for bits in (16, 32, 64)},
    "bfloat16": (4, 16),
    **{f"complex{bits}": (5, bits) for bits in (64, 128)},
}
READ_ONLY, IS_COPIED = 1, 2
VERSIONED = {"max_version": (1, 0)}


class Tensor(ctypes.Structure):  # these three are DLTensor and its managers in dlpack.h
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Legacy(ctypes.Structure):
    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


KINDS = {b"dltensor": Legacy, b"dltensor_versioned": Versioned}
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
name_of = ctypes.pythonapi.PyCapsule_GetName
name_of.restype, name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


def look(capsule):
    """Return the managed tensor of a capsule, and keep the capsule with it."""
    name = name_of(capsule)
    managed = KINDS[name].from_address(pointer_of(capsule, name))
    managed.capsule = capsule
    return managed


# --- capsules ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", tiers.dtypes(CODES))
@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 3), (2, 0)])
@pytest.mark.parametrize("head", [CPU, GPU])
def test_a_capsule_describes_the_blobs_own_memory(dtype, max_version, head):
    blob = blob_in(head, dtype)
    managed = look(blob.__dlpack__(max_version=max_version))
    versioned = max_version is not None and max_version >= (1, 0)
    assert type(managed) is (Versioned if versioned else Legacy)
    tensor = managed.tensor
    side = blob.cpu_data() if head is CPU else blob.gpu_data()
    assert tensor.data + tensor.byte_offset == address(side)
    assert (tensor.code, tensor.bits, tensor.lanes) == (*CODES[dtype], 1)
    assert (tensor.ndim, tensor.shape[:2]) == (2, [2, 3])
    # NumPy before 2.4 leaves out the strides of contiguous arrays.
    assert not tensor.strides or tensor.strides[:2] == [3, 1]
    assert tuple(tensor.device) == blob.__dlpack_device__() == (1, int(head is GPU))
    if versioned:
        assert (managed.version[0], managed.flags) == (1, 0)
    assert blob.head is head


@pytest.mark.parametrize(
    "view", [lambda a: a.T, lambda a: a[1:], lambda a: a[:, ::2], lambda a: a[1, 2, ...]]
)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_strides_and_offsets_of_views_in_elements(view, dtype):
    blob, expected = view(blob_in(CPU, dtype)), view(values(dtype))
    tensor = look(blob.__dlpack__()).tensor
    assert tensor.shape[: tensor.ndim] == list(expected.shape)
    steps = [step // expected.itemsize for step in expected.strides]
    # NumPy before 2.4 leaves out the strides of contiguous arrays.
    if tensor.strides or not expected.flags.c_contiguous:
        assert tensor.strides[: tensor.ndim] == steps
    assert tensor.data + tensor.byte_offset == address(blob.cpu_data())


@pytest.mark.parametrize("const", [False, True])
@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_flags_tell_what_is_read_only_and_what_is_a_copy(const, copy, dtype):
    blob = blob_in(SYNCED, dtype)
    managed = look((blob.const if const else blob).__dlpack__(copy=copy, **VERSIONED))
    assert managed.flags == (IS_COPIED if copy else READ_ONLY if const else 0)
    assert (managed.tensor.data == address(blob.gpu_data())) == (not copy)
    assert blob.head is (SYNCED if const or copy else GPU)


@pytest.mark.skipif(
    not hasattr(np.dtypes, "register_dlpack_dtype"), reason="NumPy takes it since version 2.5"
)
def test_numpy_takes_bfloat16():
    blob = blob_in(CPU, "bfloat16")
    array = np.from_dlpack(blob)
    assert array.dtype == values("bfloat16").dtype
    array[0, 0] = 5
    assert blob[0, 0].item() == 5
    assert not np.from_dlpack(blob.const).flags.writeable


# --- sides, refusals ---------------------------------------------------------------------------


@pytest.mark.parametrize("head", PAIR)
@pytest.mark.parametrize("wanted", [(1, 0), (1, 1), None])
def test_the_own_side_is_lent_to_write_and_the_other_gives_a_private_copy(simulated, head, wanted):
    blob = blob_in(head)
    device, newest = blob.device, blob_in(head).tolist()
    own = (1, int(device != "cpu"))
    simulated.reset_counts()
    managed = look(blob.__dlpack__(**VERSIONED, dl_device=wanted))
    assert tuple(managed.tensor.device) == (wanted or own)
    assert managed.flags == (0 if wanted in (None, own) else IS_COPIED)
    assert blob.device == device
    # Of a split Blob, four bytes are newest on the host, and the others on the device.
    on_host, on_device = {NONE: (0, 0), CPU: (24, 0), GPU: (0, 24), SPLIT: (4, 20)}.get(
        head, (0, 0)
    )
    moved = simulated.uploaded_bytes, simulated.downloaded_bytes
    assert moved == ((on_host, 0) if (wanted or own) == (1, 1) else (0, on_device))
    if managed.flags:
        ctypes.memset(managed.tensor.data, 0xFF, 24)
        assert not blob.memory.aliased
    else:
        side = blob.mutable_cpu_data() if own == (1, 0) else blob.mutable_gpu_data()
        assert managed.tensor.data == address(side)
    assert blob.tolist() == newest


def test_dl_device_may_name_the_accelerator_that_the_accessors_would_use():
    blob = Blob(3)
    blob.mutable_cpu_data()[...] = 1
    with syncblob.use_device("simulated:0"):
        tensor = look(blob.__dlpack__(dl_device=(1, 1))).tensor
    assert (tuple(tensor.device), blob.head, blob.device) == ((1, 1), SYNCED, "cpu")


REFUSALS = {
    "other accelerator": {"dl_device": (1, 5)},
    "cuda": {"dl_device": (2, 0)},
    "stream on the host": {"stream": 1, "dl_device": (1, 0)},
    "stream on the host, no order": {"stream": -1},
    "stream, of a copy": {"stream": 2, "copy": True},
}


@pytest.mark.parametrize("const", [False, True])
def test_the_host_may_reach_a_simulated_device_where_a_copy_is_forbidden(simulated, const):
    blob = blob_in(GPU)
    simulated.reset_counts()
    view = blob.const if const else blob
    capsule = view.__dlpack__(**VERSIONED, copy=False, dl_device=(1, 0))
    assert tuple(look(capsule).tensor.device) == (1, 0)
    assert look(capsule).tensor.data == address(blob.gpu_data())
    assert (blob.head, simulated.downloads, simulated.host_allocations) == (GPU, 0, 0)


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("const", [False, True])
def test_a_refusal_is_a_buffer_error_and_changes_nothing(simulated, name, const):
    blob = blob_in(GPU)
    simulated.reset_counts()
    with pytest.raises(BufferError):
        (blob.const if const else blob).__dlpack__(**VERSIONED, **REFUSALS[name])
    assert (blob.head, simulated.downloads, simulated.host_allocations) == (GPU, 0, 0)


@pytest.mark.parametrize("max_version", [None, (0, 8)])
def test_a_const_blob_refuses_consumers_that_cannot_honour_it(max_version):
    with pytest.raises(BufferError, match=r"1\.0"):
        Blob(2).const.__dlpack__(max_version=max_version)


class Lent:
    """A producer of one capsule."""

    def __init__(self, capsule):
        self.__dlpack__ = lambda **_: capsule


@pytest.mark.parametrize("kwargs", [{}, VERSIONED, {"copy": True}])
@pytest.mark.parametrize("consumed", [False, True])
def test_capsules_keep_the_bytes_as_long_as_they_live_and_leak_nothing(kwargs, consumed):
    blob = blob_in(CPU)
    owner = weakref.ref(blob.memory.buffer(0).base)
    held = [blob.__dlpack__(**kwargs) for _ in range(4)]
    if consumed:
        held = [np.from_dlpack(Lent(capsule)) for capsule in held]
    gone = weakref.ref(blob.memory)
    del blob
    assert gone() is None
    assert (owner() is None) == bool(kwargs.get("copy"))
    if consumed:
        assert held[0].tolist() == values().tolist()
    held.clear()
    assert owner() is None


# --- import ------------------------------------------------------------------------------------


class Producer:
    """An array that has only the DLPack methods."""

    def __init__(self, array):
        self.array = array
        self.asked = []

    def __dlpack__(self, **kwargs):
        self.asked.append(kwargs)
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class KnowsNoKeywords(Producer):
    """A producer from before 2021."""

    def __dlpack__(self):
        return self.array.__dlpack__()


class KnowsStreamOnly(Producer):
    """A producer of DLPack before 1.0."""

    def __dlpack__(self, *, stream=None):
        return self.array.__dlpack__(stream=stream)


class IgnoresKeywords(Producer):
    """A producer that accepts every keyword, and returns an unversioned capsule, as JAX does."""

    def __dlpack__(self, **_):
        return self.array.__dlpack__()


class HandWritten:
    """An unversioned producer that does not use NumPy, and counts the calls of its deleter."""

    def __init__(self, array, *, null=False, strides=True, dtype=(2, 32, 1)):
        self.array, self.deleted = array, 0
        self.dims = (ctypes.c_int64 * 2)(*array.shape)
        self.steps = (ctypes.c_int64 * 2)(*(step // array.itemsize for step in array.strides))
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._delete)
        tensor = Tensor(None if null else address(array), (1, 0), 2, *dtype, self.dims)
        tensor.strides = self.steps if strides else None
        self.managed = Legacy(tensor, None, ctypes.cast(self.deleter, ctypes.c_void_p))

    def _delete(self, _):
        self.deleted += 1

    def __dlpack__(self, *, stream=None):
        assert stream is None
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize("take", [Blob.from_dlpack, Blob.asarray, syncblob.from_dlpack])
@pytest.mark.parametrize("view", [lambda a: a, lambda a: a.T, lambda a: a[::-1, ::-1]])
def test_memory_of_any_producer_is_adopted_to_write(take, view):
    array = view(values())
    blob = take(Producer(array))
    assert (blob.shape, blob.strides, blob.head) == (array.shape, array.strides, CPU)
    assert address(blob.cpu_data()) == address(array)
    blob[...] = 7
    assert np.unique(array).tolist() == [7]


@pytest.mark.parametrize("dtype", [d for d in CODES if d != "bfloat16"])
@pytest.mark.parametrize("producer", [Producer, KnowsNoKeywords])
def test_every_dtype_comes_in(dtype, producer):
    array = values(dtype)
    blob = Blob.from_dlpack(producer(array))
    assert (blob.dtype, blob.tolist()) == (dtype, array.tolist())
    assert (address(blob.cpu_data()) == address(array)) == (producer is Producer)


@pytest.mark.parametrize("producer", [KnowsNoKeywords, KnowsStreamOnly, IgnoresKeywords])
@pytest.mark.parametrize("device", [None, "cpu", "simulated"])
@pytest.mark.parametrize("take", [Blob.from_dlpack, Blob.asarray, syncblob.from_dlpack])
def test_memory_in_an_unversioned_capsule_is_copied_because_it_may_be_immutable(
    take, device, producer
):
    array = values()
    blob = take(producer(array), device=device)
    blob += 100
    blob.on("simulated")[...] = 7
    assert blob.cpu_data().tolist() == [[7] * 3] * 2
    assert array.tolist() == values().tolist()


class SaysMore(IgnoresKeywords):
    """An unversioned producer that NumPy takes by another protocol, as it does Warp's arrays."""

    said = staticmethod(lambda array: array)

    def __array__(self, dtype=None, copy=None):
        return self.said(self.array)


def test_unversioned_memory_that_numpy_may_write_is_shared():
    array = values()
    blob = Blob.asarray(SaysMore(array))
    assert address(blob.cpu_data()) == address(array)
    blob[...] = 7
    assert np.unique(array).tolist() == [7]
    blob = Blob((2, 3), device="simulated")
    blob.set_cpu_data(SaysMore(array))
    assert address(blob.cpu_data()) == address(array)


@pytest.mark.parametrize(
    "said", [lambda array: memoryview(array).toreadonly(), np.copy, lambda array: array[::-1]]
)
def test_and_copied_if_numpy_may_not_or_takes_other_memory(said):
    array, producer = values(), SaysMore(values())
    producer.array, producer.said = array, lambda x: np.asarray(said(x))
    blob = Blob.asarray(producer)
    blob += 100
    assert array.tolist() == values().tolist()
    assert blob.tolist() == (values() + 100).tolist()


class WithoutName(Producer):
    """A producer whose dtype has no text, as tvm-ffi's complex ones."""

    @property
    def dtype(self):
        raise ValueError("unknown type_code")


@pytest.mark.parametrize("take", [Blob.from_dlpack, Blob.asarray])
def test_a_dtype_that_has_no_text_comes_in(take):
    array = values("complex64")
    assert address(take(WithoutName(array)).cpu_data()) == address(array)


@pytest.mark.parametrize("take", [Blob.from_dlpack, Blob.asarray])
def test_and_refused_where_a_copy_is_excluded(take):
    array = values()
    error = BufferError if take == Blob.from_dlpack else ValueError
    with pytest.raises(error, match=r"copy=False.*read-only"):
        take(IgnoresKeywords(array), copy=False)
    for side in ("cpu", "gpu"):
        blob = Blob((2, 3), device="simulated")
        for owner in (blob, blob.diff, blob.memory):
            with pytest.raises(ValueError, match="writable"):
                getattr(owner, f"set_{side}_data")(IgnoresKeywords(array))
        assert (blob.head, blob.diff_head) == (NONE, NONE)


@pytest.mark.parametrize("strides", [True, False])
def test_a_hand_written_unversioned_capsule_is_copied_and_deleted_once(strides):
    producer = HandWritten(values(), strides=strides)
    blob = Blob.from_dlpack(producer)
    gc.collect()
    assert producer.deleted == 1
    assert blob.tolist() == values().tolist()


@pytest.mark.parametrize(
    "row",
    texts(
        """
        0 4 1 int4; 1 2 1 uint2; 2 128 1 float128; 2 32 4 float32x4; 3 64 1 handle64;
        4 16 2 bfloat16x2; 5 32 1 complex32; 6 1 1 bool1; 7 8 1 float8_e3m4; 10 8 1 float8_e4m3fn;
        12 8 1 float8_e5m2; 17 4 2 float4_e2m1fnx2; 99 8 1 code99_8
        """
    ),
)
@pytest.mark.parametrize("take", [Blob.from_dlpack, Blob.asarray])
def test_a_type_that_no_blob_has_is_named(take, row):
    *dtype, name = row.split()
    producer = HandWritten(np.zeros((2, 8), "f8"), dtype=map(int, dtype))
    with pytest.raises(TypeError, match=f"{name}.* HandWritten"):
        take(producer)


class Refuses(Producer):
    """A producer that refuses to export, and that NumPy takes, as PyArrow's arrays of bool."""

    error = BufferError

    def __dlpack__(self, **kwargs):
        super().__dlpack__(**kwargs)
        raise self.error("bits")

    def __array__(self, dtype=None, copy=None):
        return self.array.copy()


@pytest.mark.parametrize("error", [BufferError, TypeError, ValueError, NotImplementedError])
def test_what_dlpack_refuses_is_taken_as_numpy_takes_it(error):
    producer = Refuses(values())
    producer.error = error
    blob = Blob.asarray(producer)
    blob += 100
    assert blob.tolist() == (values() + 100).tolist()
    assert Blob.asarray(producer, "int8").tolist() == values().tolist()
    for result in (blob + producer, producer + blob):
        assert result.tolist() == (2 * values() + 100).tolist()
    blob[1:] = Refuses(values()[:1])
    assert blob[1].tolist() == values()[0].tolist()
    with pytest.raises((error, ValueError), match=r"bits|copy=False"):
        Blob.asarray(producer, copy=False)
    with pytest.raises((error, BufferError), match="bits"):
        Blob.from_dlpack(producer)


class Named:
    """A dtype of a library, such as TensorFlow, that has a name."""

    def __init__(self, name):
        self.name = name


@pytest.mark.parametrize(
    "dtype", ["torch.float8_e5m2", *map(Named, ("string", "variant", "int4", "qint8", "float4"))]
)
def test_no_capsule_is_asked_for_of_a_dtype_that_no_blob_has(dtype):
    producer = Refuses(values())
    producer.dtype = dtype
    assert Blob.asarray(producer, "float64").tolist() == values().tolist()
    for refused in (
        lambda: Blob.from_dlpack(producer),
        lambda: Blob.asarray(producer, copy=False),
        lambda: Blob((2, 3)).set_cpu_data(producer),
    ):
        with pytest.raises(TypeError, match=r"cannot hold \w+, the type of this Refuses"):
            refused()
    assert not producer.asked


@pytest.mark.parametrize("dtype", ["torch.float32", "vec3f", "FLOAT", np.float32, Named("float32")])
def test_other_names_of_dtypes_do_not_prevent_sharing(dtype):
    producer = Producer(values())
    producer.dtype = dtype
    assert address(Blob.asarray(producer).cpu_data()) == address(producer.array)


def test_a_tensor_without_elements_may_have_no_address():
    producer = HandWritten(np.zeros((0, 3), "f4"), null=True)
    assert (Blob.from_dlpack(producer).shape, Blob.asarray(producer).tolist()) == ((0, 3), [])
    gc.collect()
    assert producer.deleted == 2


NOT_ADOPTABLE = {
    "gaps": lambda a: a[:, ::2],
    "broadcast": lambda a: np.broadcast_to(a[:1], (4, 3)),
    "read-only": lambda a: np.frombuffer(a.tobytes(), "f4").reshape(2, 3),
}


@pytest.mark.parametrize("name", NOT_ADOPTABLE)
@pytest.mark.parametrize("take", [Blob.from_dlpack, Blob.asarray])
def test_other_memory_is_copied_or_with_copy_false_refused(name, take):
    array = NOT_ADOPTABLE[name](values())
    error = BufferError if take == Blob.from_dlpack else ValueError
    with pytest.raises(error):
        take(Producer(array), copy=False)
    blob = take(Producer(array))
    assert blob.tolist() == array.tolist()
    blob[...] = 9
    assert 9 not in array


@pytest.mark.parametrize("take", [Blob.from_dlpack, Blob.asarray])
def test_copy_true_copies_copy_false_does_not_and_tells_the_producer(take):
    producer = Producer(values())
    take(producer, copy=True)[...] = 9
    assert producer.array.tolist() == values().tolist()
    assert address(take(producer, copy=False).cpu_data()) == address(producer.array)
    assert producer.asked[-1]["copy"] is False
    assert all(asked["max_version"] >= (1, 0) for asked in producer.asked)


@pytest.mark.parametrize("take", [Blob.from_dlpack, Blob.asarray])
def test_copy_false_needs_a_producer_that_promises_it_and_no_move(take):
    error = BufferError if take == Blob.from_dlpack else ValueError
    for x, device in ((KnowsStreamOnly(values()), None), (values(), "simulated:1")):
        with pytest.raises(error, match="copy=False"):
            take(x, copy=False, device=device)
    with pytest.raises(error, match="copy=False"):
        take(Blob(3), copy=False, device="simulated:1")


def test_memory_of_other_kinds_of_devices_and_other_objects_are_refused():
    class Metal(Producer):
        def __dlpack_device__(self):
            return (8, 0)

    with pytest.raises(BufferError, match="type 8"):
        Blob.from_dlpack(Metal(values()))
    with pytest.raises((AttributeError, TypeError)):
        Blob.from_dlpack([1, 2])
    with pytest.raises(BufferError):
        Blob.from_dlpack(values().astype(">f4"))
