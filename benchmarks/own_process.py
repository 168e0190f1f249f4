"""Measuring in a process of its own, and how much memory a call takes there."""

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
    """By how many bytes the memory of the process grew.

    Attributes
    ----------
    peak
        At most, during the call.
    resident
        After it, while its result is kept.
    """

    peak: float
    resident: float


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module in a new interpreter, and return what it returns, as JSON does.

    Parameters
    ----------
    function
        A function that its module has under its name.
    arguments
        What JSON can carry.
    """
    command = [sys.executable, "-m", "benchmarks.own_process", function.__module__]
    command += [function.__name__, json.dumps(arguments)]
    result = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)  # noqa: S603  # our own interpreter
    return json.loads(result.stdout)


def can_measure_memory() -> bool:
    """Tell whether `growth` works here: on Linux."""
    return _CLEAR.exists()


def growth(call: Callable[[], object]) -> Growth:
    """Call a function and return by how much the memory in use exceeds what there was before."""
    gc.collect()
    before = _status("VmRSS")
    # Sets the high-water mark back to what is in use.
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
