"""Run all benchmarks and update the published results: ``python -m benchmarks.publish``.

Writes the results of this kind of machine, ``benchmarks/results/cpu.json`` or ``cuda.json``. From
the files of results it makes the tables in ``docs/performance.md`` and
``docs/performance-tables.md``. No figure there is written by hand.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.__main__ import GROUPS, run
from benchmarks.machine import describe_machine, kind_of_machine
from benchmarks.results import FOLDER, Results, merged
from benchmarks.rows import CUT_OFF, Measured
from benchmarks.tables import as_markdown
from benchmarks.timing import Timer

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (DOCS / "performance.md", DOCS / "performance-tables.md")

# A placeholder for figures: the kind of machine, the group and, for a single one, the section.
# "machine" is the description of the machine.
_PLACE = re.compile(
    r"(?P<begin><!-- figures: (?P<kind>\w+) (?P<group>\w+)(?:: (?P<section>[^>]+?))? -->\n)"
    r".*?(?P<end><!-- end of figures -->)",
    re.DOTALL,
)
_MISSING = (
    "*Not measured yet on such a machine; `python -m benchmarks.publish` there fills this in.*\n"
)
_NOT_MEASURED = "*Not measured in this run.*\n"


def published() -> dict[str, Results]:
    """Return the published results, by kind of machine."""
    return {path.stem: Results.read(path) for path in sorted(FOLDER.glob("*.json"))}


def pages() -> str:
    """Return the text of all pages that show figures."""
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def filled(page: str, results: Mapping[str, Results]) -> str:
    """Return a page with figures in all of its placeholders, or the words "not measured".

    LookupError: if a placeholder names a group, or a section of a complete group, that does not
        exist.
    """

    def figures(place: re.Match[str]) -> str:
        found = results.get(place["kind"])
        if found is None:
            text = _MISSING
        elif place["group"] == "machine":
            text = f"Measured on {found.when}: {found.describe()}.\n"
        else:
            text = _figures(found, place["group"], place["section"])
        return f"{place['begin']}\n{text}\n{place['end']}"

    return _PLACE.sub(figures, page)


def _figures(results: Results, group: str, section: str | None) -> str:
    if group not in GROUPS:
        raise LookupError(f"expected a group among {', '.join(GROUPS)}, got {group!r}")
    measured = results.groups.get(group, Measured(notes=[CUT_OFF]))
    rows = [row for row in measured.rows if section in {None, row.section}]
    if not rows:
        if CUT_OFF not in measured.notes:
            raise LookupError(f"expected a section of {group}, got {section!r}")
        return _NOT_MEASURED
    notes = [] if section else [f"*{note[0].upper()}{note[1:]}.*\n" for note in measured.notes]
    return "\n".join([as_markdown(rows), *notes])


def shown(page: str, kind: str) -> set[str]:
    """Return the groups that a page, or several, show for a kind of machine."""
    places = (place for place in _PLACE.finditer(page) if place["kind"] == kind)
    return {place["group"] for place in places} - {"machine"}


def taken(paths: Sequence[Path], page: str) -> tuple[str, Results]:
    """Return the kind of another machine, and the results of `.ci/gpu` on it.

    ValueError: if they are from several machines or from the tests' model of CUDA.
    """
    results = merged([Results.read(path) for path in paths])
    if results.machine.get("model"):
        raise ValueError(
            f"expected results of a GPU, got those of the model of CUDA in {paths[0]}: they are no "
            "measurements"
        )
    kind = "cuda" if "gpu" in results.machine else "cpu"
    missing = sorted(shown(page, kind) - set(results.groups))
    if missing:
        print(f"not measured, and marked so: {', '.join(missing)}")
    return kind, results


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all benchmarks, or take measured results, then update the pages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.publish", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--no-run", action="store_true", help="renew them from the results that are there"
    )
    which.add_argument(
        "--take",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="renew them from what `.ci/gpu` has written on another machine: benchmarks-*.json",
    )
    options = parser.parse_args(arguments)
    if options.take:
        try:
            kind, results = taken(options.take, pages())
        except ValueError as error:
            parser.error(str(error))
        results.write(FOLDER / f"{kind}.json")
    elif not options.no_run:
        if describe_machine().get("model"):
            parser.error("expected a GPU or none, got the model of CUDA: it measures nothing")
        run(GROUPS, Timer()).write(FOLDER / f"{kind_of_machine()}.json")
    found = published()
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
