"""Runs pytest in a separate process, and reads the report of pytest-json-report."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.suite import SuiteError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["REPORT_OPTIONS", "clean_environment", "run_pytest"]

ROOT = Path(__file__).resolve().parents[1]

# The last option takes all words up to the next option.
REPORT_OPTIONS = (
    "--json-report",
    *("--json-report-omit", "collectors", "keywords", "log", "streams", "warnings"),
)


def run_pytest(command: Sequence[str], environment: Mapping[str, str], raw: Path) -> dict[str, Any]:
    """Run pytest and return the report that it wrote to `raw`.

    Raises
    ------
    SuiteError
        If pytest ended without a report.
    """
    done = subprocess.run(command, env=environment, check=False)  # noqa: S603  # our own interpreter
    try:
        report: dict[str, Any] = json.loads(raw.read_text("utf-8"))
    except FileNotFoundError:
        raise SuiteError(
            f"expected pytest to run the suite, got exit status {done.returncode} and no "
            "report; its output above says why"
        ) from None
    return report


def clean_environment(prefixes: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment for another pytest, with this checkout importable.

    Parameters
    ----------
    prefixes
        Variables with these prefixes are left out, and so are those of a pytest around this one.
    """
    left_out = ("PYTEST_", *prefixes)
    mine = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    paths = [str(ROOT), *filter(None, [mine.get("PYTHONPATH")])]
    return mine | {"PYTHONPATH": os.pathsep.join(paths)}
