"""Run the benchmarks: ``python -m benchmarks [GROUP ...] [--json FILE]``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.groups import GROUPS
from benchmarks.results import Results
from benchmarks.tables import as_markdown
from benchmarks.timing import Timer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["main", "run"]


def run(names: Iterable[str], timer: Timer) -> Results:
    """Measure the named groups, and print the results of each as soon as it is done."""
    print(Results.of_this_machine({}).describe(), flush=True)
    groups = {}
    for name in names:
        found = groups[name] = GROUPS[name](timer)
        notes = [f"{name}: {note}" for note in found.notes]
        print("", f"# {name}", "", as_markdown(found.rows), *notes, sep="\n", flush=True)
    return Results.of_this_machine(groups)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the groups named on the command line, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"any of {', '.join(GROUPS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found to FILE")
    parser.add_argument(
        "--brief",
        action="store_true",
        help="run everything small and once: shows that it runs, and nothing about speed",
    )
    options = parser.parse_args(arguments)
    names = options.groups or list(GROUPS)
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        parser.error(f"expected groups among {', '.join(GROUPS)}, got {', '.join(unknown)}")
    results = run(names, Timer(brief=options.brief))
    if options.json is not None:
        results.write(options.json)


if __name__ == "__main__":
    main()
