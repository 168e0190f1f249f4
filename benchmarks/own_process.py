"""Measuring in a separate process, and the memory of a call there."""

from __future__ import annotations

import gc
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Growth", "can_measure_memory", "growth", "in_own_process"]

ROOT = Path(__file__).parents[1]
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


class Growth(NamedTuple):
    """The growth of the memory of the process, in bytes.

    Attributes
    ----------
    peak
        The maximum during the call.
    resident
        The growth after the call, while its result is kept.
    """

    peak: float
    resident: float


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a new interpreter, and return its result, passed as JSON.

    Parameters
    ----------
    function
        A function at the top level of a module.
    arguments
        Its arguments, which JSON must be able to represent.
    """
    command = [sys.executable, "-m", "benchmarks.own_process", function.__module__]
    command += [function.__name__, json.dumps(arguments)]
    result = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)  # noqa: S603  # our own interpreter
    return json.loads(result.stdout)


def can_measure_memory() -> bool:
    """Tell whether `growth` works here. It needs Linux."""
    return _CLEAR.exists()


def growth(call: Callable[[], object]) -> Growth:
    """Call a function and return the growth of the memory in use."""
    gc.collect()
    before = _status("VmRSS")
    # Reset the high-water mark to the memory in use.
    _CLEAR.write_text("5", encoding="ascii")
    kept = call()
    after = Growth(_status("VmHWM") - before, _status("VmRSS") - before)
    del kept
    return after


def _status(field: str) -> float:
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(f"{_STATUS} has no {field}")


def _main() -> None:
    module, name, arguments = sys.argv[1:]
    function = getattr(importlib.import_module(module), name)
    print(json.dumps(function(*json.loads(arguments))))


if __name__ == "__main__":
    _main()
