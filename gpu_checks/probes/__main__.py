"""Run one probe: ``python -m gpu_checks.probes NAME FILE``. Prints one line, and writes JSON."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path

from gpu_checks.probes import allocation, lifetimes, protocols, streams
from gpu_checks.probes.report import PROBES, NeedsError, Report

__all__ = ["MODULES", "main"]

# Importing them fills the table of probes.
MODULES = (protocols, streams, lifetimes, allocation)


def main(name: str, path: Path) -> int:
    """Run a probe; return 1 if something is wrong or fails."""
    question, function = PROBES[name]
    report = Report()
    start = time.perf_counter()
    verdict, line = "", ""
    try:
        function(report)
    except NeedsError as error:
        # Checks made before count.
        if report.wrong or report.right:
            line = f"{report.line}; the rest cannot be made here: {error}"
        else:
            verdict = "cannot be made here"
            line = f"{verdict}: {error}"
    except Exception as error:  # noqa: BLE001  # it is the verdict
        verdict = "failed"
        line = f"failed: {type(error).__name__}: {error}"[:600].replace("\n", " ")
        report.notes["traceback"] = traceback.format_exc()[-2500:]
    verdict, line = verdict or report.verdict, line or report.line
    found = {
        "question": question,
        "verdict": verdict,
        "line": line,
        "seconds": round(time.perf_counter() - start, 3),
        "wrong": report.wrong,
        "right": report.right,
        "doubts": report.doubts,
        "notes": report.notes,
    }
    new = path.with_suffix(".new")
    new.write_text(json.dumps(found, indent=1, default=str), encoding="utf-8")
    new.replace(path)
    print(f"{name}: {line}", flush=True)
    return int(verdict in ("wrong", "failed"))


if __name__ == "__main__":
    status = main(sys.argv[1], Path(sys.argv[2]))
    sys.stdout.flush()
    # A probe may leave threads that wait forever.
    os._exit(status)
