"""Telling files that are often mistaken for Caffe's by how they begin or what they hold.

A protobuf message has no signature: nearly any bytes are one, or begin like one. These checks turn
"damaged" into words that say what the file really is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from syncblob.caffe._wire import WireType

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from syncblob.caffe._wire import WireReader

    Kinds = AbstractSet[tuple[int, WireType]]

__all__ = ["holds_blob", "holds_model", "holds_solver_state", "refuse_other_formats"]

_HEAD = 512

_SIGNATURES = {
    b"\x89HDF\r\n\x1a\n": (
        "this is an HDF5 file (.caffemodel.h5), which this version of syncblob does not read; "
        "h5py opens it"
    ),
    b"version https://git-lfs": (
        "this is a Git LFS pointer, not the file it stands for; run 'git lfs pull'"
    ),
    b"\x00\x05\x16\x07": (
        "this is an AppleDouble file, in which macOS keeps the attributes of another file; the "
        "contents are in the file of the same name, without a leading '._'"
    ),
    b"\x93NUMPY": "this is an array of NumPy's own format (.npy); numpy.load opens it",
    b"PK\x03\x04": "this is a zip archive; unpack it first",
    b"\x1f\x8b": "this is a gzip archive; unpack it first",
}

_WEB_PAGE = re.compile(rb"\s*<(!doctype|html|\?xml)", re.IGNORECASE)
_PROTOTXT = re.compile(
    rb"(\s|#[^\n]*\n)*(name|layers?|input\w*|state|force_backward|debug_info)\s*[:{]"
    rb"[\x20-\x7e\s]*\Z"
)


def refuse_other_formats(reader: WireReader) -> None:
    """Raise ModelFileError if a file is of a format that is not protobuf's."""
    head = reader.buffer[:_HEAD].tobytes()
    for signature, verdict in _SIGNATURES.items():
        if head.startswith(signature):
            raise reader.error(verdict, 0)
    if _WEB_PAGE.match(head):
        raise reader.error("this is a web page; the download went wrong", 0)
    if _PROTOTXT.match(head):
        raise reader.error(
            "this is a network definition in text form (.prototxt), which has no weights; the "
            "weights are in a .caffemodel file",
            0,
        )


def holds_blob(kinds: Kinds) -> bool:
    """Tell a BlobProto by its fields where a NetParameter was expected."""
    return not kinds.isdisjoint(
        {
            (1, WireType.VARINT),
            (2, WireType.VARINT),
            (3, WireType.VARINT),
            (5, WireType.LENGTH),
            (5, WireType.FIXED32),
            (7, WireType.LENGTH),
        }
    )


def holds_solver_state(kinds: Kinds) -> bool:
    """Tell a SolverState by its fields where a NetParameter was expected."""
    return (1, WireType.VARINT) in kinds and not kinds.isdisjoint(
        {(2, WireType.LENGTH), (3, WireType.LENGTH)}
    )


def holds_model(kinds: Kinds) -> bool:
    """Tell a NetParameter by its fields where a BlobProto was expected."""
    return not kinds.isdisjoint(
        {(1, WireType.LENGTH), (2, WireType.LENGTH), (100, WireType.LENGTH)}
    ) and kinds.isdisjoint({(5, WireType.LENGTH), (5, WireType.FIXED32), (7, WireType.LENGTH)})
