"""Calls to time, written as text: the text names the row, and it is what runs."""

import contextlib
import gc
import sys
import tracemalloc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import syncblob
from benchmarks.rows import Row
from benchmarks.timing import Timer
from syncblob import Blob
from syncblob.devices import CPU, accelerator


def function(text: str, names: Mapping[str, Any], parameters: str = "") -> Callable[..., Any]:
    """Return an expression or a statement as a function.

    `text`: the expression, whose value is returned, or the statement.
    `names`: the global names that it uses.
    `parameters`: the names of the function's parameters.
    """
    try:
        compile(text, text, "eval")
    except SyntaxError:
        target = text.partition(" ")[0]
        body = f"global {target}; {text}" if target.isidentifier() and not parameters else text
    else:
        body = f"return {text}"
    found = dict(names)
    # As code of a file, because the history of a memory names the user's file and line.
    code = compile(f"def call({parameters}): {body}", __file__, "exec")
    exec(code, found)  # noqa: S102  # texts of this package
    call: Callable[..., Any] = found["call"]
    return call


def as_blob(array: np.ndarray, device: str = "cpu") -> Blob:
    """Return a Blob with a copy of an array, used on both sides."""
    blob = Blob(array.shape, array.dtype, device=device)
    blob[...] = array
    return on_both_sides(blob)


def on_both_sides(blob: Blob) -> Blob:
    """Read a Blob on its other side, then write it on its own, and return it.

    That is the usual state of a Blob in a program that uses two sides: a Blob with one buffer has
    fewer questions to answer.
    """
    if blob.device == CPU:
        # Not a CUDA device, if there is one: its host buffers differ.
        blob.memory.side_of(accelerator("simulated:0"))
        blob.gpu_data()
        blob.mutable_cpu_data()
    else:
        blob.cpu_data()
        blob.mutable_gpu_data()
    return blob


def compared(
    timer: Timer, section: str, lines: Iterable[tuple[Any, ...]], names: Mapping[str, Any]
) -> Iterator[Row]:
    """Time pairs of calls. A line has ours, the rival's and perhaps a goal."""
    for ours, rival, *goal in lines:
        times = timer.medians({"ours": function(ours, names), "rival": function(rival, names)})
        yield Row(
            section, ours, times["ours"], rival, times["rival"], goal=goal[0] if goal else None
        )


def copying(needs: Iterable[tuple[str, int]]) -> Callable[[], object]:
    """Return a function that copies and allocates as the simulated device does, and no more.

    `needs`: ``"upload"``, ``"download"``, or the backend's function that allocates, each with the
        number of bytes.
    """
    backend = accelerator("simulated:0")
    arguments: list[tuple[Any, ...]] = []
    for name, nbytes in needs:
        host, buffer = backend.allocate_host(nbytes), backend.allocate(nbytes)
        if name == "upload":
            arguments.append((backend.upload, host, buffer))
        elif name == "download":
            arguments.append((backend.download, buffer, host))
        else:
            arguments.append((getattr(backend, name), nbytes))

    def copy() -> None:
        for run, *operands in arguments:
            run(*operands)

    return copy


def calls_made(
    function: Callable[[], object], events: Collection[str] = ("call",)
) -> list[tuple[str, str]]:
    """Return the file and the name of each function that a function calls.

    With ``"c_call"`` among the events, those in C too, each with the file and the name of its
    caller.
    """
    found: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event in events:
            found.append((frame.f_code.co_filename, frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return found


def package_calls(call: Callable[[], object]) -> int:
    """Return how many functions of the package, in Python, a call calls."""
    folder = str(Path(syncblob.__file__).parent)
    return sum(file.startswith(folder) for file, _ in calls_made(call))


def traced(make: Callable[[], object]) -> tuple[int, int]:
    """Return the bytes allocated for the result of a function, and the most during the call."""
    gc.collect()
    tracemalloc.start()
    try:
        kept = make()
        peak = tracemalloc.get_traced_memory()[1]
        gc.collect()
        return tracemalloc.get_traced_memory()[0], peak
    finally:
        tracemalloc.stop()
        del kept


@contextlib.contextmanager
def torch_of_one_thread() -> Iterator[Any]:
    """Give torch, or None, with one thread: with several, their waits would be measured."""
    try:
        import torch  # a rival that may be missing
    except ImportError:
        yield None
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield torch
    finally:
        torch.set_num_threads(threads)
