"""Run the benchmarks: ``python -m benchmarks [GROUP ...] [--json FILE]``."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks import (
    array_api,
    files,
    import_time,
    interop,
    large_files,
    objects,
    ordinary,
    pipeline,
    shared,
    states,
    streaming,
    transfers,
)
from benchmarks.results import Results
from benchmarks.rows import CUT_OFF, Measured, Row, noting
from benchmarks.tables import as_markdown
from benchmarks.timing import Timer

GROUPS: dict[str, Callable[[Timer], Measured]] = {
    "array_api": array_api.measure,
    "calls": ordinary.measure,
    "files": files.measure,
    "import_time": import_time.measure,
    "interop": interop.measure,
    "large_files": large_files.measure,
    "objects": objects.measure,
    "pipeline": pipeline.measure,
    "regions": pipeline.measure_parts,
    "shared": shared.measure,
    "states": states.measure,
    "streaming": streaming.measure,
    "transfers": transfers.measure,
}


def run(names: Iterable[str], timer: Timer, path: Path | None = None) -> Results:
    """Measure the named groups, and print the results of each as soon as it is done.

    With a path, write what is known there after each row, so that a run that is killed leaves it.
    """
    results = Results.of_this_machine({})
    print(results.describe(), flush=True)
    for name in names:
        so_far = results.groups[name] = Measured([], [CUT_OFF])

        def note(row: Row, so_far: Measured = so_far) -> None:
            so_far.rows.append(row)
            if path is not None:
                results.write(path)

        with noting(note):
            results.groups[name] = GROUPS[name](timer)
        found = results.groups[name]
        notes = [f"{name}: {note}" for note in found.notes]
        print("", f"# {name}", "", as_markdown(found.rows), *notes, sep="\n", flush=True)
        if path is not None:
            results.write(path)
    return results


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
    run(names, Timer(brief=options.brief), options.json)


if __name__ == "__main__":
    main()
