"""Parts of arrays: bytes moved and time, compared with the minimum and with explicit copies.

Each program works on parts of an array on both sides. It runs on Blobs, with explicit copies of
exactly the bytes needed, with a copy of the whole array at each step, and, on a GPU, on managed
memory. All must give the same result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.machine import cuda_device
from benchmarks.rows import Goal, Measured, Row
from benchmarks.transfers import copy_async, pinned_array
from syncblob import Blob, record_transfers
from syncblob.memory.state import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.timing import Timer

__all__ = ["PROGRAMS", "measure"]

Array = np.ndarray[Any, Any]

ROWS, COLUMNS = 4096, 6104
"""100 MB of float32."""

BRIEF = 64, 16
BATCHES = 32
FRAMES = 16
HALO = 2


def measure(timer: Timer) -> Measured:
    """Run each program in all ways, and compare bytes and times."""
    device = cuda_device()
    shape = BRIEF if timer.brief else (ROWS, COLUMNS)
    rows = []
    for make in PROGRAMS:
        ways: dict[str, Way] = {
            "Blobs": Blobs(shape, device or "simulated:0"),
            "the bytes needed, by hand": ByHand(shape, device),
            "whole arrays, by hand": WholeArrays(shape, device),
        }
        if device is not None:
            ways["the bytes needed, by hand, page-locked"] = PageLocked(shape, device)
            ways["managed memory"] = Managed(shape)
        rows += _compared(timer, make(shape), ways)
    rows.append(_small(timer, device or "simulated:0"))
    notes = [] if device else ["there is no CUDA device: copies of the simulated device are timed"]
    return Measured(rows, notes)


def _small(timer: Timer, device: str) -> Row:
    """Compare reads of a part of a small memory, which bring everything, with those of a larger."""
    calls = {}
    for name, nbytes in (("small", SMALL), ("larger", SMALL + 1)):
        blob = Blob(nbytes, "uint8", device=device)
        blob.mutable_gpu_data()
        part = blob[:64]

        def read(blob: Blob = blob, part: Blob = part) -> None:
            blob.mutable_gpu_data()
            part.cpu_data()

        calls[name] = read
    seconds = timer.medians(calls)
    return Row(
        "a part of 64 bytes, written on the device and read on the host: time",
        f"a Blob of {SMALL} bytes, all of it",
        seconds["small"],
        "a larger one, the part",
        seconds["larger"],
    )


def _compared(timer: Timer, program: Program, ways: dict[str, Way]) -> list[Row]:
    results, moved = {}, {}
    for name, way in ways.items():
        way.start()
        results[name], moved[name] = way.count(partial(program.run, way))
    for name, result in results.items():
        if not np.allclose(result, results["Blobs"]):
            raise AssertionError(f"{program.title}: {name} gives {result}, not {results['Blobs']}")
    section = program.title
    least = Goal(1.0)
    rows = [Row(section, "Blobs", moved["Blobs"], "the least", program.least, "bytes", least)]
    rows += [
        Row(section, "Blobs", moved["Blobs"], name, moved[name], "bytes")
        for name in ways
        if name != "Blobs" and moved[name] is not None
    ]
    calls = {name: partial(_again, way, program) for name, way in ways.items()}
    seconds = timer.medians(calls, rounds=5, seconds=0)
    rows += [
        Row(f"{section}: time", "Blobs", seconds["Blobs"], name, seconds[name])
        for name in ways
        if name != "Blobs"
    ]
    return rows


def _again(way: Way, program: Program) -> None:
    way.start()
    program.run(way)


# --- the ways ------------------------------------------------------------------------------------


class Way(ABC):
    """An array, initially ones on the host and zeros on the device, and accesses to its parts."""

    moved: int | None = 0

    @abstractmethod
    def start(self) -> None:
        """Fill the array on the host."""

    @abstractmethod
    def read_device(self, rows: slice) -> Any:
        """Return rows on the device, to read."""

    @abstractmethod
    def write_device(self, rows: slice) -> Any:
        """Return rows on the device, to overwrite."""

    @abstractmethod
    def read_host(self, rows: slice) -> Array:
        """Return rows on the host, to read."""

    @abstractmethod
    def write_host(self, rows: slice) -> Array:
        """Return rows on the host, to overwrite."""

    @abstractmethod
    def element(self, row: int, column: int) -> float:
        """Return one element."""

    def ahead(self, rows: slice) -> None:  # noqa: B027  # most ways cannot say that
        """Start to copy rows to the device, if this way can."""

    def count(self, run: Callable[[], float]) -> tuple[float, int | None]:
        """Run a program; return its result and the bytes moved, or None if they are unknown."""
        self.moved = 0
        result = run()
        return result, self.moved


class Blobs(Way):
    """One Blob, and views of it."""

    def __init__(self, shape: tuple[int, int], device: str) -> None:
        self.blob = Blob(shape, device=device)

    def start(self) -> None:
        """Fill the host's side."""
        self.blob.overwrite_cpu_data().fill(1)

    def read_device(self, rows: slice) -> Any:
        """Read a view."""
        return self.blob[rows].gpu_data()

    def write_device(self, rows: slice) -> Any:
        """Overwrite a view."""
        return self.blob[rows].overwrite_gpu_data()

    def read_host(self, rows: slice) -> Array:
        """Read a view."""
        return self.blob[rows].cpu_data()

    def write_host(self, rows: slice) -> Array:
        """Overwrite a view."""
        return self.blob[rows].overwrite_cpu_data()

    def element(self, row: int, column: int) -> float:
        """Index, as with any array."""
        return float(self.blob[row, column])

    def ahead(self, rows: slice) -> None:  # most ways cannot say that
        """Prefetch a view."""
        self.blob[rows].prefetch()

    def count(self, run: Callable[[], float]) -> tuple[float, int | None]:
        """Count with the journal."""
        with record_transfers() as log:
            return run(), log.nbytes


class ByHand(Way):
    """Two arrays, and copies of exactly the bytes that the programs need.

    A read on the device copies the rows that were written on the host since, and vice versa. These
    are the copies that a programmer who knows the program would write.
    """

    def __init__(self, shape: tuple[int, int], device: str | None) -> None:
        self.host = np.empty(shape, np.float32)
        self.cupy: Any = None
        if device is not None:
            import cupy  # there is a CUDA device, so CuPy is there

            self.cupy = cupy
        make = np.empty if self.cupy is None else self.cupy.empty
        self.device = make(shape, np.float32)
        self.newer_on_host = np.ones(shape[0], bool)
        self.newer_on_device = np.zeros(shape[0], bool)

    def start(self) -> None:
        """Fill the host's array."""
        self.host.fill(1)
        self.newer_on_host[:] = True
        self.newer_on_device[:] = False

    def stale(self, newer: Array, rows: slice) -> list[slice]:
        """Return the runs of rows that are newer elsewhere."""
        edges = np.flatnonzero(np.diff(np.r_[False, newer[rows], False]))
        first = rows.indices(len(newer))[0]
        return [
            slice(first + start, first + stop)
            for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        ]

    def upload(self, rows: slice) -> None:
        """Copy rows to the device."""
        for part in self.stale(self.newer_on_host, rows):
            if self.cupy is None:
                np.copyto(self.device[part], self.host[part])
            else:
                self.device[part].set(self.host[part])
            self.moved = (self.moved or 0) + self.host[part].nbytes
            self.newer_on_host[part] = False

    def download(self, rows: slice) -> None:
        """Copy rows to the host."""
        for part in self.stale(self.newer_on_device, rows):
            if self.cupy is None:
                np.copyto(self.host[part], self.device[part])
            else:
                self.device[part].get(out=self.host[part])
            self.moved = (self.moved or 0) + self.host[part].nbytes
            self.newer_on_device[part] = False

    def read_device(self, rows: slice) -> Any:
        """Copy the stale rows."""
        self.upload(rows)
        return self.device[rows]

    def write_device(self, rows: slice) -> Any:
        """Copy nothing."""
        self.newer_on_host[rows] = False
        self.newer_on_device[rows] = True
        return self.device[rows]

    def read_host(self, rows: slice) -> Array:
        """Copy the stale rows."""
        self.download(rows)
        return self.host[rows]

    def write_host(self, rows: slice) -> Array:
        """Copy nothing."""
        self.newer_on_device[rows] = False
        self.newer_on_host[rows] = True
        return self.host[rows]

    def element(self, row: int, column: int) -> float:
        """Copy one element."""
        if not self.newer_on_device[row]:
            return float(self.host[row, column])
        self.moved = (self.moved or 0) + self.host.itemsize
        return float(self.device[row, column])


class PageLocked(ByHand):
    """The same with page-locked memory, waiting for copies only if necessary.

    A programmer who knows CUDA would write this: uploads overlap with work on the host, and the
    next rows are copied on a separate stream.
    """

    def __init__(self, shape: tuple[int, int], device: str) -> None:
        super().__init__(shape, device)
        nbytes = shape[0] * shape[1] * 4
        self.host = pinned_array(self.cupy, nbytes).view(np.float32).reshape(shape)
        self.side = self.cupy.cuda.Stream(non_blocking=True)
        self.uploaded: Any = None

    def start(self) -> None:
        """Fill the host's array when no upload reads it any more."""
        self.wait()
        super().start()

    def wait(self) -> None:
        """Wait for the last upload."""
        if self.uploaded is not None:
            self.uploaded.synchronize()
            self.uploaded = None

    def start_upload(self, rows: slice, stream: Any) -> None:
        """Copy rows to the device on a stream."""
        for part in self.stale(self.newer_on_host, rows):
            copy_async(self.cupy, self.host[part], self.device[part], stream, up=True)
            self.moved = (self.moved or 0) + self.host[part].nbytes
            self.newer_on_host[part] = False
            self.uploaded = stream.record()

    def upload(self, rows: slice) -> None:
        """Make the current stream wait for uploads under way, and copy the rest."""
        current = self.cupy.cuda.get_current_stream()
        if self.uploaded is not None:
            current.wait_event(self.uploaded)
        self.start_upload(rows, current)

    def ahead(self, rows: slice) -> None:
        """Copy rows on a separate stream, ordered after the work on the current one."""
        if self.newer_on_host[rows].any():
            self.side.wait_event(self.cupy.cuda.get_current_stream().record())
            self.start_upload(rows, self.side)

    def download(self, rows: slice) -> None:
        """Copy rows to the host, and wait."""
        current = self.cupy.cuda.get_current_stream()
        for part in self.stale(self.newer_on_device, rows):
            copy_async(self.cupy, self.host[part], self.device[part], current, up=False)
            self.moved = (self.moved or 0) + self.host[part].nbytes
            self.newer_on_device[part] = False
        current.synchronize()

    def write_host(self, rows: slice) -> Array:
        """Wait for uploads that may still read."""
        self.wait()
        return super().write_host(rows)


class WholeArrays(ByHand):
    """The same with copies of the whole array, as if arrays were only tracked as a whole."""

    def upload(self, rows: slice) -> None:
        """Copy everything if any of it is newer on the host."""
        if self.newer_on_host[rows].any():
            super().download(slice(None))
            self.newer_on_host[:] = True
            super().upload(slice(None))

    def download(self, rows: slice) -> None:
        """Copy everything if any of it is newer on the device."""
        if self.newer_on_device[rows].any():
            super().upload(slice(None))
            self.newer_on_device[:] = True
            super().download(slice(None))

    def element(self, row: int, column: int) -> float:
        """Copy everything for one element."""
        self.download(slice(row, row + 1))
        return float(self.host[row, column])


class Managed(Way):
    """One array in CUDA's managed memory, which moves pages when they are touched."""

    moved = None

    def __init__(self, shape: tuple[int, int]) -> None:
        import cupy  # there is a CUDA device, so CuPy is there

        self.cupy = cupy
        size = shape[0] * shape[1] * 4
        self.memory = cupy.cuda.malloc_managed(size)
        self.device = cupy.ndarray(shape, np.float32, self.memory)
        import ctypes

        raw = (ctypes.c_uint8 * size).from_address(self.memory.ptr)
        self.host = np.frombuffer(raw, np.float32).reshape(shape)

    def start(self) -> None:
        """Fill it on the host."""
        self.cupy.cuda.get_current_stream().synchronize()
        self.host.fill(1)

    def read_device(self, rows: slice) -> Any:
        """Touch the pages."""
        return self.device[rows]

    write_device = read_device

    def read_host(self, rows: slice) -> Array:
        """Wait for the device, then touch the pages."""
        self.cupy.cuda.get_current_stream().synchronize()
        return self.host[rows]

    write_host = read_host

    def element(self, row: int, column: int) -> float:
        """Touch one page."""
        return float(self.read_host(slice(row, row + 1))[0, column])

    def count(self, run: Callable[[], float]) -> tuple[float, int | None]:
        """Run a program. The driver does not report what it moved."""
        return run(), None


# --- the programs --------------------------------------------------------------------------------


class Program(ABC):
    """A program on parts of an array of ones.

    Attributes
    ----------
    title
        A short description.
    least
        The minimum of bytes to move.
    """

    title: str
    least: int

    def __init__(self, shape: tuple[int, int]) -> None:
        self.rows, self.columns = shape
        self.least = self.least_rows() * self.columns * 4

    def least_rows(self) -> int:
        """Return the minimum of rows to move."""
        return 0

    @abstractmethod
    def run(self, way: Way) -> float:
        """Run it, and return a number that depends on all steps."""


class OneElement(Program):
    """The device computes everything, and the host reads one element."""

    title = "one element of what the device has computed"

    def __init__(self, shape: tuple[int, int]) -> None:
        super().__init__(shape)
        self.least = 4

    def run(self, way: Way) -> float:
        """Fill on the device, read on the host."""
        way.write_device(slice(None))[...] = 7
        return way.element(3, 5)


class Batches(Program):
    """The device reads a data set of the host, batch by batch, twice."""

    title = "two epochs of mini-batches of a host data set, each pushed while the last one computes"

    def least_rows(self) -> int:
        """Return each row once."""
        return self.rows

    def run(self, way: Way) -> float:
        """Sum the batches."""
        size = self.rows // BATCHES
        batches = [slice(start, start + size) for start in range(0, self.rows, size)]
        total = 0.0
        for _ in range(2):
            for batch, following in zip(batches, [*batches[1:], batches[0]], strict=True):
                array = way.read_device(batch)
                way.ahead(following)
                total += float(array.sum())
        return total


class Region(Program):
    """The host changes a band of a frame, and the device works on the whole frame."""

    title = "a region of interest that the host changes in each frame"

    def least_rows(self) -> int:
        """Return the frame once, and the band in each frame except the first."""
        return self.rows + (FRAMES - 1) * (self.rows // 8)

    def run(self, way: Way) -> float:
        """Change, and sum."""
        band = slice(self.rows // 4, self.rows // 4 + self.rows // 8)
        total = 0.0
        for frame in range(FRAMES):
            way.write_host(band)[...] = frame
            total += float(way.read_device(slice(None)).sum())
        return total


class Halves(Program):
    """The host computes one half and the device the other; each half stays where it is."""

    title = "two halves of an array, computed on two sides"

    def least_rows(self) -> int:
        """Return the half of the device, at the end."""
        return self.rows // 2

    def run(self, way: Way) -> float:
        """Compute, and join the halves on the host at the end."""
        upper, lower = slice(0, self.rows // 2), slice(self.rows // 2, None)
        for step in range(FRAMES):
            way.write_host(upper)[...] = step
            way.write_device(lower)[...] = step + 1
        return float(way.read_host(slice(None)).sum())


class Stencil(Program):
    """The host and the device smooth one half each, and exchange the rows at the border."""

    title = "halo rows exchanged between the sides in a stencil"

    def least_rows(self) -> int:
        """Return the lower half, and the halo of both sides in each step except the first."""
        return self.rows // 2 + HALO + (FRAMES - 1) * 2 * HALO

    def run(self, way: Way) -> float:
        """Add to each half the other one's border rows, then sum those."""
        middle = self.rows // 2
        above, below = slice(middle - HALO, middle), slice(middle, middle + HALO)
        total = float(way.read_device(slice(middle, None)).sum())
        for step in range(FRAMES):
            upper = float(way.read_device(above).sum())
            lower = float(way.read_host(below).sum())
            way.write_device(below)[...] = step + upper / self.columns
            way.write_host(above)[...] = step + lower / self.columns
            total += upper + lower
        return total


PROGRAMS: tuple[Callable[[tuple[int, int]], Program], ...] = (
    OneElement,
    Batches,
    Region,
    Halves,
    Stencil,
)
