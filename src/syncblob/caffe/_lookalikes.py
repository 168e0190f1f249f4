"""Telling files that are often mistaken for Caffe's by how they begin or what they hold.

A protobuf message has no signature: nearly any bytes are one, or begin like one. These checks turn
"damaged" into words that say what the file really is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from syncblob.caffe._fields import (
    DATA,
    DOUBLE_DATA,
    DOUBLE_DIFF,
    HISTORY,
    ITER,
    LAYERS,
    LEARNED_NET,
    RAW_DATA,
    ROW_OF_BLOBS,
    SHAPE,
)
from syncblob.caffe._signatures import HDF5, NPY, OLD_TORCH, ZIP, first_member
from syncblob.caffe._wire import WireType

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from syncblob.caffe._wire import WireReader

    Kinds = AbstractSet[tuple[int, WireType]]

__all__ = ["EMPTY", "OTHER_HDF5", "is_hdf5", "refuse_other_formats", "refuse_other_messages"]

_HEAD = 512

EMPTY = "expected a file with weights, got an empty file; copy or download it again"
OTHER_HDF5 = "this is HDF5 in another layout than Caffe's; syncblob.convert.open_weights opens it"

_TORCH = "this is a file of PyTorch's (.pt, .pth); syncblob.convert.open_weights opens it"
_SIGNATURES = {
    HDF5: (
        "this is an HDF5 file (.caffemodel.h5 or .solverstate.h5); open_model and "
        "open_solver_state open these"
    ),
    b"version https://git-lfs": (
        "this is a Git LFS pointer, not the file it stands for; run 'git lfs pull'"
    ),
    b"\x00\x05\x16\x07": (
        "this is an AppleDouble file, in which macOS keeps the attributes of another file; the "
        "contents are in the file of the same name, without a leading '._'"
    ),
    NPY: "this is an array of NumPy's own format (.npy); numpy.load opens it",
    OLD_TORCH: _TORCH,
    b"\x1f\x8b": "this is a gzip archive; unpack it first",
}

_LENGTH_BYTES = 8

_WEB_PAGE = re.compile(rb"\s*<(!doctype|html|\?xml)", re.IGNORECASE)
_PROTOTXT = re.compile(
    rb"(\s|#[^\n]*\n)*(name|layers?|input\w*|state|force_backward|debug_info)\s*[:{]"
    rb"[\x20-\x7e\s]*\Z"
)


def is_hdf5(reader: WireReader) -> bool:
    """Tell an HDF5 file, which is read by other means, from a message."""
    return reader.buffer[: len(HDF5)].tobytes() == HDF5


def refuse_other_formats(reader: WireReader) -> None:
    """Raise ModelFileError if a file is of a format that is not protobuf's."""
    head = reader.buffer[:_HEAD].tobytes()
    for signature, verdict in _SIGNATURES.items():
        if head.startswith(signature):
            raise reader.error(verdict, 0)
    if head.startswith(ZIP):
        raise reader.error(_what_archive(head), 0)
    if _is_safetensors(head, len(reader.buffer)):
        raise reader.error("this is a .safetensors file; syncblob.convert.open_weights opens it", 0)
    if _WEB_PAGE.match(head):
        raise reader.error("this is a web page; the download went wrong", 0)
    if _PROTOTXT.match(head):
        raise reader.error(
            "this is a network definition in text form (.prototxt), which has no weights; the "
            "weights are in a .caffemodel file",
            0,
        )


def _what_archive(head: bytes) -> str:
    """Tell what a zip archive is by the name of its first member."""
    name = first_member(head)
    if name.endswith(".npy"):
        return "this is an .npz file of NumPy's; syncblob.convert.open_weights opens it"
    if name.endswith("/data.pkl"):
        return _TORCH
    return "this is a zip archive; unpack it first"


def _is_safetensors(head: bytes, size: int) -> bool:
    """Tell a file that begins with the length of a JSON header, which fits into the file."""
    length = int.from_bytes(head[:_LENGTH_BYTES], "little")
    return head[_LENGTH_BYTES:].startswith(b"{") and length <= size - _LENGTH_BYTES


def refuse_other_messages(reader: WireReader, kinds: Kinds, wanted: str = "model") -> None:
    """Raise ModelFileError if a message is of another type than wanted, going by its fields.

    Parameters
    ----------
    reader
        The file.
    kinds
        The numbers and wire types of the fields that it has.
    wanted
        ``"model"``, ``"blob"``, ``"blobs"`` or ``"solver state"``.
    """
    found = _identify(kinds)
    if found and wanted not in found:
        description, advice = _MESSAGES[found[0]]
        expected = _MESSAGES[wanted][0].partition(" (")[0]
        raise reader.error(f"this is {description}, not {expected}; {advice}", 0)


_MESSAGES = {
    "model": ("a whole model", "use open_model"),
    "blob": ("one blob (.binaryproto)", "use read_blob"),
    "blobs": ("a row of blobs (BlobProtoVector)", "use read_blobs"),
    "solver state": ("the state of a solver (.solverstate)", "use open_solver_state"),
}

# One number may be that of a field in several messages.
_NAME_OR_BLOB = ROW_OF_BLOBS
_LAYERS_OR_LEARNED_NET = LEARNED_NET
_V2_LAYER = (LAYERS[2], WireType.LENGTH)
_NUM_OR_ITER = ITER
_INPUT_OR_HISTORY = HISTORY
_VALUES_OR_SHAPE = {
    (DATA, WireType.LENGTH),
    (DATA, WireType.FIXED32),
    (SHAPE, WireType.LENGTH),
    # Packed, it would have the number and the wire type of a net's shape of inputs.
    (DOUBLE_DATA, WireType.FIXED64),
    (DOUBLE_DIFF, WireType.LENGTH),
    (RAW_DATA, WireType.LENGTH),
}


def _identify(kinds: Kinds) -> tuple[str, ...]:
    """Return what a message may be, the likeliest first; nothing if it may be anything."""
    found: tuple[str, ...] = ()
    if _V2_LAYER in kinds:
        found = ("model",)
    elif not kinds.isdisjoint({_LAYERS_OR_LEARNED_NET, _INPUT_OR_HISTORY}):
        if _NUM_OR_ITER in kinds:
            found = ("solver state",)
        else:
            found = ("model",) if _NAME_OR_BLOB in kinds else ("model", "solver state")
    if not kinds.isdisjoint(_VALUES_OR_SHAPE):
        return (*found, "blob")  # a fork may have added fields to it
    if found:
        return found
    if _NUM_OR_ITER in kinds:
        return ("blob", "solver state")
    if kinds == {_NAME_OR_BLOB}:
        return ("model", "blobs")
    return ("model",) if _NAME_OR_BLOB in kinds else ()
