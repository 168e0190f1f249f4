"""Blobs and memories in a given state, and expected values."""

import math
import warnings

import numpy as np

from syncblob import Blob, Head, StaleAliasWarning, SyncedMemory, simulated
from syncblob.devices import Side

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16"),
]
# The heads of a Blob with one accelerator.
NONE, CPU, GPU, SYNCED, SPLIT = PAIR = [*Head][:5]


READS = {Side.HOST: "cpu_data", Side.ACCELERATOR: "gpu_data"}
HEADS = {Side.HOST: CPU, Side.ACCELERATOR: GPU}


def memory_on(side, value=1, nbytes=8, *, both_sides=False):
    """Make a memory that was written on one side, perhaps after a use of the other."""
    memory = SyncedMemory(nbytes, device="simulated")
    if both_sides:
        getattr(memory, READS[Side(1 - side)])()
    getattr(memory, f"mutable_{READS[side]}")()[:] = value
    return memory


def adopt(memory, side, value):
    """Give a memory a new array for one side, and return the array; no alias is warned of."""
    array = np.full(memory.nbytes, value, np.uint8)
    with warnings.catch_warnings(action="ignore", category=StaleAliasWarning):
        getattr(memory, f"set_{READS[side]}")(array)
    return array


def filled(value, shape, dtype="float32", device="simulated"):
    """Make a Blob of a value, written on the host."""
    blob = Blob(shape, dtype, device=device)
    blob.overwrite_cpu_data()[...] = value
    return blob


def values(dtype="float32", shape=(2, 3)):
    """Count up from 0."""
    return np.arange(math.prod(shape)).reshape(shape).astype(Blob((), dtype).dtype)


def put(blob, head, contents, which="data"):
    """Give data or diff of an untouched Blob contents and a head, without touching the other one.

    A split Blob needs at least two elements: the first is newest on the host, the others on the
    device.
    """
    if head:
        side = "cpu" if head is CPU else "gpu"
        getattr(blob, f"overwrite_{side}_{which}")()[...] = contents
    if head is SYNCED:
        getattr(blob, f"cpu_{which}")()
    if head is SPLIT:
        first = np.broadcast_to(contents, blob.shape).reshape(-1)[:1]
        getattr(blob.reshape(-1)[:1], f"overwrite_cpu_{which}")()[...] = first


def blob_in(head, dtype="float32", shape=(2, 3)):
    """Make a Blob in a given state, bound to simulated:0, whose contents count up.

    Its device is the side that was written; the accelerator if it is untouched or split.
    """
    blob = Blob(shape, dtype, device="cpu" if head is CPU else "simulated:0")
    if head is CPU:
        blob.memory.side_of(simulated(0))
    put(blob, head, values(dtype, shape))
    return blob


def on_cuda(head, dtype="float32", shape=(2, 3), device="cuda:0"):
    """Make a Blob of a CUDA device in a given state, whose contents count up."""
    blob = Blob(shape, dtype, device=device)
    if head:
        blob.overwrite_cpu_data()[...] = values(dtype, shape)
    if head & GPU:
        blob.mutable_gpu_data()
    if head is SYNCED:
        blob.cpu_data()
    return blob


def on(device, array):
    """Make a Blob on a device, with the contents of an array there."""
    blob = Blob(array.shape, array.dtype, device=device)
    blob[...] = array
    return blob


def split():
    """Make a Blob of 80 bytes. The host has the first 20, the device has the others."""
    blob = Blob(80, "int8", device="simulated", name="frame")
    blob[...] = 1
    blob[:20].mutable_cpu_data()
    return blob


def address(array):
    """Return the address of an array, of NumPy or of CuPy."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def is_over(parameter, blob):
    """Tell whether a parameter's storage and gradient are the Blob's, on its device."""
    on_host = blob.device == "cpu"
    arrays = (x.cpu_data() if on_host else x.gpu_data() for x in (blob.data, blob.diff))
    return [*map(address, arrays)] == [parameter.data_ptr(), parameter.grad.data_ptr()]
