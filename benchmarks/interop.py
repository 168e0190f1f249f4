"""The cost of handing an array to another library, without a transfer."""

from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np

import syncblob
from benchmarks.calls import compared, on_both_sides
from benchmarks.machine import cuda_device
from benchmarks.rows import Goal, Measured
from benchmarks.timing import Timer
from syncblob import Blob

SHAPE = (16, 16)
# The goal for an accessor: the extra cost over a slice of an ndarray, in seconds.
ACCESSOR = Goal(0.4e-6, "difference")

# Our call, the rival's, and the goal.
ACCESSORS = [
    ("blob.cpu_data()", "ndarray[:]", ACCESSOR),
    ("blob.mutable_cpu_data()", "ndarray[:]", ACCESSOR),
    ("blob.overwrite_cpu_data()", "ndarray[:]", ACCESSOR),
    ("simulated.gpu_data()", "ndarray[:]", ACCESSOR),
    ("simulated.mutable_gpu_data()", "ndarray[:]", ACCESSOR),
]
OUT = [
    ("np.asarray(blob)", "np.asarray(tensor)", Goal(0.6)),
    ("np.from_dlpack(blob)", "np.from_dlpack(tensor)", Goal(0.8)),
    ("np.from_dlpack(blob.const)", "np.from_dlpack(tensor)", Goal(2.0)),
    ("torch.from_dlpack(blob)", "torch.from_dlpack(ndarray)", Goal(2.2)),
    ("torch.from_dlpack(blob.const)", "torch.from_dlpack(ndarray)", Goal(4.0)),
    ("torch.as_tensor(blob)", "torch.as_tensor(ndarray)", Goal(4.0)),
]
IN = [
    ("Blob(shape)", "torch.zeros(shape)", Goal(2.5)),
    ("Blob.asarray(ndarray)", "torch.as_tensor(ndarray)", Goal(2.0)),
    ("Blob.asarray(tensor)", "np.asarray(tensor)", Goal(4.0)),
    ("syncblob.from_dlpack(ndarray)", "torch.from_dlpack(ndarray)", Goal(4.0)),
    ("syncblob.from_dlpack(tensor)", "np.from_dlpack(tensor)", Goal(4.0)),
]
GPU = [
    ("blob.gpu_data()", "cupy_array[:]", ACCESSOR),
    ("blob.mutable_gpu_data()", "cupy_array[:]", ACCESSOR),
    ("cupy.asarray(blob)", "cupy.asarray(interface)", Goal(2.0)),
    ("cupy.from_dlpack(blob)", "cupy.from_dlpack(cupy_array)", Goal(2.0)),
    ("Blob.asarray(cupy_array)", "cupy.asarray(interface)", Goal(2.0)),
    ("blob + blob", "cupy_array + cupy_array", Goal(1.4)),
    ("np.sqrt(blob)", "cupy.sqrt(cupy_array)", Goal(1.4)),
]
GPU_TORCH = [
    ("torch.from_dlpack(blob)", "torch.from_dlpack(cupy_array)", Goal(2.0)),
    ("Blob.asarray(tensor)", "cupy.from_dlpack(tensor)", Goal(2.0)),
    ("torch.add(blob, blob)", "torch.add(tensor, tensor)", Goal(2.5)),
]


def measure(timer: Timer) -> Measured:
    """Time accessors against slicing, and protocols in both directions against torch and NumPy."""
    notes = []
    names: dict[str, Any] = {"np": np, "syncblob": syncblob, "Blob": Blob, "shape": SHAPE}
    names["ndarray"] = np.ones(SHAPE, np.float32)
    names["blob"] = on_both_sides(Blob(SHAPE))
    names["simulated"] = on_both_sides(Blob(SHAPE, device="simulated"))
    rows = [*compared(timer, "accessors, no transfer", ACCESSORS, names)]
    if find_spec("torch") is None:
        notes.append("torch is not installed: the protocols are not compared")
    else:
        import torch  # a rival that may be missing

        names |= {"torch": torch, "tensor": torch.ones(SHAPE)}
        rows += compared(timer, "a Blob handed out", OUT, names)
        rows += compared(timer, "an array taken in", IN, names)
    if cuda_device() is None:
        notes.append("there is no CUDA device: CuPy is not compared")
        return Measured(rows, notes)
    import cupy  # there is a CUDA device, so CuPy is there

    array = cupy.ones(SHAPE, np.float32)
    interface = SimpleNamespace(__cuda_array_interface__=array.__cuda_array_interface__)
    names |= {"cupy": cupy, "cupy_array": array, "interface": interface}
    names["blob"] = on_both_sides(Blob(SHAPE, device=cuda_device()))
    rows += compared(timer, "a GPU's arrays", GPU, names)
    if "torch" in names and names["torch"].cuda.is_available():
        names["tensor"] = names["torch"].ones(SHAPE, device="cuda:0")
        rows += compared(timer, "a GPU's arrays", GPU_TORCH, names)
    else:
        notes.append("there is no PyTorch with CUDA: it is not compared on the GPU")
    return Measured(rows, notes)
