"""Measuring in a separate process, and the memory of a call there."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the top level of a module in a new interpreter, and return its result."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        return executor.submit(function, *arguments).result()


def can_measure_memory() -> bool:
    """Tell whether `growth` works here. It needs Linux."""
    return _CLEAR.exists()


def growth(call: Callable[[], object]) -> tuple[int, int]:
    """Call a function and return the growth of the memory in use, in bytes.

    Returns
    -------
    peak
        The maximum during the call.
    resident
        The growth after the call, while its result is kept.
    """
    gc.collect()
    before = _status("VmRSS")
    # Reset the high-water mark to the memory in use.
    _CLEAR.write_text("5", encoding="ascii")
    kept = call()
    after = _status("VmHWM") - before, _status("VmRSS") - before
    del kept
    return after


def _status(field: str) -> int:
    lines = dict(line.split(":", 1) for line in _STATUS.read_text("ascii").splitlines())
    return int(lines[field].split()[0]) * 1024
