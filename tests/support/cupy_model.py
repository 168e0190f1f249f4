"""CuPy on the model of CUDA: the parts that syncblob uses, with CuPy's names and arguments.

Missing parts raise AttributeError or TypeError; a test that needs more has to add it.
`tests/devices/test_cuda_model.py` compares names and arguments with CuPy's own if CuPy can be
imported. Arrays only support copies; kernels are Python functions, see `launch`.

Like `cuda_model`, it can prove something about our use of streams, but not about CUDA or CuPy.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import types
import warnings
import weakref
from contextlib import contextmanager, suppress
from typing import Any

import cuda_model as model
import numpy as np
from cuda_model import CUDARuntimeError, Machine

from syncblob._dtypes import as_dtype
from syncblob.arrays import dlpack_capsules
from syncblob.memory import CONST

# The machine that the functions of this module use. `installed` sets it.
_machine = Machine(0)
_threads = threading.local()


def launch(kernel, *arrays, stream=None):
    """Launch a kernel: a function of NumPy arrays over the memory of the arrays.

    `kernel`: called when the work runs. May read and write.
    `arrays`: Arrays on the current device. As with a CUDA kernel, they are not kept alive.
    `stream`: the default is the current stream.
    """
    for array in arrays:
        if array.device.id != _machine.getDevice():
            raise ValueError(
                "Array device must be same as the current device: array device = "
                f"{array.device.id} while current = {_machine.getDevice()}"
            )
    over = [(array.data.ptr, array.shape, array.strides, array.dtype) for array in arrays]
    kept = [model.block_at(array.data.ptr) for array in arrays if array.size]

    def run():
        kernel(*(_over(*each) for each in over))
        kept.clear()

    def run_again():
        kernel(*(_over(*each) for each in over))

    handle = (get_current_stream() if stream is None else stream).ptr
    captured = _machine.stream(handle).capture is not None
    _machine.launch(handle, run_again if captured else run)


def side_stream():
    """Return a stream that is not ordered with any other."""
    return Stream(non_blocking=True)


def compute(blob, kernel):
    """Compute with a Blob as an operation does: on the current stream, with its own array."""
    blob.home.compute(launch, kernel, blob.array_in(blob.home, CONST, "test"))


def _over(address, shape, strides, dtype):
    """Return a NumPy array over memory at an address."""
    if 0 in shape:
        return np.empty(shape, dtype)
    lowest = sum((n - 1) * step for n, step in zip(shape, strides, strict=True) if step < 0)
    highest = sum((n - 1) * step for n, step in zip(shape, strides, strict=True) if step > 0)
    buffer = (ctypes.c_uint8 * (highest - lowest + dtype.itemsize)).from_address(address + lowest)
    return np.ndarray(shape, dtype, buffer, -lowest, strides)


# --- cupy.cuda.runtime ----------------------------------------------------------------------------


def pointerGetAttributes(ptr):
    block = model.block_at(ptr)
    if block is None:
        return types.SimpleNamespace(device=-2, devicePointer=0, hostPointer=0, type=0)
    host = ptr if block.kind in (model.HOST, model.MANAGED) else 0
    there = {"devicePointer": ptr, "hostPointer": host, "type": block.kind}
    return types.SimpleNamespace(device=max(block.device, 0), **there)


_RUNTIME = """getDeviceCount getDevice setDevice deviceSynchronize memcpyAsync memsetAsync
    deviceGetAttribute
    deviceEnablePeerAccess memcpyPeerAsync
    memGetInfo streamCreateWithPriority streamDestroy streamSynchronize streamQuery
    streamWaitEvent streamBeginCapture streamEndCapture streamIsCapturing eventCreateWithFlags
    eventDestroy eventElapsedTime eventRecord eventQuery eventSynchronize""".split()


def _of_machine(name):
    def function(*args):
        return getattr(_machine, name)(*args)

    function.__name__ = name
    # `inspect` shows the arguments of the machine's method.
    function.__wrapped__ = getattr(Machine, name)
    return function


runtime = types.ModuleType("cupy.cuda.runtime")
for _name in _RUNTIME:
    setattr(runtime, _name, _of_machine(_name))
runtime.__dict__.update(
    CUDARuntimeError=CUDARuntimeError,
    pointerGetAttributes=pointerGetAttributes,
    memcpyHostToDevice=model.TO_DEVICE,
    memcpyDeviceToHost=model.TO_HOST,
    memcpyDeviceToDevice=model.ON_DEVICE,
    memoryTypeUnregistered=model.UNREGISTERED,
    memoryTypeHost=model.HOST,
    memoryTypeDevice=model.DEVICE,
    memoryTypeManaged=model.MANAGED,
    streamLegacy=model.LEGACY,
    streamPerThread=model.PER_THREAD,
    streamNonBlocking=1,
    streamCaptureModeGlobal=model.GLOBAL,
    streamCaptureModeThreadLocal=model.THREAD_LOCAL,
    streamCaptureModeRelaxed=model.RELAXED,
)


# --- cupy.cuda: devices and streams ---------------------------------------------------------------


class Device:
    def __init__(self, device=None):
        self.id = _machine.getDevice() if device is None else int(device)

    def __enter__(self):
        _own("devices").append(_machine.getDevice())
        _machine.setDevice(self.id)
        return self

    def __exit__(self, *args):
        _machine.setDevice(_own("devices").pop())

    def synchronize(self):
        with self:
            _machine.deviceSynchronize()


def _own(name):
    """Return a list that belongs to the current thread."""
    return _threads.__dict__.setdefault(name, [])


def _current():
    """Return the current stream of each device, for this thread and this machine."""
    of_machine = _threads.__dict__.setdefault("current", weakref.WeakKeyDictionary())
    return of_machine.setdefault(_machine, {})


def get_current_stream(device_id=-1):
    return _current().get(_machine.getDevice() if device_id == -1 else device_id, Stream.null)


class Event:
    def __init__(self, block=False, disable_timing=False, interprocess=False):
        del block, disable_timing, interprocess
        self.ptr = 0
        self._machine = _machine
        self.ptr = _machine.eventCreateWithFlags(0)

    def __del__(self, is_finalizing=sys.is_finalizing):
        if not is_finalizing():
            self._machine.eventDestroy(self.ptr)

    @property
    def done(self):
        return self._machine.eventQuery(self.ptr) == 0

    def synchronize(self):
        self._machine.eventSynchronize(self.ptr)


def get_elapsed_time(start_event, end_event):
    return _machine.eventElapsedTime(start_event.ptr, end_event.ptr)


class Graph:
    def launch(self, stream=None):
        _machine.graphLaunch(self._nodes, (stream or get_current_stream()).ptr)


class _BaseStream:
    def __init__(self, ptr, device_id):
        self.ptr = ptr
        self.device_id = device_id

    def __enter__(self):
        device = self._device()
        _own("streams").append((device, get_current_stream(device)))
        _current()[device] = self
        return self

    def __exit__(self, *args):
        device, before = _own("streams").pop()
        _current()[device] = before

    def _device(self):
        current = _machine.getDevice()
        if self.device_id not in (-1, current):
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id}) does not match with "
                f"the current device ({current})"
            )
        return current

    def use(self):
        _current()[self._device()] = self
        return self

    @property
    def done(self):
        return _machine.streamQuery(self.ptr) == 0

    def synchronize(self):
        _machine.streamSynchronize(self.ptr)

    def record(self, event=None):
        event = event or Event()
        _machine.eventRecord(event.ptr, self.ptr)
        return event

    def wait_event(self, event):
        _machine.streamWaitEvent(self.ptr, event.ptr)

    def launch_host_func(self, callback, arg):
        _machine.launch_host(self.ptr, lambda: callback(arg))

    def begin_capture(self, mode=None):
        _machine.streamBeginCapture(self.ptr, model.RELAXED if mode is None else mode)

    def end_capture(self):
        graph = Graph.__new__(Graph)
        graph._nodes = _machine.streamEndCapture(self.ptr)
        return graph

    def is_capturing(self):
        return _machine.streamIsCapturing(self.ptr)


class Stream(_BaseStream):
    null: Any = None
    ptds: Any = None

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self._machine = None
        if null or ptds:
            super().__init__(0 if null else model.PER_THREAD, -1)
            return
        self._machine = _machine
        handle = _machine.streamCreateWithPriority(int(non_blocking), priority or 0)
        super().__init__(handle, _machine.getDevice())

    def __del__(self, is_finalizing=sys.is_finalizing):
        if self._machine is not None and not is_finalizing():
            self._machine.streamDestroy(self.ptr)

    @classmethod
    def from_external(cls, obj):
        _, ptr = obj.__cuda_stream__()
        stream = cls.__new__(cls)
        _BaseStream.__init__(stream, ptr, -1)
        stream._machine, stream._foreign_stream_ref = None, obj
        return stream


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)


class ExternalStream(_BaseStream):
    def __init__(self, ptr, device_id=-1):
        warnings.warn(
            "ExternalStream is deprecated. Use Stream.from_external() instead",
            DeprecationWarning,
            stacklevel=2,
        )
        super().__init__(ptr, device_id)


# --- cupy.cuda: memory ----------------------------------------------------------------------------


class OutOfMemoryError(MemoryError):
    pass


class BaseMemory:
    ptr: int
    size: int
    device_id: int


class _Allocated(BaseMemory):
    """Memory that is returned with its last reference. Pools own the underlying memory."""

    _kind = model.DEVICE

    def __init__(self, size, pool=None):
        self.size, self.device_id, self.ptr = size, _machine.getDevice(), 0
        self._block = None
        if size:
            try:
                self._block, home = _machine.allocate(size, self._kind, pool=pool)
            except CUDARuntimeError as error:
                if error.status != model.OUT_OF_MEMORY:
                    raise
                raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes") from None
            self.ptr = self._block.address
            # Weak, like that to CuPy's pool: it must not keep a past machine alive.
            self._home, self._machine = home, _machine
            self._stream = None if pool is None else _machine.stream(pool[1])

    def __del__(self, is_finalizing=sys.is_finalizing):
        if self._block is None or is_finalizing():
            return
        if self._stream is None:
            self._machine.free(self._block, self._home)
        else:
            self._machine.give_back(self._block, self._home, self._stream)


class Memory(_Allocated):
    def __init__(self, size):
        super().__init__(size)


class ManagedMemory(_Allocated):
    _kind = model.MANAGED

    def __init__(self, size):
        super().__init__(size)


class MemoryAsync(_Allocated):
    def __init__(self, size, stream):
        super().__init__(size, ("asynchronous", stream.ptr))


class UnownedMemory(BaseMemory):
    def __init__(self, ptr, size, owner, device_id=-1):
        if device_id < 0:
            device_id = pointerGetAttributes(ptr).device
        self.ptr, self.size, self.device_id, self._owner = ptr, size, device_id, owner


class MemoryPointer:
    def __init__(self, mem, offset):
        assert mem.ptr or not offset
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id

    def __add__(self, offset):
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    @property
    def device(self):
        return Device(self.device_id)

    def memset_async(self, value, size, stream=None):
        _machine.memsetAsync(self.ptr, value, size, (stream or get_current_stream()).ptr)


class MemoryPool:
    """Memory of the stream that is current when it is allocated."""

    def __init__(self, allocator=None):
        self._kind = _PooledManaged if allocator is malloc_managed else _Pooled
        self._limit = 0
        self._used = weakref.WeakSet()

    def get_limit(self):
        return self._limit

    def set_limit(self, size=None, fraction=None):
        del fraction
        self._limit = size or 0

    def malloc(self, size):
        if not size:
            return MemoryPointer(Memory(0), 0)
        handle = get_current_stream().ptr
        # The per-thread default streams have the same pointer but separate memory. CuPy tells them
        # apart by thread ids, and a later thread with the same id has another stream.
        own = _machine.stream(handle) if handle == model.PER_THREAD else None
        # As in CuPy, free blocks count, too, unless one is used again.
        used = self.used_bytes() + self.free_bytes()
        reused = _machine.has_free(size, (self, handle, own), self._kind._kind)
        if self._limit and not reused and used + size > self._limit:
            raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes")
        memory = self._kind(size, (self, handle, own))
        self._used.add(memory)
        return MemoryPointer(memory, 0)

    def free_all_blocks(self, stream=None):
        del stream
        _machine.forget_free()

    def free_bytes(self):
        return _machine.free_bytes(self)

    def used_bytes(self):
        return sum(each.size for each in self._used)


class _Pooled(_Allocated):
    pass


class _PooledManaged(_Allocated):
    _kind = model.MANAGED


def malloc_managed(size):
    return MemoryPointer(ManagedMemory(size), 0)


def malloc_async(size):
    return MemoryPointer(MemoryAsync(size, get_current_stream()), 0)


_default_pool = MemoryPool()
_allocator = _default_pool.malloc


def alloc(size):
    return _allocator(size)


def set_allocator(allocator=None):
    """Set the allocator. As in CuPy, the default allocates from CUDA and not from a pool."""
    global _allocator
    _allocator = (lambda size: MemoryPointer(Memory(size), 0)) if allocator is None else allocator


def get_allocator():
    return _allocator


def get_default_memory_pool():
    return _default_pool


class PinnedMemory:
    def __init__(self, size, flags=0, *, _pool=""):
        assert not flags
        self._machine = _machine
        # Without a pool, the memory is returned to CUDA, which may reuse it in any way.
        self._block, self._home = _machine.allocate(size, model.HOST, pool=_pool)
        self.size, self.ptr = self._block.nbytes, self._block.address

    def __del__(self, is_finalizing=sys.is_finalizing):
        if is_finalizing() or not hasattr(self, "_block"):
            return
        if self._home[0]:
            self._machine.give_back(self._block, self._home, None)
        else:
            self._machine.free(self._block, self._home)


def PinnedMemoryPointer(mem, offset):
    # A buffer made in C: classes in Python can only be buffers since 3.12.
    buffer = (ctypes.c_byte * (mem.size - offset)).from_address(mem.ptr + offset)
    buffer.mem, buffer.ptr = mem, mem.ptr + offset
    return buffer


def alloc_pinned_memory(size):
    # The pool rounds up to powers of two.
    return PinnedMemoryPointer(PinnedMemory(1 << (size - 1).bit_length(), _pool="pinned"), 0)


# --- cupy.ndarray ---------------------------------------------------------------------------------


class ndarray:
    """An array. Elements are only read and written by queued copies."""

    __slots__ = ("__weakref__", "base", "data", "dtype", "shape", "strides")
    __array_priority__ = 100

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        self.shape = tuple(shape) if np.iterable(shape) else (shape,)
        self.dtype = np.dtype(dtype)
        self.strides = (
            _strides(self.shape, self.dtype.itemsize, order) if strides is None else tuple(strides)
        )
        self.base = None
        self.data = alloc(self.nbytes) if memptr is None else memptr

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=int))

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize

    @property
    def device(self):
        return self.data.device

    @property
    def flags(self):
        return _over_nothing(self).flags

    @property
    def T(self):
        return self.transpose()

    # --- views ---

    def _viewed(self, over):
        """Return a view with the layout of a NumPy view of `_over_nothing(self)`."""
        offset = over.__array_interface__["data"][0] - _NOWHERE if over.size else 0
        array = ndarray(over.shape, over.dtype, self.data + offset, over.strides)
        array.base = self if self.base is None else self.base
        return array

    def view(self, dtype=None, type=None):
        del type
        return self._viewed(_over_nothing(self).view(dtype or self.dtype))

    def reshape(self, *shape, order="C", copy=None):
        del copy  # nothing here needs one
        return self._viewed(_over_nothing(self).reshape(*shape, order=order, copy=False))

    def transpose(self, *axes):
        return self._viewed(_over_nothing(self).transpose(*axes))

    def __getitem__(self, slices):
        index = slices if isinstance(slices, tuple) else (slices,)
        if not all(isinstance(x, (int, slice)) or x in (None, ...) for x in index):
            raise NotImplementedError("indexing by arrays")
        # One element is a zero-dimensional array.
        return self._viewed(_over_nothing(self)[index if ... in index else (*index, ...)])

    # --- copies ---

    def __setitem__(self, slices, value):
        target = self[slices]
        source = _from_cupy_like(value)
        if source is None:
            target.fill(value)
        else:
            launch(lambda to, of: to.__setitem__(..., of), target, source)

    def fill(self, value):
        value = np.asarray(value, self.dtype)
        launch(lambda to: to.fill(value), self)

    def copy(self, order="C"):
        return self.astype(self.dtype, order=order)

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        del casting, subok
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        copied = ndarray(self.shape, dtype, order="F" if order == "F" else "C")
        copied[...] = self
        return copied

    def get(self, stream=None, order="C", out=None, blocking=True):
        del out
        result = np.empty(self.shape, self.dtype, order="C" if order in "CA" else "F")
        with self.device:
            stream = stream or get_current_stream()
            launch(lambda of: result.__setitem__(..., of), self, stream=stream)
            if blocking:
                stream.synchronize()
        return result

    def tolist(self):
        return self.get().tolist()

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct "
            "a NumPy array explicitly."
        )

    # --- protocols ---

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "stream": get_current_stream().ptr or model.LEGACY,
            "version": 3,
            "strides": None if self.flags.c_contiguous else self.strides,
            "data": (self.data.ptr if self.size else 0, False),
        }

    def __dlpack_device__(self):
        managed = pointerGetAttributes(self.data.ptr).type == model.MANAGED
        return (_DL_MANAGED if managed else _DL_CUDA, self.data.device_id)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("unsupported device requested.")
        if copy is True:
            raise BufferError("copy=True only supported for copy to CPU.")
        consumer = model.LEGACY if stream is None else stream
        if consumer < -1:
            raise ValueError(
                "On CUDA, the valid stream for the DLPack protocol is -1, 1, 2, or any larger "
                f"value, but {stream} was provided"
            )
        if consumer == 0:
            warnings.warn("Stream 0 is passed from a library", UserWarning, stacklevel=2)
            consumer = model.LEGACY
        current = get_current_stream()
        if consumer > 0 and consumer != (current.ptr or model.LEGACY):
            _BaseStream(consumer, -1).wait_event(current.record())
        over = np.asarray(_Interface(self, self.dtype.str, self.data.ptr))
        if over.dtype.kind == "V":
            raise BufferError(f"no dtype of DLPack's for {self.dtype}")
        capsule = over.__dlpack__(max_version=max_version)
        return dlpack_capsules.edit(capsule, device=self.__dlpack_device__())


# The address of arrays that are only indexed and never read.
_NOWHERE = 1 << 40


class _Interface:
    """An array of bytes at an address, for NumPy, which keeps an array alive."""

    def __init__(self, array, typestr, address):
        self._array = array
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "strides": array.strides,
            "typestr": typestr,
            "data": (address, False),
        }


def _over_nothing(array):
    """Return a NumPy array with the layout of a model array, at an address that is never read."""
    raw = np.asarray(_Interface(array, f"|V{array.dtype.itemsize}", _NOWHERE))
    return raw.view(array.dtype)


def _strides(shape, itemsize, order):
    strides = []
    step = itemsize
    for length in shape if order == "F" else shape[::-1]:
        strides.append(step)
        step *= max(length, 1)
    return tuple(strides if order == "F" else strides[::-1])


def _from_cupy_like(obj):
    """Convert an object that CuPy accepts as a device array, trying protocols in CuPy's order."""
    if isinstance(obj, ndarray):
        return obj
    if hasattr(obj, "__cuda_array_interface__"):
        return _from_interface(obj)
    if hasattr(obj, "__cupy_get_ndarray__"):
        return obj.__cupy_get_ndarray__()
    return None


def _from_interface(obj):
    described = obj.__cuda_array_interface__
    shape, strides = described["shape"], described.get("strides")
    dtype = np.dtype(described["typestr"])
    pointer = described["data"][0]
    if strides is None:
        nbytes = int(np.prod(shape, dtype=int)) * dtype.itemsize
    else:
        nbytes = max((abs(n * step) for n, step in zip(shape, strides, strict=True)), default=0)
    memory = UnownedMemory(pointer, nbytes, obj, -1 if nbytes else _machine.getDevice())
    stream = described.get("stream")
    if stream is not None:
        _machine.streamSynchronize(stream)
    return ndarray(shape, dtype, MemoryPointer(memory, 0), strides)


def empty(shape, dtype=float, order="C"):
    return ndarray(shape, dtype, order=order)


def full(shape, fill_value, dtype=None, order="C"):
    dtype = np.array(fill_value).dtype if dtype is None else dtype
    array = ndarray(shape, dtype, order=order)
    array.fill(fill_value)
    return array


def zeros(shape, dtype=float, order="C"):
    array = ndarray(shape, dtype, order=order)
    array.data.memset_async(0, array.nbytes)
    return array


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    del blocking
    if order is not None or copy is not None:
        raise NotImplementedError("asarray with an order or copy")
    found = _from_cupy_like(a)
    if found is not None:
        return found if dtype is None else found.astype(dtype, copy=False)
    # The values are read now and written later.
    values = np.array(a, dtype)
    array = empty(values.shape, values.dtype)
    launch(lambda to: to.__setitem__(..., values), array)
    return array


def may_share_memory(a, b, max_work=None):
    del max_work
    bounds = [np.lib.array_utils.byte_bounds(_over_nothing(array)) for array in (a, b)]
    (a_low, a_high), (b_low, b_high) = (
        (low - _NOWHERE + array.data.ptr, high - _NOWHERE + array.data.ptr)
        for (low, high), array in zip(bounds, (a, b), strict=True)
    )
    return bool(a.size and b.size) and a_low < b_high and b_low < a_high


# --- DLPack ---------------------------------------------------------------------------------------

_DL_CPU, _DL_CUDA, _DL_MANAGED = 1, 2, 13


class _Capsule:
    """A capsule that NumPy can take."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return (_DL_CPU, 0)


def from_dlpack(array, *, device=None, copy=None):
    del device
    kind, index = array.__dlpack_device__()
    if kind not in (_DL_CUDA, _DL_MANAGED):
        raise TypeError(f"Unsupported array type: {kind}")
    with Device(index):
        stream = get_current_stream().ptr or model.LEGACY
        capsule = array.__dlpack__(stream=stream, max_version=(1, 0), copy=copy)
    tensor, _ = dlpack_capsules._contents(capsule)
    index = tensor.device.device_id
    # NumPy has no bfloat16.
    bfloat16 = tensor.dtype.code == dlpack_capsules.BFLOAT
    code = dlpack_capsules.UINT if bfloat16 else None
    dlpack_capsules.edit(capsule, device=(_DL_CPU, 0), code=code)
    taken = np.from_dlpack(_Capsule(capsule))
    dtype = as_dtype("bfloat16") if bfloat16 else taken.dtype
    memory = UnownedMemory(taken.ctypes.data, taken.nbytes, taken, index)
    return ndarray(taken.shape, dtype, MemoryPointer(memory, 0), taken.strides)


# --- modules --------------------------------------------------------------------------------------

CUDA_NAMES = """Device Event ExternalStream Graph ManagedMemory Memory MemoryAsync BaseMemory
    MemoryPointer MemoryPool PinnedMemory PinnedMemoryPointer Stream
    UnownedMemory alloc alloc_pinned_memory get_allocator
    get_current_stream get_elapsed_time malloc_async malloc_managed runtime set_allocator""".split()
CUPY_NAMES = """asarray empty from_dlpack full get_default_memory_pool
    may_share_memory ndarray zeros""".split()


def _modules():
    """Make the modules that replace CuPy in a test."""
    here = globals()
    cupy, cuda = types.ModuleType("cupy"), types.ModuleType("cupy.cuda")
    memory = types.ModuleType("cupy.cuda.memory")
    memory.__dict__.update(OutOfMemoryError=OutOfMemoryError, alloc=alloc)
    cuda.__dict__.update({name: here[name] for name in CUDA_NAMES}, memory=memory)
    cupy.__dict__.update({name: here[name] for name in CUPY_NAMES}, cuda=cuda, __version__="14.2.0")
    compat = types.ModuleType("array_api_compat.cupy")
    compat.__dict__.update({name: here[name] for name in CUPY_NAMES})
    # As in the standard, and other than in CuPy.
    compat.__dict__["empty"] = lambda shape, *, dtype=None: empty(shape, dtype)
    return {
        "cupy": cupy,
        "cupy.cuda": cuda,
        "cupy.cuda.memory": memory,
        "cupy.cuda.runtime": runtime,
        "array_api_compat.cupy": compat,
    }


@contextmanager
def installed(machine):
    """Install the model as CuPy for syncblob, and remove it completely afterwards."""
    import array_api_compat

    from syncblob import _source_lines
    from syncblob.devices import choose_device, cuda

    with suppress(ImportError):
        # Its first import looks for parts of CuPy that the model does not have.
        import torch  # noqa: F401

    global _machine
    there = {
        name: module
        for name, module in sys.modules.items()
        if name.split(".")[0] == "cupy" or name.startswith("array_api_compat.cupy")
    }
    modules = _modules()
    attribute = array_api_compat.__dict__.get("cupy")
    backends = _taken_out(choose_device._backends)
    before, _machine = _machine, machine
    # Arrays on another machine may be alive: caches of plans keep functions with their closures.
    _default_pool._used.clear()
    loader = cuda.ctypes
    cuda.ctypes = _Ctypes()
    cuda._why_not.cache_clear()
    # The lines of the model do not count as the user's.
    _source_lines._library_of[__file__] = "cupy"
    for name in there:
        del sys.modules[name]
    sys.modules.update(modules)
    array_api_compat.cupy = modules["array_api_compat.cupy"]
    try:
        yield modules["cupy"]
    finally:
        for name in modules:
            # At the end of a process, they may be gone.
            sys.modules.pop(name, None)
        sys.modules.update(there)
        if attribute is None:
            del array_api_compat.cupy
        else:
            array_api_compat.cupy = attribute
        cuda.ctypes = loader
        del _source_lines._library_of[__file__]
        cuda._why_not.cache_clear()
        _taken_out(choose_device._backends)
        choose_device._backends.update(backends)
        set_allocator(_default_pool.malloc)
        _machine = before
        _threads.__dict__.clear()


class _Ctypes:
    """The module, with the model's driver for each library."""

    def __getattr__(self, name):
        return getattr(ctypes, name)

    def CDLL(self, name):
        del name
        return types.SimpleNamespace(cuThreadExchangeStreamCaptureMode=_exchange_capture_mode)


def _exchange_capture_mode(mode):
    """Do what the driver's function does with a reference to a mode."""
    mode._obj.value = _machine.threadExchangeStreamCaptureMode(mode._obj.value)
    return 0


def _taken_out(backends):
    """Remove the backends of CUDA devices from the registry."""
    return {name: backends.pop(name) for name in list(backends) if name.startswith("cuda")}
