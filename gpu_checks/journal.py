"""A pytest plugin that writes intermediate results: ``-p gpu_checks.journal``.

It writes to the file ``$SYNCBLOB_JOURNAL``, which is valid even if the run is cut off.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

__all__ = ["pytest_collectreport", "pytest_runtest_logreport", "pytest_sessionfinish"]

_EVERY = 2.0
_MOST = 150
_TEXT = 1200
_counts: Counter[str] = Counter()
_failed: list[dict[str, Any]] = []
_skipped: Counter[str] = Counter()
_written = 0.0


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count a test, and record the message of a failure."""
    if report.failed:
        _fail(report.nodeid, report.when or "", report.longreprtext)
    elif report.skipped:
        expected = hasattr(report, "wasxfail")
        _counts["xfailed" if expected else "skipped"] += 1
        if not expected and isinstance(report.longrepr, tuple):
            _skipped[str(report.longrepr[2])[:120]] += 1
    elif report.when == "call":
        _counts["passed"] += 1
    _write()


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Record why a file cannot be collected."""
    if report.failed:
        _fail(report.nodeid, "collect", report.longreprtext)


def pytest_sessionfinish() -> None:
    """Write the final results."""
    _write(now=True)


def _fail(test: str, when: str, text: str) -> None:
    _counts["failed" if when == "call" else f"failed in {when}"] += 1
    if len(_failed) < _MOST:
        _failed.append({"test": test, "when": when, "text": text[-_TEXT:]})


def _write(*, now: bool = False) -> None:
    global _written  # noqa: PLW0603  # of this process
    path = os.environ.get("SYNCBLOB_JOURNAL")
    # Workers of xdist report to the main process, which writes.
    if not path or "PYTEST_XDIST_WORKER" in os.environ:
        return
    if not now and time.monotonic() - _written < _EVERY:
        return
    line = ", ".join(f"{number} {name}" for name, number in _counts.items()) or "nothing yet"
    found = {
        "line": line,
        "counts": _counts,
        "failed": _failed,
        "skipped": dict(_skipped.most_common(30)),
    }
    new = Path(path + ".new")
    new.write_text(json.dumps(found, indent=1), encoding="utf-8")
    new.replace(path)
    _written = time.monotonic()
