"""The table of file types: names, extensions, first bytes and limits.

This is the one place that names a format. Those in `FORMATS` of `syncblob.caffe.convert.conversion`
can be converted; the others are recognised, so that an error says what a file really is rather than
"damaged", and so that no file gets the extension of a format that it does not have.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import Message

from syncblob.caffe._pb.caffe_pb2 import BlobProto, NetParameter, SolverState
from syncblob.caffe.messages.file_objects import Target, name_of
from syncblob.caffe.messages.wire import Contents
from syncblob.formats import NAMES

HEAD = 4096
"""The bytes by which a file is recognised."""
ALL_DTYPES = frozenset((*NAMES, "bfloat16"))

_CONVERTED = (
    "syncblob.caffe.convert.convert and the command 'syncblob convert' make one of a .caffemodel"
)
_ELSEWHERE = "save its weights as .safetensors or .npz with its own library"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_LEAST_USER_BLOCK = 512
# In a safetensors file, eight bytes with the length precede the header, which is JSON.
_LENGTH_BYTES = 8
_TEXT = bytes({*b"\t\n\r\f", *range(0x20, 0x7F), *range(0x80, 0x100)})

# Recognises a file by its contents and their head.
Recogniser = Callable[[Contents, bytes], bool]


class FileType(NamedTuple):
    """A row of the table."""

    name: str
    """The name that `syncblob.caffe.convert.format_of` returns; ``""`` if that refuses it."""
    words: str
    """What such a file is, in errors: "this is ..."."""
    opener: str = "syncblob.caffe.convert.open_weights opens it"
    """Advice on how to open one."""
    begins: Recogniser = lambda _contents, _head: False
    """Recognises such a file; messages have no signature, and are recognised by their fields."""
    extensions: tuple[str, ...] = ()
    writer: str = _CONVERTED
    """Advice on how to write one, in the error for a path with its extension."""
    title: str = ""
    """The name in `syncblob inspect`, if it is another one."""
    message: type[Message] | None = None
    """The message that fills such a file."""
    dtypes: frozenset[str] = ALL_DTYPES
    """The names of the dtypes that it holds."""
    describes: bool = False
    """Whether it stores types and settings of the layers."""


# --- first bytes ----------------------------------------------------------------------------------


def _bytes(pattern: bytes) -> Recogniser:
    return lambda _, head: re.match(pattern, head, re.DOTALL) is not None


def _text(pattern: bytes) -> Recogniser:
    return lambda _, head: is_text(head) and re.match(pattern, head) is not None


def _is_safetensors(contents: Contents, head: bytes) -> bool:
    length = int.from_bytes(head[:_LENGTH_BYTES], "little")
    return head[_LENGTH_BYTES:].startswith(b"{") and length <= len(contents) - _LENGTH_BYTES


def _is_hdf5(contents: Contents, head: bytes) -> bool:
    """Recognise HDF5, also after bytes of another program, as MATLAB writes (-v7.3)."""
    offset = _LEAST_USER_BLOCK
    while offset + len(_HDF5) <= len(contents) and not head.startswith(_HDF5):
        if bytes(contents.read(offset, offset + len(_HDF5))) == _HDF5:
            return True
        offset *= 2
    return head.startswith(_HDF5)


def is_text(head: bytes) -> bool:
    """Return whether a file is text, according to its first `HEAD` bytes."""
    if head.translate(None, delete=_TEXT):
        return False
    try:
        # The head may end in the middle of a character.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def head_of(contents: Contents) -> bytes:
    """Return the first bytes of a file, at most `HEAD`."""
    return bytes(contents.read(0, min(HEAD, len(contents))))


# --- the table ------------------------------------------------------------------------------------

_other = partial(FileType, "")


def _foreign(words: str, begins: Recogniser) -> FileType:
    return _other(f"{words}, not a file of Caffe's", _ELSEWHERE, begins)


_IN_CAFFE = frozenset(("float32", "float64"))
_IN_NUMPY = ALL_DTYPES - {"bfloat16"}
FILE_TYPES = (
    FileType(
        "caffemodel.h5",
        "an HDF5 file of Caffe's",
        extensions=(".caffemodel.h5",),
        writer="save_model writes a model",
        title="caffemodel.h5, Caffe's HDF5",
        dtypes=_IN_CAFFE,
    ),
    FileType(
        "caffemodel",
        "a whole model",
        "use open_model",
        extensions=(".caffemodel",),
        writer="save_model writes a model",
        message=NetParameter,
        dtypes=_IN_CAFFE,
        describes=True,
    ),
    FileType(
        "safetensors",
        "a .safetensors file",
        begins=_is_safetensors,
        extensions=(".safetensors",),
        dtypes=ALL_DTYPES - {"complex128"},
        describes=True,
    ),
    FileType(
        "npz",
        "a zip archive, such as an .npz or a file of PyTorch's",
        begins=_bytes(rb"PK(\x03\x04|\x05\x06)"),
        extensions=(".npz",),
        dtypes=_IN_NUMPY,
    ),
    FileType(
        "torch",
        "a file of PyTorch's",
        # The pickled number that torch.save wrote first before it wrote zip archives.
        begins=_bytes(rb"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19\."),
        extensions=(".pt", ".pth"),
        title="PyTorch state_dict",
    ),
    FileType(
        "hdf5",
        "an HDF5 file (.h5)",
        "open_model and open_solver_state open Caffe's",
        _is_hdf5,
        (".h5", ".hdf5"),
        "save_model writes a model",
        "HDF5",
        dtypes=_IN_NUMPY,
    ),
    FileType(
        "binaryproto",
        "one blob (.binaryproto)",
        "use read_blob",
        extensions=(".binaryproto",),
        writer="write_blob writes one blob",
        title="binaryproto, one blob",
        message=BlobProto,
        dtypes=_IN_CAFFE,
    ),
    FileType(
        "solverstate",
        "the state of a solver (.solverstate)",
        "use open_solver_state",
        extensions=(".solverstate", ".solverstate.h5", ".solverstate.hdf5"),
        writer="save_solver_state writes the state of a solver",
        title="solverstate, the state of a solver",
        message=SolverState,
    ),
    _other("an array of NumPy's own format (.npy)", "numpy.load opens it", _bytes(rb"\x93NUMPY")),
    _other(
        "a Git LFS pointer, not the file it stands for",
        "run 'git lfs pull'",
        _bytes(rb"version https://git-lfs"),
    ),
    _other(
        "an AppleDouble file of macOS",
        "the contents are in the file of this name without '._'",
        _bytes(rb"\x00\x05\x16\x07"),
    ),
    _other(
        "a gzip archive",
        "unpack it, or pass gzip.open(path) to a function that reads Caffe's files",
        _bytes(rb"\x1f\x8b"),
        (".gz",),
        "to compress it, pass gzip.open(path, 'wb') in place of the path",
    ),
    _foreign("a model of TensorFlow Lite (.tflite)", _bytes(rb".{2}\0\0TFL3")),
    _foreign("a file of MXNet's (.params)", _bytes(rb"\x12\x01\0{6}")),
    _foreign("an older file of MATLAB's (.mat)", _bytes(rb"MATLAB 5\.0 MAT-file")),
    _foreign("a definition of ncnn's (.param.bin), without weights", _bytes(rb"\xdd\x85\x76\0")),
    _foreign("a file of Darknet's (.weights)", _bytes(rb"\0{4}[\1\2]\0{3}[\0-\xff]\0{3}")),
    _foreign("a definition of MXNet's (.json), without weights", _text(rb'\s*\{\s*"nodes"\s*:')),
    _foreign("a definition of ncnn's (.param), without weights", _text(rb"7767517\s")),
    _foreign(
        "a definition of Darknet's (.cfg), without weights",
        _text(rb"\s*\[(net|network|convolutional)\]"),
    ),
    _foreign("a graph of TensorFlow's as text (.pbtxt)", _text(rb"\s*node\s*\{")),
    _other("a web page", "the download went wrong", _bytes(rb"(?i)\s*<(!doctype|html|\?xml)")),
    FileType(
        "prototxt",
        "a network definition in text form (.prototxt), which has no weights",
        "the weights are in a .caffemodel file",
        _text(rb"(\s|#[^\n]*\n)*(name|layers?|input\w*|state|force_backward|debug_info)\s*[:{]"),
        (".prototxt",),
        "write_prototxt writes the definition of a net: model.to_net()",
        "prototxt, the definition of a net",
    ),
    _other(
        "a file of another program",
        extensions=tuple(".json .mat .npy .onnx .pkl .py .txt .zip".split()),  # noqa: SIM905  # words
        writer="syncblob does not write this format",
    ),
)
BY_NAME = {row.name: row for row in FILE_TYPES if row.name}
MESSAGES = {row.name: row for row in FILE_TYPES if row.message is not None}

_EXPECTED = {
    "caffemodel": ("caffemodel", "caffemodel.h5", "hdf5"),
    "binaryproto": ("binaryproto",),
    "solverstate": ("solverstate", "hdf5"),
}


def type_of(contents: Contents) -> FileType | None:
    """Recognise a file by its first bytes; None for all others, such as Caffe's messages."""
    head = head_of(contents)
    return next((row for row in FILE_TYPES if row.begins(contents, head)), None)


def is_hdf5(contents: Contents) -> bool:
    return type_of(contents) is BY_NAME["hdf5"]


def type_of_name(name: str) -> tuple[FileType | None, str]:
    """Return the file type for the longest known extension of a name, and this; None for none."""
    name = name.lower()
    found = [(row, end) for row in FILE_TYPES for end in row.extensions if name.endswith(end)]
    return max(found, key=lambda one: len(one[1]), default=(None, ""))


def require_path(target: Target, contents: str) -> bool:
    """Tell from the extension whether to write HDF5; refuse the extensions of other formats."""
    name = Path(name_of(target)).name
    if hasattr(target, "write"):
        name = re.sub(r"\.gz$", "", name, flags=re.IGNORECASE)
    row, extension = type_of_name(name)
    expected = _EXPECTED[contents]
    if row is not None and row.name not in expected:
        ends = " or ".join(end for name in expected for end in BY_NAME[name].extensions)
        raise ValueError(f"expected the extension {ends}, got {extension}; {row.writer}")
    return extension.endswith(BY_NAME["hdf5"].extensions)
