"""How long ``import syncblob`` takes, beside ``import numpy``, in fresh processes."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from benchmarks.timing import medians, print_table

__all__ = ["main"]


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  # our own interpreter


def main() -> None:
    """Time both imports, less the time of an interpreter that imports nothing."""
    codes = {"nothing": "pass", "numpy": "import numpy", "syncblob": "import syncblob"}
    times = medians({name: partial(_run, code) for name, code in codes.items()})
    ours, rival = times["syncblob"] - times["nothing"], times["numpy"] - times["nothing"]
    print_table("import", [("import syncblob", ours, "import numpy", rival)])


if __name__ == "__main__":
    main()
