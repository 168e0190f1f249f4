"""The time of ``import syncblob`` and of ``import numpy``, in new processes."""

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from tempfile import TemporaryDirectory

from benchmarks.rows import Goal, Measured, Row
from benchmarks.timing import Timer


def measure(timer: Timer) -> Measured:
    """Time both imports, minus the time of an interpreter that imports nothing.

    Both are compiled already, as in every import after the first one of an installation.
    """
    codes = {"nothing": "pass", "numpy": "import numpy", "syncblob": "import syncblob"}
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        for code in codes.values():
            _run(code, environment)
        calls = {name: partial(_run, code, environment) for name, code in codes.items()}
        times = timer.medians(calls)
    ours, rival = times["syncblob"] - times["nothing"], times["numpy"] - times["nothing"]
    return Measured(
        [Row("an import", "import syncblob", ours, "import numpy", rival, goal=Goal(2.0))],
        ["syncblob imports NumPy; the difference is its own part"],
    )


def _run(code: str, environment: Mapping[str, str]) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)  # noqa: S603  # our own interpreter
