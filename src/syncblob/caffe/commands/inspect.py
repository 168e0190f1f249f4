"""``syncblob inspect FILE``: show the contents of a file of weights."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from syncblob.caffe.commands.console import print_json, printable, progress
from syncblob.caffe.commands.contents import Contents, open_contents, open_definition
from syncblob.caffe.commands.inspect_output import as_json, show
from syncblob.caffe.convert.caffe_files import as_model
from syncblob.caffe.files.file_types import head_of, is_text
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.prototxt import definition_text
from syncblob.caffe.messages.string_fields import unknown_fields
from syncblob.errors import ModelFileError

SUMMARY = "list the layers and blobs of a file"
DESCRIPTION = """\
List the layers of a file: types, shapes, dtypes and sizes. The weights
themselves are not read, except for --stats.

Files may be .caffemodel, .caffemodel.h5, .binaryproto, .solverstate,
.safetensors, .npz, .h5, .pt and .pth; and .prototxt, the definition of
a net without weights, whose shapes are shown if those of its inputs are known.
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
    """Add the arguments of the command."""
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
    """Run the command and return the exit status."""
    contents = _opened(arguments)
    if arguments.prototxt:
        _print_definition(contents)
        return 0
    found = {"file": arguments.file, "file_bytes": Path(arguments.file).stat().st_size}
    with progress("reading", contents.weights.nbytes):
        found |= as_json(contents, stats=arguments.stats)
    if arguments.json:
        print_json(found)
    else:
        show(contents, found)
    return 0


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, dims = text.rpartition("=")
    try:
        return name, tuple(int(dim) for dim in dims.split(",") if dim)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected a name and dimensions, as data=1,3,224,224, got {text!r}"
        ) from error


def _opened(arguments: argparse.Namespace) -> Contents:
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


def _print_definition(contents: Contents) -> None:
    if not any(layer.type for layer in contents.layers):
        raise ModelFileError(
            f"expected layers with types and settings, got {contents.description}, of which no "
            f"definition can be made; take the .caffemodel",
            path=contents.weights.path,
        )
    try:
        net = as_model(contents.weights).to_net()
    except ValueError as error:
        raise ModelFileError(str(error), path=contents.weights.path) from error
    print(definition_text(net), end="")  # noqa: T201  # this is the output
    counts = Counter(unknown_fields(net)).items()
    left_out = contents.ignored or ", ".join(f"{name} ({count:,})" for name, count in counts)
    if left_out:
        note = f"left out are fields that Caffe does not have: {left_out}"
        print(f"syncblob: note: {printable(note, sys.stderr)}", file=sys.stderr)  # noqa: T201  # the output
