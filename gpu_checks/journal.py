"""A pytest plugin that writes each result as soon as it is known: ``-p gpu_checks.journal``.

It appends lines of JSON to the file ``$SYNCBLOB_JOURNAL``. `summary` reads what is there.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

_MOST = 100


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the outcome of a test, with the message of a failure or the reason of a skip."""
    if report.failed:
        _write(report.nodeid, "failed", report.longreprtext[-2000:])
    elif report.skipped:
        reason = getattr(report, "wasxfail", None)
        if reason is not None:
            _write(report.nodeid, "not provoked", reason.removeprefix("reason: "))
        else:
            _write(report.nodeid, "skipped", str(report.longrepr[2]))  # type: ignore[index]  # a tuple
    elif report.when == "call":
        _write(report.nodeid, "passed", "")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write why a file cannot be collected."""
    if report.failed:
        _write(report.nodeid, "failed", report.longreprtext[-2000:])


def _write(test: str, outcome: str, text: str) -> None:
    path = os.environ.get("SYNCBLOB_JOURNAL")
    # Workers of xdist report to the main process, which writes.
    if path and "PYTEST_XDIST_WORKER" not in os.environ:
        line = json.dumps({"test": test, "outcome": outcome, "text": text})
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def summary(path: Path) -> dict[str, Any] | None:
    """Return the results in a journal: their numbers, and what is not simply passed; None if none.

    The last line may be incomplete, if the process was killed.
    """
    if not path.is_file():
        return None
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    counts = Counter(each["outcome"] for each in found)
    others = Counter((each["outcome"], each["text"]) for each in found)
    told = {
        outcome: [text for (of, text), _ in others.most_common() if of == outcome][:_MOST]
        for outcome in ("not provoked", "skipped")
    }
    failed = [each for each in found if each["outcome"] == "failed"][:_MOST]
    line = ", ".join(f"{number} {name}" for name, number in counts.items()) or "nothing yet"
    return {"line": line, "failed": failed, **told}
