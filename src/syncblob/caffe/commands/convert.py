"""``syncblob convert IN OUT``: convert weights to another format."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from syncblob.caffe.commands.console import (
    Cell,
    Output,
    listed,
    print_json,
    printable,
    progress_bar,
)
from syncblob.caffe.commands.local_file import local_file
from syncblob.caffe.convert import DTYPES, Conversion, plan_conversion, writable_extensions
from syncblob.formats import counted, human_bytes

if TYPE_CHECKING:
    import argparse


NAME = "convert"
SUMMARY = "convert weights to another format"
DESCRIPTION = f"""\
Convert a file of weights. The extension of OUT selects the format:
  {", ".join(writable_extensions()[:5])},
  {", ".join(writable_extensions()[5:])}
The last two hold one array without a name, such as a mean. Caffe's formats
and HDF5 can be compressed: append .gz. OUT is replaced only if the conversion
succeeds.
"""
EPILOG = """\
A .caffemodel.h5 has Caffe's layout, any other .h5 one dataset for each tensor.

Tensors are named <layer>.weight and <layer>.bias; those of a BatchNorm layer
<layer>.mean, <layer>.variance and <layer>.scale_factor; those of a layer with
more blobs <layer>.0, <layer>.1 and so on. Values are not rearranged.

A .caffemodel and a .safetensors file also store the types, inputs, outputs and
settings of the layers; other formats have only tensors. A .caffemodel made from
these gets layers inferred from the names, without types. Gradients are omitted.

--json prints one object:
  from, to           each with file and format
  written            false after --dry-run
  tensors            each with name, shape, dtype, dtype_before, bytes
  reshaped, left_out, note   texts; "" if there is nothing to say
  unknown            fields of layers that Caffe does not have, each with its
                     count
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("source", metavar="IN", help="a file of weights; - for standard input")
    parser.add_argument("target", metavar="OUT", help="the file to write")
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        help="convert the values; a value that does not fit is an error",
    )
    parser.add_argument(
        "--layers",
        metavar="PATTERN",
        action="append",
        default=[],
        help="convert only layers with matching names, such as 'conv*'; can be repeated",
    )
    parser.add_argument(
        "--key", metavar="KEY", help="of a checkpoint with several nets, the one with this key"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be written, and write nothing"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with all tensors")


def run(arguments: argparse.Namespace) -> int:
    """Run the command and return the exit status."""
    with (
        local_file(arguments.source) as source,
        plan_conversion(
            source,
            arguments.target,
            dtype=arguments.dtype,
            layers=arguments.layers,
            key=arguments.key,
        ) as conversion,
    ):
        if not arguments.dry_run:
            with progress_bar(conversion.result.nbytes) as advance:
                conversion.run(advance)
        found = _as_json(arguments, conversion)
    if arguments.json:
        print_json(found)
    else:
        _show(Output(), found)
    return 0


def _as_json(arguments: argparse.Namespace, conversion: Conversion) -> dict[str, Any]:
    before, result = conversion.source.tensors, conversion.result
    return {
        "from": {"file": arguments.source, "format": conversion.source.kind},
        "to": {"file": result.path, "format": result.kind},
        "written": not arguments.dry_run,
        "tensors": [
            {
                "name": name,
                "shape": list(blob.shape),
                "dtype": blob.dtype.name,
                # BatchNorm's scale factor is new.
                "dtype_before": before.get(name, blob).dtype.name,
                "bytes": blob.nbytes,
            }
            for name, blob in result.tensors.items()
        ],
        "reshaped": conversion.reshaped,
        "left_out": conversion.left_out,
        "unknown": conversion.unknown,
        "note": conversion.note,
    }


def _show(output: Output, found: dict[str, Any]) -> None:
    tensors = found["tensors"]
    output.facts(
        [
            (name, f"{printable(found[name]['file'])} ({found[name]['format']})")
            for name in ("from", "to")
        ]
    )
    if not found["written"]:
        output.heading("Tensors")
        output.table([_row(tensor) for tensor in tensors], right="size", folds="tensor")
    output.line()
    output.line(
        f"{counted(len(tensors), 'tensor')}, "
        f"{counted(sum(math.prod(tensor['shape']) for tensor in tensors), 'parameter')}, "
        f"{human_bytes(sum(tensor['bytes'] for tensor in tensors))}",
        (" written", "green") if found["written"] else (" would be written", "yellow"),
    )
    notes = {
        "Reshaped": found["reshaped"],
        "Left out": found["left_out"],
        "Of forks, which Caffe does not have": listed(found["unknown"].items()),
        "Note": found["note"],
    }
    for name, text in notes.items():
        if text:
            output.line((name, "yellow"), f": {printable(text)}")


def _row(tensor: dict[str, Any]) -> dict[str, Cell]:
    before, after = tensor["dtype_before"], tensor["dtype"]
    return {
        "tensor": printable(tensor["name"]),
        "shape": str(tuple(tensor["shape"])),
        "dtype": after if before == after else (f"{before} -> {after}", "yellow"),
        "size": human_bytes(tensor["bytes"]),
    }
