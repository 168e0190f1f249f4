"""``syncblob diff A B``: compare the weights of two files."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from syncblob.caffe import Layer, blob_values, equal_shapes
from syncblob.caffe.commands.console import print_line, print_table, printable
from syncblob.caffe.commands.contents import open_contents
from syncblob.caffe.convert.weights import name_with_number
from syncblob.caffe.messages.fields import Array, Shape
from syncblob.errors import ModelFileError
from syncblob.formats import Blob

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
"""

_TROUBLE = 2
_BLOCK = 1 << 16
"""The number of values to compare at a time, whose differences fit in the processor's cache."""
_SAME, _CHANGED = "same", "changed"
# The results, in the order of the totals.
_STATUSES = ("added", "removed", "reshaped", _CHANGED, _SAME)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(failure=_TROUBLE)
    parser.add_argument("a", metavar="A", help="a file of weights")
    parser.add_argument("b", metavar="B", help="the file to compare it with")
    parser.add_argument(
        "--tolerance",
        metavar="T",
        type=float,
        default=0.0,
        help="relative difference up to which a blob is the same, as 0.01 for one per cent",
    )


def run(arguments: argparse.Namespace) -> int:
    if not 0 <= arguments.tolerance < 1:
        raise ModelFileError(f"expected a --tolerance from 0 to 1, got {arguments.tolerance}")
    sides = [open_contents(path)[0] for path in (arguments.a, arguments.b)]
    before, after = ([each.layer for each in weights.layers] for weights in sides)
    compared = list(compare(before, after, arguments.tolerance))
    if not compared:
        raise ModelFileError(
            f"expected blobs to compare, got none in this file, and none in {arguments.b}",
            path=arguments.a,
        )
    different = [_row(one) for one in compared if one.status != _SAME]
    if different:
        print_table(different, right=["blob", "values", "max", "relative"])
        print_line()
    counts = Counter(one.status for one in compared)
    print_line(", ".join(f"{counts[status]:,} {status}" for status in _STATUSES))
    return 1 if different else 0


def _row(one: Comparison) -> dict[str, str]:
    return {
        "layer": printable(one.layer),
        "blob": str(one.blob),
        "status": one.status,
        "shape": " -> ".join(map(str, dict.fromkeys(one.shapes))),
        "values": "-" if one.values is None else f"{one.values:,}",
        "max": "not finite" if one.incomparable else _number(one.maximum, digits=3),
        "relative": _number(one.relative, digits=2),
    }


def _number(value: float | None, *, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}g}"


# --- comparison -----------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """What `compare` finds for a blob, by its number in the layer; None for values not compared.

    The shapes are those in the files that have it. `values` counts the unequal ones, and
    `incomparable` those of them that are NaN or infinite on one side: with any, there is no
    maximum. The relative difference is the maximum divided by the largest magnitude.
    """

    layer: str
    blob: int
    status: str
    shapes: tuple[Shape, ...]
    values: int | None = None
    incomparable: int = 0
    maximum: float | None = None
    relative: float | None = None


def compare(
    before: Iterable[Layer], after: Iterable[Layer], tolerance: float
) -> Iterator[Comparison]:
    """Compare the blobs of two files by layer and number; blobs only in the second come last."""
    sides = _blobs(before), _blobs(after)
    for place in dict.fromkeys(place for side in sides for place in side):
        pair = [side[place] for side in sides if place in side]
        shapes = tuple(blob.shape for blob in pair)
        if len(pair) == 1:
            yield Comparison(*place, "removed" if place in sides[0] else "added", shapes)
            continue
        ours, theirs = pair
        if not equal_shapes(ours, theirs):
            yield Comparison(*place, "reshaped", shapes)
            continue
        values, incomparable, maximum, largest = _distance(ours, theirs)
        relative = maximum / largest if largest else 0.0
        # The largest difference may be so small that the relative one is rounded to 0.
        same = not values or (tolerance > 0 and not incomparable and relative <= tolerance)
        # Where values became NaN or infinite, the difference of the others would look harmless.
        differences = (None, None) if incomparable else (maximum, relative)
        status = _SAME if same else _CHANGED
        yield Comparison(*place, status, shapes, values, incomparable, *differences)


def _blobs(layers: Iterable[Layer]) -> dict[tuple[str, int], Blob]:
    """Return the blobs by layer and number."""
    found: dict[tuple[str, int], Blob] = {}
    numbers: Counter[str] = Counter()
    for layer in layers:
        # Formats often omit layers without blobs, so they are not counted.
        if not layer.blobs:
            continue
        numbers[layer.name] += 1
        while (name := name_with_number(layer.name, numbers[layer.name]), 0) in found:
            numbers[layer.name] += 1
        for index, blob in enumerate(layer.blobs):
            found[name, index] = blob
    return found


def _distance(before: Blob, after: Blob) -> tuple[int, int, float, float]:
    """Compare the values of two blobs."""
    sides = [blob_values(blob).reshape(-1) for blob in (before, after)]
    values = incomparable = 0
    maximum = largest = 0.0
    for start in range(0, before.size, _BLOCK):
        found = _distance_of_block(*(side[start : start + _BLOCK] for side in sides))
        values += found[0]
        incomparable += found[1]
        maximum, largest = max(maximum, found[2]), max(largest, found[3])
    # The difference of the largest doubles overflows, and so does the magnitude of two.
    limit = float(np.finfo(np.float64).max)
    return values, incomparable, min(maximum, limit), min(largest, limit)


def _distance_of_block(one: Array, other: Array) -> tuple[int, int, float, float]:
    """Compare arrays as `_distance` does."""
    dtype = np.result_type(one, other, np.float64)
    ours, theirs = one.astype(dtype), other.astype(dtype)
    # NumPy compares integers without rounding.
    integers = all(side.dtype.kind in "iu" for side in (one, other))
    unequal = one != other if integers else ours != theirs
    different = unequal & ~(np.isnan(ours) & np.isnan(theirs))
    finite = np.isfinite(ours) & np.isfinite(theirs)
    with np.errstate(over="ignore", invalid="ignore"):
        differences = np.abs(ours - theirs)
    return (
        int(np.count_nonzero(different)),
        int(np.count_nonzero(different & ~finite)),
        float(np.max(differences, initial=0, where=finite)),
        max(float(np.max(np.abs(side), initial=0, where=finite)) for side in (ours, theirs)),
    )
