"""``syncblob convert IN OUT``: convert weights to another format."""

from __future__ import annotations

import argparse
from textwrap import fill, indent

from syncblob.caffe.commands.console import print_facts, print_line, printable
from syncblob.caffe.convert import DTYPES, plan_conversion, writable_extensions
from syncblob.formats import human_bytes, quantity

SUMMARY = "convert weights to another format"
DESCRIPTION = f"""\
Convert a file of weights. The extension of OUT selects the format:
{indent(fill(", ".join(writable_extensions())), "  ")}
OUT is replaced only if the conversion succeeds.
"""
EPILOG = """\
A .caffemodel.h5 has Caffe's layout, any other .h5 one dataset for each tensor.

Tensors are named <layer>.weight and <layer>.bias; those of a BatchNorm layer
<layer>.mean, <layer>.variance and <layer>.scale_factor; those of a layer with
more blobs <layer>.0, <layer>.1 and so on. Only weights of inner products with
transpose: true are rearranged, for formats that are not Caffe's.

A .caffemodel and a .safetensors file also store the types, inputs, outputs and
settings of the layers; other formats have only tensors. A .caffemodel made from
these gets layers inferred from the names, without types. Gradients are omitted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="IN", help="a file of weights")
    parser.add_argument("target", metavar="OUT", help="the file to write")
    parser.add_argument(
        "--dtype", choices=DTYPES, help="convert the values; a value that does not fit is an error"
    )
    parser.add_argument(
        "--layers",
        metavar="PATTERN",
        action="append",
        default=[],
        help="convert only layers with matching names, such as 'conv*'; can be repeated",
    )


def run(arguments: argparse.Namespace) -> int:
    with plan_conversion(
        arguments.source, arguments.target, dtype=arguments.dtype, layers=arguments.layers
    ) as conversion:
        conversion.run()
    source, result = conversion.source, conversion.result
    print_facts(
        [
            ("from", f"{printable(source.path)} ({source.kind})"),
            ("to", f"{printable(result.path)} ({result.kind})"),
        ]
    )
    blobs = result.tensors.values()
    print_line(
        f"\n{quantity(len(blobs), 'tensor')}, "
        f"{quantity(sum(blob.size for blob in blobs), 'parameter')}, "
        f"{human_bytes(result.nbytes)} written"
    )
    for name, text in (("Left out", conversion.left_out), ("Note", conversion.note)):
        if text:
            print_line(f"{name}: {printable(text)}")
    return 0
