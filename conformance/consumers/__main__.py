"""Try the consumers and compare with the record: ``python -m conformance.consumers``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.consumers import record
from conformance.consumers.table import libraries_of, names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.consumers.record import Outcomes

# Seconds without an end after which the call that runs is given up.
_LIMIT = 900


def try_consumers(tables: Sequence[str], libraries: Sequence[str]) -> Outcomes:
    """Make the calls of the tables, or of some libraries of them, and return the outcomes.

    Each table has a process of its own, because libraries read settings once. If a call ends it,
    another continues.
    """
    found: Outcomes = {}
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
                calls = found.setdefault(f"{name}/{library} {version}", {})
                calls.setdefault(call, {})[device] = outcome[0] if outcome else "crash"
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status: 1 if an outcome got worse."""
    every = {library for name in names() for library in libraries_of(name)}
    parser = argparse.ArgumentParser(prog="python -m conformance.consumers", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="tables and libraries; default: all tables")
    add("--update", action="store_true", help="write the record anew")
    add("--list", action="store_true", help="only print the libraries, as pip takes them")
    options = parser.parse_args(arguments)
    if options.list:
        print(*sorted(every))
        return 0
    unknown = {*options.names} - {*names(), *every}
    if unknown:
        parser.error(f"expected tables, {', '.join(names())}, or libraries, got {sorted(unknown)}")
    libraries = [name for name in options.names if name in every]
    found = try_consumers([x for x in options.names if x in names()] or names(), libraries)
    for device in ("cpu", "simulated"):
        print(record.totals(found, device))
    tried = {name.partition("/")[2].partition(" ")[0] for name in found}
    print("not installed:", *sorted({*(libraries or every)} - tried))
    recorded = record.load()
    changes = record.compare(recorded, found)
    for change, worse in changes.items():
        print("WORSE:" if worse else "changed:", change)
    if options.update:
        record.save(recorded, found)
        return 0
    if changes:
        print("python -m conformance.consumers --update writes this down")
    return int(any(changes.values()))


if __name__ == "__main__":
    sys.exit(main())
