"""How long ``import syncblob`` takes, beside ``import numpy``, in fresh processes."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.rows import Measured, Row

if TYPE_CHECKING:
    from benchmarks.timing import Timer

__all__ = ["measure"]


def measure(timer: Timer) -> Measured:
    """Time both imports, less the time of an interpreter that imports nothing."""
    codes = {"nothing": "pass", "numpy": "import numpy", "syncblob": "import syncblob"}
    times = timer.medians({name: partial(_run, code) for name, code in codes.items()})
    ours, rival = times["syncblob"] - times["nothing"], times["numpy"] - times["nothing"]
    return Measured(
        [Row("a first import", "import syncblob", ours, "import numpy", rival)],
        ["syncblob imports NumPy; the difference is its own part"],
    )


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  # our own interpreter
