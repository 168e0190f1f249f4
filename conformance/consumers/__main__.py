"""Try the consumers and compare with the record: ``python -m conformance.consumers``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.consumers import record, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.consumers.record import Record

DEVICES = ("cpu", "simulated")
# Seconds without an end after which the call that runs is given up.
_LIMIT = 900


def try_consumers(tables: Sequence[str], libraries: Sequence[str]) -> Record:
    """Make the calls of the tables, or of some libraries of them, and return the outcomes.

    Each table has a process of its own, because libraries read settings once. If a call ends it,
    another continues.
    """
    found = record.Record()
    with tempfile.TemporaryDirectory() as folder:
        for name in tables:
            path = Path(folder, name)
            path.touch()
            command = [sys.executable, "-m", "conformance.consumers.running", name, str(path)]
            size = -1
            while path.stat().st_size > size:
                size = path.stat().st_size
                try:
                    done = subprocess.run(  # noqa: S603  # this package
                        [*command, *libraries],
                        stdout=subprocess.DEVNULL,
                        timeout=_LIMIT,
                        check=False,
                    )
                except subprocess.TimeoutExpired:
                    continue
                if done.returncode == 0:
                    break
            for line in path.read_text("utf-8").splitlines():
                library, call, device, version, *outcome = json.loads(line)
                found.versions[f"{name}/{library}"] = version
                found.add(f"{name}/{library}", call, device, *(outcome or ["crash"]))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status: 1 if an outcome got worse."""
    every = {library for name in table.names() for library in table.libraries_of(name)}
    parser = argparse.ArgumentParser(prog="python -m conformance.consumers", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="tables and libraries; default: all tables"
    )
    parser.add_argument("--update", action="store_true", help="write the record anew")
    parser.add_argument("--quiet", action="store_true", help="print differences and totals only")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in {*table.names(), *every}]
    if unknown:
        parser.error(
            f"expected tables, {', '.join(table.names())}, or libraries, "
            f"{', '.join(sorted(every))}, got {', '.join(unknown)}"
        )
    libraries = [name for name in options.names if name in every]
    tables = [name for name in options.names if name in table.names()] or table.names()
    found = try_consumers(tables, libraries)
    if not options.quiet:
        print(found.table())
    for device in DEVICES:
        print(found.totals(device))
    wanted = {
        f"{name}/{x}"
        for name in tables
        for x in table.libraries_of(name)
        if x in (libraries or every)
    }
    missing = sorted(wanted - found.outcomes.keys())
    if missing:
        print(f"\nnot installed: {', '.join(missing)}")
    recorded = record.load()
    changes = record.compare(recorded, found)
    for change in changes:
        print(change)
    if options.update:
        record.save(recorded.updated(found))
        return 0
    if changes:
        print("python -m conformance.consumers --update writes this down")
    return int(any(change.worse for change in changes))


if __name__ == "__main__":
    sys.exit(main())
