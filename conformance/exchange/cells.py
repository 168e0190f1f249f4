"""The cells of the measurement: dtypes, layouts, states and forms of a Blob, as data."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import syncblob
from syncblob import Blob

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
# Where the newest contents are. In the last one, an array that may write the host's side is alive.
STATES = ("host", "device", "synced", "aliased")
FORMS = ("writable", "const")
# That of the Blob in the record of transfers.
NAME = "given"

New = Callable[[tuple[int, ...]], Any]


def _behind(nbytes: int) -> Callable[[New, tuple[int, ...], int], Any]:
    """Return a view that begins so many bytes after an array that is aligned to 64 bytes."""

    def view(new: New, shape: tuple[int, ...], itemsize: int) -> Any:
        before = nbytes // itemsize
        return new((before + math.prod(shape),))[before:].reshape(shape)

    return view


# Each makes an array of a shape, given a function that makes a C-contiguous one.
LAYOUTS: dict[str, Callable[[New, tuple[int, ...], int], Any]] = {
    "C": lambda new, shape, _: new(shape),
    "Fortran": lambda new, shape, _: new(shape[::-1]).T,
    "steps": lambda new, shape, _: new((*shape[:-1], 2 * shape[-1]))[..., ::2],
    "reversed": lambda new, shape, _: new(shape)[::-1],
    "broadcast": lambda new, shape, _: np.broadcast_to(new((1, *shape[1:])), shape),
    "0-d": lambda new, *_: new(()),
    "size 0": lambda new, shape, _: new((0, *shape[1:])),
    "at 16 bytes": _behind(16),
    "at 64 bytes": _behind(64),
}


def layouts_of(ndim: int) -> list[str]:
    """Return the names of the layouts of arrays with one axis, or with two."""
    return [name for name in LAYOUTS if ndim > 1 or name not in {"Fortran", "0-d"}]


def dtype_of(name: str) -> np.dtype[Any]:
    """Return a dtype by its name; bfloat16 is that of ml_dtypes."""
    return Blob((), name).dtype


def contents(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return an array of different numbers, none 0 or 1, at a multiple of 64 bytes."""
    kind = dtype_of(dtype)
    size = math.prod(shape)
    memory = np.zeros(size * kind.itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    array = memory[start : start + size * kind.itemsize].view(kind).reshape(shape)
    numbers = np.arange(2, size + 2).reshape(shape)
    if kind.kind == "b":
        array[...] = numbers % 3 == 1
    else:
        array[...] = numbers.astype(kind) * (2 + 1j if kind.kind == "c" else 1)
    return array


def array_in(shape: tuple[int, ...], dtype: str, layout: str, *, writable: bool) -> Any:
    """Return an ndarray in a layout; a broadcast one is read-only, as NumPy makes it."""
    array = LAYOUTS[layout](lambda shape: contents(shape, dtype), shape, dtype_of(dtype).itemsize)
    if not writable:
        array.flags.writeable = False
    return array


class Given:
    """A Blob in a layout, a state and a form.

    `blob`: the Blob; const if the form says so.
    `whole`: the Blob that has all the memory.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: str, layout: str, state: str, form: str
    ) -> None:
        def new(shape: tuple[int, ...]) -> Blob:
            on_host = state == "host"
            whole = Blob(shape, dtype, device="cpu" if on_host else "simulated:0", name=NAME)
            side = whole.overwrite_cpu_data() if on_host else whole.overwrite_gpu_data()
            side[...] = contents(shape, dtype)
            if state == "synced":
                whole.cpu_data()
            if state == "aliased":
                self._alias = np.asarray(whole.cpu)
            self.whole = whole
            return whole

        view = LAYOUTS[layout](new, shape, dtype_of(dtype).itemsize)
        self.blob = view.const if form == "const" else view

    def sides(self) -> list[np.ndarray[Any, Any]]:
        """Return the bytes of each side that has memory, without an access."""
        found = [self.whole.memory.buffer(side) for side in syncblob.devices.Side]
        return [buffer for buffer in found if buffer is not None]
