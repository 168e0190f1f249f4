"""The cost of handing an array to another library, without a transfer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import syncblob
from benchmarks.calls import on_both_sides
from benchmarks.machine import cuda_device
from benchmarks.rows import Goal, Measured, Row
from syncblob import Blob

if TYPE_CHECKING:
    from benchmarks.timing import Timer

__all__ = ["measure"]

SHAPE = (16, 16)
# The goal for an accessor: the extra cost over a slice of an ndarray, in seconds.
ACCESSOR = Goal(0.4e-6, "difference")

Call = Callable[[], object]


class Pair(NamedTuple):
    """Two equivalent calls, ours and the rival's."""

    ours: str
    call: Call
    rival: str
    rival_call: Call
    goal: Goal | None = None


class Interface:
    """Another library's array, with the CUDA array interface only."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def measure(timer: Timer) -> Measured:
    """Time accessors against slicing, and protocols in both directions against torch and NumPy."""
    notes = []
    sections = {"accessors, no transfer": accessor_pairs()}
    try:
        import torch  # a rival that may be missing
    except ImportError:
        notes.append("torch is not installed: the protocols are not compared")
    else:
        sections["a Blob handed out"] = pairs_out(torch)
        sections["an array taken in"] = pairs_in(torch)
    if cuda_device() is None:
        notes.append("there is no CUDA device: CuPy is not compared")
    else:
        sections["a GPU's arrays"] = [*gpu_pairs(), *gpu_pairs_of_torch(notes)]
    rows = [row for section, pairs in sections.items() for row in _rows(timer, section, pairs)]
    return Measured(rows, notes)


def _rows(timer: Timer, section: str, pairs: list[Pair]) -> list[Row]:
    rows = []
    for pair in pairs:
        times = timer.medians({"ours": pair.call, "rival": pair.rival_call})
        rows.append(
            Row(section, pair.ours, times["ours"], pair.rival, times["rival"], goal=pair.goal)
        )
    return rows


# --- the pairs ------------------------------------------------------------------------------------


def accessor_pairs() -> list[Pair]:
    """Pair the accessors of each side with a slice of an ndarray."""
    blob = on_both_sides(Blob(SHAPE))
    on_device = on_both_sides(Blob(SHAPE, device="simulated"))
    array = np.ones(SHAPE, np.float32)
    calls: dict[str, Call] = {
        "blob.cpu_data()": blob.cpu_data,
        "blob.mutable_cpu_data()": blob.mutable_cpu_data,
        "blob.overwrite_cpu_data()": blob.overwrite_cpu_data,
        "simulated.gpu_data()": on_device.gpu_data,
        "simulated.mutable_gpu_data()": on_device.mutable_gpu_data,
    }
    return [
        Pair(name, call, "ndarray[:]", lambda: array[:], ACCESSOR) for name, call in calls.items()
    ]


def pairs_out(torch: Any) -> list[Pair]:
    """Pair calls that take a Blob with the same calls for a tensor or an ndarray."""
    blob = on_both_sides(Blob(SHAPE))
    const = blob.const
    array = np.ones(SHAPE, np.float32)
    tensor = torch.ones(SHAPE)
    as_tensor = "torch.from_dlpack(ndarray)"

    def torch_from_array() -> object:
        return torch.from_dlpack(array)

    return [
        Pair(
            "np.asarray(blob)",
            lambda: np.asarray(blob),
            "np.asarray(tensor)",
            lambda: np.asarray(tensor),
            Goal(0.6),
        ),
        Pair(
            "np.from_dlpack(blob)",
            lambda: np.from_dlpack(blob),
            "np.from_dlpack(tensor)",
            lambda: np.from_dlpack(tensor),
            Goal(0.8),
        ),
        Pair(
            "np.from_dlpack(blob.const)",
            lambda: np.from_dlpack(const),
            "np.from_dlpack(tensor)",
            lambda: np.from_dlpack(tensor),
        ),
        Pair(
            "torch.from_dlpack(blob)",
            lambda: torch.from_dlpack(blob),
            as_tensor,
            torch_from_array,
            Goal(2.2),
        ),
        Pair(
            "torch.from_dlpack(blob.const)",
            lambda: torch.from_dlpack(const),
            as_tensor,
            torch_from_array,
        ),
    ]


def pairs_in(torch: Any) -> list[Pair]:
    """Pair calls that make a Blob from an array with calls that make a tensor or an ndarray."""
    array = np.ones(SHAPE, np.float32)
    tensor = torch.ones(SHAPE)
    return [
        Pair(
            "Blob.asarray(ndarray)",
            lambda: Blob.asarray(array),
            "torch.as_tensor(ndarray)",
            lambda: torch.as_tensor(array),
        ),
        Pair(
            "Blob.asarray(tensor)",
            lambda: Blob.asarray(tensor),
            "np.asarray(tensor)",
            lambda: np.asarray(tensor),
        ),
        Pair(
            "syncblob.from_dlpack(ndarray)",
            lambda: syncblob.from_dlpack(array),
            "torch.from_dlpack(ndarray)",
            lambda: torch.from_dlpack(array),
        ),
        Pair(
            "syncblob.from_dlpack(tensor)",
            lambda: syncblob.from_dlpack(tensor),
            "np.from_dlpack(tensor)",
            lambda: np.from_dlpack(tensor),
        ),
    ]


def gpu_pairs() -> list[Pair]:
    """Pair accessors and protocols of a Blob on a GPU with those of CuPy arrays."""
    import cupy  # there is a CUDA device, so CuPy is there

    blob = on_both_sides(Blob(SHAPE, device=cuda_device()))
    array = cupy.ones(SHAPE, np.float32)
    interface = Interface(array)
    return [
        Pair("blob.gpu_data()", blob.gpu_data, "cupy_array[:]", lambda: array[:], ACCESSOR),
        Pair(
            "blob.mutable_gpu_data()",
            blob.mutable_gpu_data,
            "cupy_array[:]",
            lambda: array[:],
            ACCESSOR,
        ),
        Pair(
            "cupy.asarray(blob)",
            lambda: cupy.asarray(blob),
            "cupy.asarray(its interface)",
            lambda: cupy.asarray(interface),
        ),
        Pair(
            "cupy.asarray(blob.gpu)",
            lambda: cupy.asarray(blob.gpu),
            "cupy.asarray(its interface)",
            lambda: cupy.asarray(interface),
        ),
        Pair(
            "cupy.from_dlpack(blob)",
            lambda: cupy.from_dlpack(blob),
            "cupy.from_dlpack(cupy_array)",
            lambda: cupy.from_dlpack(array),
        ),
        Pair(
            "Blob.asarray(cupy_array)",
            lambda: Blob.asarray(array),
            "cupy.asarray(its interface)",
            lambda: cupy.asarray(interface),
        ),
        Pair("blob + blob", lambda: blob + blob, "cupy_array + cupy_array", lambda: array + array),
        Pair(
            "np.sqrt(blob)",
            lambda: np.sqrt(blob),
            "cupy.sqrt(cupy_array)",
            lambda: cupy.sqrt(array),
        ),
    ]


def gpu_pairs_of_torch(notes: list[str]) -> list[Pair]:
    """Pair PyTorch's calls with a Blob on a GPU with the same calls for CuPy arrays."""
    import cupy  # there is a CUDA device, so CuPy is there

    try:
        import torch  # a rival that may be missing
    except ImportError:
        return []
    if not torch.cuda.is_available():
        notes.append("this PyTorch has no CUDA: it is not compared on the GPU")
        return []
    blob = on_both_sides(Blob(SHAPE, device=cuda_device()))
    array = cupy.ones(SHAPE, np.float32)
    tensor = torch.ones(SHAPE, device="cuda:0")
    return [
        Pair(
            "torch.from_dlpack(blob)",
            lambda: torch.from_dlpack(blob),
            "torch.from_dlpack(cupy_array)",
            lambda: torch.from_dlpack(array),
        ),
        Pair(
            "torch.as_tensor(blob)",
            lambda: torch.as_tensor(blob, device="cuda:0"),
            "torch.as_tensor(cupy_array)",
            lambda: torch.as_tensor(array, device="cuda:0"),
        ),
        Pair(
            "Blob.asarray(cuda_tensor)",
            lambda: Blob.asarray(tensor),
            "cupy.from_dlpack(cuda_tensor)",
            lambda: cupy.from_dlpack(tensor),
        ),
        Pair(
            "torch.add(blob, blob)",
            lambda: torch.add(blob, blob),
            "torch.add(tensor, tensor)",
            lambda: torch.add(tensor, tensor),
        ),
    ]
