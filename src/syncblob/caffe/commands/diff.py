"""``syncblob diff A B``: compare the weights of two files."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.caffe import equal_shapes, squeezed_blobs
from syncblob.caffe.commands.console import print_json, print_line, print_table, printable
from syncblob.caffe.commands.contents import open_contents
from syncblob.caffe.commands.stats import blocks
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from syncblob.caffe import Layer
    from syncblob.formats import Blob

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
in it, both in double precision. NaN is the same as NaN.

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

_TROUBLE = 2
_SAME, _CHANGED = "same", "changed"
# The results, in the order of the totals.
_STATUSES = ("added", "removed", "reshaped", _CHANGED, _SAME)

_DISTANCE = (
    "different_values", "incomparable_values", "max_difference", "relative_difference",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.set_defaults(failure=_TROUBLE)
    parser.add_argument("a", metavar="A", help="a file of weights")
    parser.add_argument("b", metavar="B", help="the file to compare it with")
    parser.add_argument(
        "--tolerance",
        metavar="T",
        type=_tolerance,
        default=0.0,
        help="relative difference up to which a blob is the same; default 0",
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
    before = open_contents(arguments.a)
    after = open_contents(arguments.b)
    for contents in (before, after):
        for reason in contents.weights.unreadable.values():
            raise ModelFileError(reason, path=contents.weights.path)
    compared = list(compare(before.layers, after.layers, arguments.tolerance))
    if not compared:
        raise ModelFileError(
            f"expected blobs to compare, got none in this file, and none in {arguments.b}",
            path=arguments.a,
        )
    counts = Counter(one["status"] for one in compared)
    totals = {status: counts[status] for status in _STATUSES}
    same = len(compared) == totals[_SAME]
    if arguments.json:
        paths = {"a": arguments.a, "b": arguments.b, "tolerance": arguments.tolerance}
        print_json({**paths, "blobs": compared, "totals": totals, "same": same})
    else:
        _show(compared, totals)
    return 0 if same else 1


def _show(compared: list[dict[str, Any]], totals: dict[str, int]) -> None:
    rows = [_row(one) for one in compared if one["status"] != _SAME]
    if rows:
        print_table(rows, right=["blob", "values", "max", "relative"])
        print_line()
    print_line(", ".join(f"{count:,} {status}" for status, count in totals.items()))


def _row(one: dict[str, Any]) -> dict[str, str]:
    shapes = [str(one[key]) for key in ("shape_a", "shape_b") if one[key] is not None]
    row = {
        "layer": printable(one["layer"]),
        "blob": str(one["blob"]),
        "status": one["status"],
        "shape": " -> ".join(dict.fromkeys(shapes)),
        **dict.fromkeys(("values", "max", "relative"), "-"),
    }
    if one["different_values"] is not None:
        row["values"] = f"{one['different_values']:,}"
    if one["incomparable_values"]:
        row["max"] = "not finite"
    elif one["max_difference"] is not None:
        row["max"] = f"{one['max_difference']:.3g}"
        row["relative"] = f"{one['relative_difference']:.2g}"
    return row


# --- comparison -----------------------------------------------------------------------------------


def compare(
    before: Iterable[Layer], after: Iterable[Layer], tolerance: float
) -> Iterator[dict[str, Any]]:
    """Compare the blobs of two files by layer and number; blobs only in the second come last.

    Shapes are compared as in Caffe: leading axes of length 1, which files of the older formats
    have, are ignored. The results are those of ``--json``.
    """
    sides = _blobs(before), _blobs(after)
    for layer, number in dict.fromkeys(place for side in sides for place in side):
        result: dict[str, Any] = {"layer": layer, "blob": number}
        (ours, our_shape), (theirs, their_shape) = (
            side.get((layer, number), (None, ())) for side in sides
        )
        for name, blob in (("a", ours), ("b", theirs)):
            result[f"shape_{name}"] = None if blob is None else blob.shape
            result[f"dtype_{name}"] = None if blob is None else blob.dtype.name
        distance = dict.fromkeys(_DISTANCE)
        if ours is None or theirs is None:
            status = "added" if ours is None else "removed"
        elif our_shape != their_shape and not equal_shapes(ours, theirs):
            status = "reshaped"
        else:
            status, distance = _compared(ours, theirs, tolerance)
        yield {**result, "status": status, **distance}


def _compared(before: Blob, after: Blob, tolerance: float) -> tuple[str, dict[str, Any]]:
    """Compare two blobs of one shape. NaN equals NaN here."""
    different, incomparable, maximum, largest = _distance(before, after)
    relative = maximum / largest if largest else 0.0
    # The largest difference may be so small that the relative one is rounded to 0.
    same = not different or (tolerance > 0 and not incomparable and relative <= tolerance)
    # Where values became NaN or infinite, the difference of the others would look harmless.
    differences = (None, None) if incomparable else (maximum, relative)
    values = (different, incomparable, *differences)
    return _SAME if same else _CHANGED, dict(zip(_DISTANCE, values, strict=True))


def _blobs(layers: Iterable[Layer]) -> dict[tuple[str, int], tuple[Blob, tuple[int, ...]]]:
    """Return the blobs by layer and number, each with its shape in a running net."""
    found: dict[tuple[str, int], tuple[Blob, tuple[int, ...]]] = {}
    for layer in layers:
        # Formats often omit layers without blobs, so they are not counted.
        if not layer.blobs:
            continue
        name, number = layer.name, 1
        while (name, 0) in found:
            number += 1
            name = f"{layer.name}#{number}"
        squeezed = squeezed_blobs(layer)
        for index, (blob, in_net) in enumerate(zip(layer.blobs, squeezed, strict=True)):
            found[name, index] = blob, in_net.shape
    return found


def _distance(before: Blob, after: Blob) -> tuple[int, int, float, float]:
    """Compare the values of two blobs.

    Returns
    -------
    int
        The number of unequal values.
    int
        The number of those that are NaN or infinite on one side.
    float
        The largest difference of the other values.
    float
        The largest finite magnitude in both.
    """
    values = incomparable = 0
    maximum = largest = 0.0
    pairs = zip(blocks(np.asarray(before)), blocks(np.asarray(after)), strict=True)
    for one, other in pairs:
        dtype = np.result_type(one, other, np.float64)
        ours, theirs = one.astype(dtype), other.astype(dtype)
        # NumPy compares integers without rounding.
        integers = all(side.dtype.kind in "iu" for side in (one, other))
        unequal = one != other if integers else ours != theirs
        different = unequal & ~(np.isnan(ours) & np.isnan(theirs))
        finite = np.isfinite(ours) & np.isfinite(theirs)
        values += int(np.count_nonzero(different))
        incomparable += int(np.count_nonzero(different & ~finite))
        with np.errstate(over="ignore", invalid="ignore"):
            differences = np.abs(ours - theirs)
        maximum = max(maximum, float(np.max(differences, initial=0, where=finite)))
        for side in (ours, theirs):
            largest = max(largest, float(np.max(np.abs(side), initial=0, where=finite)))
    # The difference of the largest doubles overflows, and so does the magnitude of two.
    limit = float(np.finfo(np.float64).max)
    return values, incomparable, min(maximum, limit), min(largest, limit)
