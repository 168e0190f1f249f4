"""``syncblob inspect FILE``: show the contents of a file of weights."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray

from syncblob.caffe import blob_values
from syncblob.caffe.commands.console import (
    print_facts,
    print_line,
    print_table,
    printable,
    progress,
)
from syncblob.caffe.commands.contents import Facts, open_contents, open_definition
from syncblob.caffe.convert import Weights, writable_extensions
from syncblob.caffe.convert.caffe_files import as_model
from syncblob.caffe.files.file_types import BY_NAME, head_of, is_text
from syncblob.caffe.messages.fields import Array, Shape
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.pieces import on_progress
from syncblob.caffe.messages.prototxt import definition_text
from syncblob.caffe.messages.string_fields import unknown_fields
from syncblob.errors import ModelFileError
from syncblob.formats import Blob, human_bytes, quantity

_EXTENSIONS = [*writable_extensions(), ".solverstate", ".prototxt"]
_FILES = fill(f"Files may be {', '.join(_EXTENSIONS)}.", 79)
SUMMARY = "list the layers and blobs of a file"
DESCRIPTION = f"""\
List the layers of a file: types, shapes, dtypes and sizes. The weights
themselves are not read, except for --stats.

{_FILES}
The last one is the definition of a net without weights, whose shapes are shown
if those of its inputs are known.
"""
EPILOG = """\
The format is recognized by the contents of the file, not by its name.

--json prints one object:
  file, format       the path; "caffemodel", "binaryproto", "solverstate", ...
  file_bytes         size of the file
  version, net       1 or 2, the format of the layers; the name of the net
                     (null if the file has none)
  layers             in file order, each with name, type, bottoms, tops, blobs;
                     a solver state has its history as one layer
  blob               the blob of a .binaryproto, else null
  solver             iter, current_step, learned_net of a .solverstate, else
                     null
  shapes             for a definition, the known shapes of the tops by name;
                     null if the net is refused
  refused            why it is; "" if it is not
  missing            names of tops whose shapes must be given, each with the
                     reason
  ignored            for a definition, where the first field or value is that
                     Caffe does not have; all of these are left out
  totals             layers, blobs, parameters, bytes (of the weights)
  unreadable         names of tensors of dtypes that cannot be read, such as
                     float8, each with the reason; their layers are left out
  others             what else the file has, such as links, in words
A blob is {shape, dtype, parameters, bytes}. With --stats it also has
  stats              min, mean, max, std of its finite values (null if there
                     are none) and non_finite, the number of NaN and infinities
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file")
    parser.add_argument(
        "--stats",
        action="store_true",
        help="read the weights, and show minimum, mean, maximum and standard deviation",
    )
    parser.add_argument(
        "--phase",
        choices=("TRAIN", "TEST"),
        type=str.upper,
        help="for a definition: include only the layers of this phase",
    )
    parser.add_argument(
        "--shape",
        action="append",
        metavar="NAME=DIMS",
        type=_shape,
        help="for a definition: the shape of an input, or of the top of a layer of an unknown "
        "type: data=1,3,224,224",
    )
    parser.add_argument(
        "--forks",
        action="store_true",
        help="for a definition: apply the rules of well-known forks, for ceil_mode, hole, "
        "pad_type and the layers of SSD, PSPNet, R-CNN and others",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON, with exact sizes")
    output.add_argument(
        "--prototxt",
        action="store_true",
        help="print the definition of the net without its weights, and nothing else",
    )


def run(arguments: argparse.Namespace) -> int:
    weights, facts = _open(arguments)
    if arguments.prototxt:
        _print_definition(weights, facts)
        return 0
    found = {"file": arguments.file, "file_bytes": Path(arguments.file).stat().st_size}
    with progress("reading", weights.nbytes):
        found |= as_json(weights, facts, stats=arguments.stats)
    if arguments.json:
        print_line(json.dumps(found, indent=2, allow_nan=False))
    else:
        show(found)
    return 0


def _shape(text: str) -> tuple[str, Shape]:
    name, _, dims = text.rpartition("=")
    try:
        return name, tuple(int(dim) for dim in dims.split(",") if dim)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected a name and dimensions, as data=1,3,224,224, got {text!r}"
        ) from error


def _open(arguments: argparse.Namespace) -> tuple[Weights, Facts]:
    path, phase = arguments.file, arguments.phase
    head = head_of(OpenFile(path))
    if not head or not is_text(head):
        _refuse(arguments, ("phase", "shape", "forks"), "for definitions only, .prototxt files")
        return open_contents(path)
    shapes = None if arguments.shape is None else dict(arguments.shape)
    try:
        contents = open_definition(path, phase, shapes, forks=arguments.forks)
    except ModelFileError:
        if path.lower().endswith(".prototxt") or phase or shapes:
            raise
        return open_contents(path)  # its error names the actual format
    _refuse(arguments, ("stats",), "for weights, which a definition lacks")
    return contents


def _refuse(arguments: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    given = [f"--{name}" for name in names if getattr(arguments, name) not in (None, False)]
    if given:
        raise ModelFileError(f"{', '.join(given)}: {why}", path=arguments.file)


def _print_definition(weights: Weights, facts: Facts) -> None:
    if not any(each.layer.type for each in weights.layers):
        raise ModelFileError(
            f"expected layers with types and settings, got {_description(weights.kind, facts)}, of "
            f"which no definition can be made; take the .caffemodel",
            path=weights.path,
        )
    try:
        net = as_model(weights).to_net()
    except ValueError as error:
        raise ModelFileError(str(error), path=weights.path) from error
    print(definition_text(net), end="")  # noqa: T201  # this is the output
    counts = Counter(unknown_fields(net)).items()
    left_out = facts["ignored"] or ", ".join(f"{name} ({count:,})" for name, count in counts)
    if left_out:
        note = f"left out are fields that Caffe does not have: {left_out}"
        print(f"syncblob: note: {printable(note, sys.stderr)}", file=sys.stderr)  # noqa: T201  # the output


def _description(kind: str, facts: Mapping[str, Any]) -> str:
    version = facts["version"]
    return BY_NAME[kind].title or kind if version is None else f"{kind}, V{version} layers"


_STATS = ("min", "mean", "max", "std")


def as_json(weights: Weights, facts: Facts, *, stats: bool) -> dict[str, Any]:
    layers: list[dict[str, Any]] = [
        {
            "name": layer.name,
            "type": layer.type,
            "bottoms": layer.bottoms,
            "tops": layer.tops,
            "blobs": [_blob_as_json(blob, stats=stats) for blob in layer.blobs],
        }
        for layer, _ in weights.layers
    ]
    blobs = [blob for layer in layers for blob in layer["blobs"]]
    is_lone = weights.kind == "binaryproto"
    if is_lone:
        layers = []
    return {
        "format": weights.kind,
        "net": weights.name if not is_lone and facts["solver"] is None else None,
        **facts,
        "layers": layers,
        "blob": blobs[0] if is_lone else None,
        "totals": {
            "layers": len(layers),
            "blobs": len(blobs),
            "parameters": sum(blob["parameters"] for blob in blobs),
            "bytes": sum(blob["bytes"] for blob in blobs),
        },
        "unreadable": weights.unreadable,
        "others": weights.others,
    }


def _blob_as_json(blob: Blob, *, stats: bool) -> dict[str, Any]:
    return {
        "shape": blob.shape,
        "dtype": blob.dtype.name,
        "parameters": blob.size,
        "bytes": blob.nbytes,
        **({"stats": stats_of(blob)} if stats else {}),
    }


# --- for people --------------------------------------------------------------------------------


def show(found: Mapping[str, Any]) -> None:
    """Show the contents of a file from the dictionary for JSON."""
    layers = found["layers"]
    print_facts(_facts(found))
    if layers:
        _show_layers(layers, found["shapes"])
    for note in _notes(found):
        print_line(printable(note))
    blobs = [(layer["name"], *each) for layer in layers for each in enumerate(layer["blobs"])]
    if blobs and "stats" in blobs[0][2]:
        rows = [
            {"layer": printable(name), "blob": str(index), **_numbers(blob["stats"])}
            for name, index, blob in blobs
        ]
        print_table(rows, title="Statistics", right=[*rows[0]][1:])
    if found["net"] is not None and not found["refused"] and not found["missing"]:
        totals = found["totals"]
        counts = [quantity(totals[f"{noun}s"], noun) for noun in ("layer", "blob", "parameter")]
        print_line(f"\n{', '.join(counts)}, {human_bytes(totals['bytes'])} of weights")


def _facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("file", printable(found["file"])),
        ("format", _description(found["format"], found)),
        ("size", human_bytes(found["file_bytes"])),
    ]
    if found["net"]:
        facts.append(("net", printable(found["net"])))
    for name, value in (found["solver"] or {}).items():
        facts.append((name.replace("_", " "), printable(str(value))))
    if (blob := found["blob"]) is not None:
        facts += [
            ("shape", str(blob["shape"])),
            ("dtype", blob["dtype"]),
            ("values", f"{blob['parameters']:,}, {human_bytes(blob['bytes'])}"),
            *(_numbers(blob["stats"]).items() if "stats" in blob else ()),
        ]
    return facts


def _show_layers(layers: list[dict[str, Any]], shapes: Mapping[str, Shape] | None) -> None:
    rows: list[dict[str, str]] = []
    for layer in layers:
        row = {"layer": printable(layer["name"]), "type": printable(layer["type"]) or "-"}
        if not any(each["type"] for each in layers):
            del row["type"]
        if shapes is not None:
            row["tops"] = ", ".join(str(shapes.get(top, "?")) for top in layer["tops"]) or "-"
        rows += [
            {
                **row,
                "blob": str(blob["shape"]),
                "dtype": blob["dtype"],
                "size": human_bytes(blob["bytes"]),
            }
            for blob in layer["blobs"]
        ] or [{**row, "blob": "-", "dtype": "-", "size": "-"}]
    print_table(rows, title="Layers", right=["size"])


def _notes(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is not known of the layers, what the file has besides, and what was left out."""
    if found["refused"]:
        yield f"No shapes: {found['refused']}. --phase and --shape say what is missing."
    for name, why in found["missing"].items():
        yield f"Not known: {why.partition(': shapes=')[0]}: --shape {name}=..."
    if found["others"]:
        yield f"Not shown: {', '.join(found['others'])}."
    typed = [bool(layer["type"]) for layer in found["layers"]]
    if found["net"] is not None and not all(typed):
        which = "some layers" if any(typed) else "the layers"
        yield f"The file does not say of which types {which} are."
    if found["ignored"]:
        yield (
            f"Left out is what Caffe does not have, first in {found['ignored']}. --forks knows the "
            f"settings of well-known forks."
        )
    if found["unreadable"]:
        count, first = len(found["unreadable"]), next(iter(found["unreadable"].values()))
        yield f"Not shown: the layers of {quantity(count, 'tensor')} that cannot be read: {first}."


def _numbers(stats: Mapping[str, float | None]) -> dict[str, str]:
    words = {name: "-" if stats[name] is None else f"{stats[name]:.3g}" for name in _STATS}
    return words | {"non-finite": f"{stats['non_finite']:,}"}


# --- statistics -----------------------------------------------------------------------------------

# The number of values converted to float64 at a time, which keeps temporary arrays small.
_BLOCK = 1 << 18


def stats_of(blob: Blob) -> dict[str, float | None]:
    """Return min, mean, max and std of the finite values; None for none; and count the others."""
    values = blob_values(blob)
    on_progress.get()(blob.nbytes)
    count, least, most = 0, np.inf, -np.inf
    for block in _finite_blocks(values):
        count += block.size
        least = min(least, float(block.min()))
        most = max(most, float(block.max()))
    if not count:
        return dict.fromkeys(_STATS) | {"non_finite": values.size}

    # Scale to about 1, so that sums and squares neither overflow nor underflow. Powers of two are
    # exact.
    exponent = int(np.frexp(max(abs(least), abs(most)))[1])

    def scale() -> Iterator[NDArray[np.float64]]:
        for block in _finite_blocks(values):
            yield np.ldexp(block, -exponent)

    mean = sum(float(block.sum()) for block in scale()) / count
    squares = sum(float(np.square(block - mean).sum()) for block in scale())
    return {
        "min": least,
        "mean": float(np.ldexp(mean, exponent)),
        "max": most,
        "std": float(np.ldexp(np.sqrt(squares / count), exponent)),
        "non_finite": values.size - count,
    }


def _finite_blocks(values: Array) -> Iterator[NDArray[np.float64]]:
    """Yield the finite values, of complex numbers their magnitudes, in nonempty blocks."""
    flat = values.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        real = (np.abs(block) if block.dtype.kind == "c" else block).astype(np.float64)
        finite = real[np.isfinite(real)]
        if finite.size:
            yield finite
