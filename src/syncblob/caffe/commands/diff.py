"""``syncblob diff A B``: compare the weights of two files."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

from syncblob.caffe.commands.comparison import Status, compare
from syncblob.caffe.commands.console import Cell, Output, print_json, printable
from syncblob.caffe.commands.contents import open_contents
from syncblob.caffe.commands.local_file import local_file
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.caffe.commands.comparison import Compared
    from syncblob.caffe.commands.contents import Contents

NAME = "diff"
SUMMARY = "compare the weights of two files"
DESCRIPTION = """\
Compare two files of weights, blob by blob: which were added, removed or
reshaped, and how much the values of the others differ. The files may have
different formats.

Exit status: 0 if they are the same, 1 if they differ, 2 for errors. It is an
error if neither file has a blob.
"""
EPILOG = """\
Blobs are matched by the name of their layer and by their number in it. Values
are compared as numbers, whatever their dtypes; layers without blobs, types,
gradients and the iteration of a solver are not compared. The relative
difference of a blob is its largest difference divided by the largest magnitude
in it. NaN is the same as NaN.

--json prints one object:
  a, b, tolerance    the paths; the value of --tolerance
  blobs              all of them, each with layer, blob (its number), status
                     ("added", "removed", "reshaped", "changed" or "same"),
                     shape_a, shape_b, dtype_a, dtype_b, different_values,
                     incomparable_values (those NaN or infinite on one
                     side), max_difference, relative_difference (null if there
                     is nothing to compare, or any such value)
  totals             the number of blobs of each status
  same               whether all are the same
"""

HINT = "two files at a time"

_TROUBLE = 2
_STYLES = {
    Status.ADDED: "green",
    Status.REMOVED: "red",
    Status.RESHAPED: "yellow",
    Status.CHANGED: "yellow",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.set_defaults(failure=_TROUBLE)
    parser.add_argument("a", metavar="A", help="a file of weights; - for standard input")
    parser.add_argument("b", metavar="B", help="the file to compare it with")
    parser.add_argument(
        "--tolerance",
        metavar="T",
        type=_tolerance,
        default=0.0,
        help="relative difference up to which a blob is the same; default 0",
    )
    for side in ("a", "b"):
        parser.add_argument(
            f"--key-{side}",
            metavar="KEY",
            help=f"of a checkpoint {side.upper()} with several nets, the one with this key",
        )
    parser.add_argument("--json", action="store_true", help="print JSON, with all blobs")


def _tolerance(text: str) -> float:
    try:
        tolerance = float(text)
    except ValueError:
        tolerance = -1
    if not 0 <= tolerance < 1:
        raise argparse.ArgumentTypeError(
            f"expected a number from 0 to less than 1, as 0.01 for one per cent, got {text!r}"
        )
    return tolerance


def run(arguments: argparse.Namespace) -> int:
    """Run the command and return the exit status."""
    with local_file(arguments.a) as a, local_file(arguments.b) as b:
        before = open_contents(a, arguments.key_a)
        after = open_contents(b, arguments.key_b)
        return _compare(arguments, before, after)


def _compare(arguments: argparse.Namespace, before: Contents, after: Contents) -> int:
    output = None if arguments.json else Output()
    for contents in (before, after):
        contents.require_readable()
    compared = list(compare(before, after, arguments.tolerance))
    if not compared:
        raise ModelFileError(
            f"expected blobs to compare, got none in this file, and none in {arguments.b}",
            path=arguments.a,
        )
    if output is None:
        print_json(_as_json(arguments, compared))
    else:
        _show(output, compared)
    return 0 if _same(compared) else 1


def _same(compared: Sequence[Compared]) -> bool:
    return all(one.status is Status.SAME for one in compared)


def _totals(compared: Sequence[Compared]) -> dict[str, int]:
    counts = Counter(one.status for one in compared)
    return {status.value: counts[status] for status in Status}


def _as_json(arguments: argparse.Namespace, compared: Sequence[Compared]) -> dict[str, Any]:
    return {
        "a": arguments.a,
        "b": arguments.b,
        "tolerance": arguments.tolerance,
        "blobs": [one.as_json() for one in compared],
        "totals": _totals(compared),
        "same": _same(compared),
    }


def _show(output: Output, compared: Sequence[Compared]) -> None:
    rows = [_row(one) for one in compared if one.status is not Status.SAME]
    if rows:
        output.table(
            "layer blob status shape values max relative",
            rows,
            right="blob values max relative",
            folds="layer shape",
        )
        output.line()
    totals = _totals(compared)
    output.line(", ".join(f"{totals[status.value]:,} {status.value}" for status in Status))


def _row(one: Compared) -> list[Cell]:
    shapes = [str(blob.shape) for blob in (one.before, one.after) if blob is not None]
    row: list[Cell] = [
        printable(one.layer),
        str(one.number),
        (one.status.value, _STYLES[one.status]),
        " -> ".join(dict.fromkeys(shapes)),
    ]
    distance = one.distance
    if distance is None:
        return [*row, ("-", "dim"), ("-", "dim"), ("-", "dim")]
    if distance.incomparable:
        return [*row, f"{distance.values:,}", ("not finite", "bold red"), ("-", "dim")]
    return [*row, f"{distance.values:,}", f"{distance.maximum:.3g}", f"{distance.relative:.2g}"]
