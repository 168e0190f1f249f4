"""``syncblob inspect FILE``: show the contents of a file of weights."""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

import numpy as np

from syncblob.caffe.commands.console import print_facts, print_line, print_table, printable
from syncblob.caffe.commands.contents import open_contents
from syncblob.caffe.convert import Weights, writable_extensions
from syncblob.caffe.convert.caffe_files import as_model
from syncblob.caffe.messages.lazy_blobs import arrays_of
from syncblob.caffe.messages.prototxt import definition_text
from syncblob.caffe.messages.string_fields import unknown_fields
from syncblob.errors import ModelFileError
from syncblob.formats import Blob, human_bytes, quantity

_EXTENSIONS = [*writable_extensions(), ".solverstate"]
SUMMARY = "list the layers and blobs of a file"
DESCRIPTION = f"""\
List the layers of a file: types, shapes, dtypes and sizes. The weights
themselves are not read, except for --stats.

{fill(f"Files may be {', '.join(_EXTENSIONS)}.", 79)}
The format is recognized by the contents of the file, not by its name.
"""
EPILOG = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file")
    parser.add_argument(
        "--stats",
        action="store_true",
        help="read the weights, and show minimum, mean, maximum and standard deviation of the "
        "finite values of each blob, and the number of others",
    )
    parser.add_argument(
        "--prototxt",
        action="store_true",
        help="print the definition of the net without its weights, and nothing else",
    )


def run(arguments: argparse.Namespace) -> int:
    weights, facts = open_contents(arguments.file)
    if arguments.prototxt:
        _print_definition(weights, facts["format"])
        return 0
    facts = {"file": weights.path, **facts}
    facts["size"] = human_bytes(Path(arguments.file).stat().st_size)
    if weights.name:
        facts["net"] = weights.name
    print_facts([(name, printable(fact)) for name, fact in facts.items()])
    if rows := list(_rows(weights, stats=arguments.stats)):
        print_table(rows, title="Layers", right=["size", *_STATISTICS])
    if weights.others:
        print_line(printable(f"Not shown: {', '.join(weights.others)}."))
    blobs = weights.tensors.values()
    counts = [
        quantity(len(weights.layers), "layer"),
        quantity(len(blobs), "blob"),
        quantity(sum(blob.size for blob in blobs), "parameter"),
    ]
    print_line(f"\n{', '.join(counts)}, {human_bytes(weights.nbytes)} of weights")
    return 0


def _print_definition(weights: Weights, kind: str) -> None:
    if not any(each.layer.type for each in weights.layers):
        raise ModelFileError(
            f"expected layers with types and settings, got {kind}, of which no definition can be "
            f"made; take the .caffemodel",
            path=weights.path,
        )
    try:
        net = as_model(weights).to_net()
    except ValueError as error:
        raise ModelFileError(str(error), path=weights.path) from error
    print(definition_text(net), end="")  # noqa: T201  # this is the output
    counts = Counter(unknown_fields(net)).items()
    if left_out := ", ".join(f"{name} ({count:,})" for name, count in counts):
        note = f"left out are fields that Caffe does not have: {left_out}"
        print(f"syncblob: note: {note}", file=sys.stderr)  # noqa: T201  # the output


def _rows(weights: Weights, *, stats: bool) -> Iterator[dict[str, str]]:
    """Yield a row for each blob, and for each layer without blobs."""
    for each in weights.layers:
        row = {"layer": printable(each.layer.name), "type": printable(each.layer.type) or "-"}
        for blob in each.layer.blobs:
            yield {
                **row,
                "shape": str(blob.shape),
                "dtype": blob.dtype.name,
                "size": human_bytes(blob.nbytes),
                **(_statistics(blob) if stats else {}),
            }
        if not each.layer.blobs:
            columns = ("shape", "dtype", "size", *(_STATISTICS if stats else ()))
            yield {**row, **dict.fromkeys(columns, "-")}


_STATISTICS = ("min", "mean", "max", "std", "non-finite")


def _statistics(blob: Blob) -> dict[str, str]:
    """Return statistics of the finite values, of complex numbers their magnitudes."""
    count, mean, squares = 0, 0.0, 0.0
    least, most = math.inf, -math.inf
    for values in arrays_of(blob, np.result_type(blob.dtype, np.float64)):
        real = np.abs(values) if values.dtype.kind == "c" else values
        finite = real[np.isfinite(real)]
        if finite.size:
            # The mean, and the sum of the squares of distances from it, of both parts together.
            with np.errstate(all="ignore"):  # squares of the largest doubles overflow
                shift, share = finite.mean() - mean, finite.size / (count + finite.size)
                squares += finite.var() * finite.size + shift**2 * count * share
                mean += shift * share
            count += finite.size
            least, most = min(least, finite.min()), max(most, finite.max())
    found = (least, mean, most, math.sqrt(squares / count)) if count else ()
    words = [f"{value:.3g}" for value in found] or ["-"] * 4
    return dict(zip(_STATISTICS, [*words, f"{blob.size - count:,}"], strict=True))
