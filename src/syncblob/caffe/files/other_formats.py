"""Recognising files of other formats, by their first bytes, their contents or their names.

A protobuf message has no signature: nearly any bytes are one, or begin like one. With these checks,
an error says what the file really is, rather than "damaged". Before a file is written, they refuse
the extension of another format, because other programs would read the file as that.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import TYPE_CHECKING

from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobProtoVector, NetParameter, SolverState
from syncblob.caffe.files.other_frameworks import Part, framework_of, why_no_net, why_no_state
from syncblob.caffe.messages.fields import LEGACY_NAMES
from syncblob.caffe.messages.file_objects import Target, name_of
from syncblob.caffe.messages.read_blobproto import MessageIndex, wire_types_of
from syncblob.caffe.messages.wire import WireType
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from syncblob.caffe.messages.wire import Contents, WireReader

HEAD = 4096

OTHER_HDF5 = (
    "this is HDF5 in another layout than Caffe's; syncblob.caffe.convert.open_weights opens it"
)
_ELSEWHERE = "save its weights as .safetensors or .npz with its own library"
_OPEN_WEIGHTS = "syncblob.caffe.convert.open_weights opens it"

_HDF5 = b"\x89HDF\r\n\x1a\n"
# The names that `file_signature` returns, the first bytes of such files, and what they are.
_SIGNATURES: dict[str, tuple[bytes | tuple[bytes, ...], str]] = {
    "hdf5": (_HDF5, "an HDF5 file (.h5); open_model and open_solver_state open Caffe's"),
    "npy": (b"\x93NUMPY", "an array of NumPy's own format (.npy); numpy.load opens it"),
    # The pickled number that torch.save wrote first before it wrote zip archives.
    "torch": (
        b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.",
        f"a file of PyTorch's; {_OPEN_WEIGHTS}",
    ),
    "zip": (
        (b"PK\x03\x04", b"PK\x05\x06"),
        f"a zip archive, such as an .npz or a file of PyTorch's; {_OPEN_WEIGHTS}",
    ),
    # Recognised by its header.
    "safetensors": ((), f"a .safetensors file; {_OPEN_WEIGHTS}"),
    "git-lfs": (
        b"version https://git-lfs",
        "a Git LFS pointer, not the file it stands for; run 'git lfs pull'",
    ),
    "appledouble": (
        b"\x00\x05\x16\x07",
        "an AppleDouble file of macOS; the contents are in the file of this name without '._'",
    ),
    "gzip": (
        b"\x1f\x8b",
        "a gzip archive; unpack it, or pass gzip.open(path) to a function that reads Caffe's files",
    ),
}
_LEAST_USER_BLOCK = 512
# In a safetensors file, eight bytes with the length precede the header, which is JSON.
_LENGTH_BYTES = 8

_WEB_PAGE = re.compile(rb"\s*<(!doctype|html|\?xml)", re.IGNORECASE)
_PROTOTXT = re.compile(
    rb"(\s|#[^\n]*\n)*(name|layers?|input\w*|state|force_backward|debug_info)\s*[:{]"
)
_TEXT = bytes({*b"\t\n\r\f", *range(0x20, 0x7F), *range(0x80, 0x100)})


# --- what a file that is read begins with ---------------------------------------------------------


def file_signature(contents: Contents) -> str:
    """Recognise the format of a file from its first bytes: a key of `_SIGNATURES`.

    It is ``""`` for all others, such as Caffe's messages, which have no signature.
    """
    head = head_of(contents)
    length = int.from_bytes(head[:_LENGTH_BYTES], "little")
    if head[_LENGTH_BYTES:].startswith(b"{") and length <= len(contents) - _LENGTH_BYTES:
        return "safetensors"
    for name, (begin, _) in _SIGNATURES.items():
        if head.startswith(begin):
            return name
    return "hdf5" if _has_user_block(contents) else ""


def _has_user_block(contents: Contents) -> bool:
    """Return whether it is HDF5 after bytes of another program, as MATLAB writes (-v7.3)."""
    offset = _LEAST_USER_BLOCK
    while offset + len(_HDF5) <= len(contents):
        if bytes(contents.read(offset, offset + len(_HDF5))) == _HDF5:
            return True
        offset *= 2
    return False


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


def require_message(reader: WireReader, wanted: str = "caffemodel") -> None:
    """Refuse a file that is not the expected message: empty, not protobuf, or another one.

    `wanted` is ``"caffemodel"``, ``"binaryproto"`` or ``"solverstate"``. Raises ModelFileError.
    """
    message = refuse_other_formats(reader)
    found = possible_messages(reader, message)
    expected = _MESSAGES[wanted][1].partition(" (")[0]
    if not found:
        why = why_no_net(message) or why_no_state(message) or "most of its fields are unknown"
        raise reader.error(f"expected {expected}, got a message of another program: {why}", 0)
    if wanted not in found:
        _, description, advice = _MESSAGES[found[0]]
        raise reader.error(f"this is {description}, not {expected}; {advice}", 0)


def refuse_other_formats(reader: WireReader) -> Part:
    """Return the message that fills a file.

    Raises ModelFileError if the file is empty, or recognised as no protobuf message at all.
    """
    if not len(reader.contents):
        raise reader.error(
            "expected a file with blobs, got an empty file; copy or download it again", 0
        )
    found = file_signature(reader.contents)
    if found:
        raise reader.error(f"this is {_SIGNATURES[found][1]}", 0)
    head, message = head_of(reader.contents), Part(reader.contents)
    is_text_file = is_text(head)
    if found := framework_of(message, reader.path, head, is_text=is_text_file):
        raise reader.error(f"this is {found}, not a file of Caffe's; {_ELSEWHERE}", 0)
    if _WEB_PAGE.match(head):
        raise reader.error("this is a web page; the download went wrong", 0)
    if not is_text_file:
        return message
    if _PROTOTXT.match(head):
        raise reader.error(
            "this is a network definition in text form (.prototxt), which has no weights; the "
            "weights are in a .caffemodel file",
            0,
        )
    try:
        _kinds(reader)  # the bytes of a message may all be printable
    except ModelFileError:
        reason = "expected a file of weights, got a text; Caffe's weights are in a .caffemodel"
        raise reader.error(reason, 0) from None
    return message


# --- what a message holds -------------------------------------------------------------------------


def _has_blob(reader: WireReader) -> bool:
    """Return whether the first field is a blob, whose shape and values agree, and not a name."""
    field = next(reader.fields(0, len(reader.contents)))
    try:
        parsed = MessageIndex(reader, BlobProto, field.start, field.stop)
        parsed.blob(parsed.message)
    except ModelFileError:
        return False
    return True


_MESSAGES: dict[str, tuple[type[Message], str, str]] = {
    "caffemodel": (NetParameter, "a whole model", "use open_model"),
    "binaryproto": (BlobProto, "one blob (.binaryproto)", "use read_blob"),
    "blobs": (BlobProtoVector, "a row of blobs (BlobProtoVector)", "use Blob.from_proto"),
    "solverstate": (SolverState, "the state of a solver (.solverstate)", "use open_solver_state"),
}
_NAME = (NetParameter.NAME_FIELD_NUMBER, WireType.LENGTH)
_LAYERS = {
    (number, WireType.LENGTH)
    for number in (NetParameter.LAYERS_FIELD_NUMBER, NetParameter.LAYER_FIELD_NUMBER)
}
_DIMS = {BlobProto.DESCRIPTOR.fields_by_name[name].number for name in LEGACY_NAMES}
_NEEDED_BY_A_NET = {number for number, _ in (_NAME, *_LAYERS)}
"""A net with nothing but inputs is none."""


def _kinds(reader: WireReader) -> set[tuple[int, WireType]]:
    """Return the numbers and wire types of the fields of a message."""
    kinds: set[tuple[int, WireType]] = set()
    for field in reader.fields(0, len(reader.contents)):
        kinds.add((field.number, field.wire_type))
        if field.number == NetParameter.LAYER_FIELD_NUMBER:
            break  # only a net has this field, and its other layers may be many
    return kinds


def possible_messages(reader: WireReader, message: Part) -> tuple[str, ...]:
    """Return the types of message that have most of its fields; empty if most of them are unknown.

    The types are those of `require_message`. Raises ModelFileError if a field is damaged.
    """
    kinds = _kinds(reader)
    counts = {}
    for name, (kind, *_) in _MESSAGES.items():
        known = kind.DESCRIPTOR.fields_by_number
        counts[name] = sum(
            number in known and wire_type in wire_types_of(known[number])
            for number, wire_type in kinds
        )
    numbers = {number for number, _ in kinds}
    if not numbers & _NEEDED_BY_A_NET or why_no_net(message):
        counts["caffemodel"] = 0
    elif kinds & _LAYERS:
        # With a layer of Caffe's, other fields are those of a fork.
        others = {kind for kind in kinds if kind[0] in _NEEDED_BY_A_NET} - _LAYERS - {_NAME}
        counts["caffemodel"] = len(kinds) - len(others)
    elif _NAME in kinds and 2 * counts["caffemodel"] == len(kinds):
        counts["caffemodel"] += 1  # of a fork, too
    # Many messages begin with a number, such as a version.
    if numbers == {SolverState.ITER_FIELD_NUMBER} or why_no_state(message):
        counts["solverstate"] = 0
    if numbers < _DIMS:
        counts["binaryproto"] = 0
    if not _has_blob(reader):
        counts["blobs"] = 0
    most = max(counts.values())
    found = tuple(
        name for name, count in counts.items() if count == most and 2 * count > len(kinds)
    )
    # A name and a row of blobs have the same number.
    return ("blobs",) if found == ("caffemodel", "blobs") else found


# --- the extension of a file that is written -----------------------------------------------------

_HDF5_EXTENSIONS = (".h5", ".hdf5")
_STATE = ".solverstate"
_EXPECTED = {
    "caffemodel": (".caffemodel", *_HDF5_EXTENSIONS),
    "binaryproto": (".binaryproto",),
    "solverstate": (_STATE, *_HDF5_EXTENSIONS),
}
# Extensions of other formats, and the advice in the error.
_ADVICE = {
    **dict.fromkeys(
        ".json .mat .npy .onnx .pkl .py .txt .zip".split(),  # noqa: SIM905
        "syncblob does not write this format",
    ),
    **dict.fromkeys(
        (".npz", ".pt", ".pth", ".safetensors"),
        "syncblob.caffe.convert.convert and the command 'syncblob convert' make one of a "
        ".caffemodel or a .binaryproto",
    ),
    **dict.fromkeys(_EXPECTED["caffemodel"], "save_model writes a model"),
    ".binaryproto": "write_blob writes one blob",
    _STATE: "save_solver_state writes the state of a solver",
    ".prototxt": "write_prototxt writes the definition of a net: model.to_net()",
    ".gz": "to compress it, pass gzip.open(path, 'wb') in place of the path",
}


def require_path(target: Target, contents: str) -> bool:
    """Tell from the extension whether to write HDF5; refuse the extensions of other formats.

    The target is a path, or an open file, whose name may end in ``.gz`` besides; the contents are
    ``"caffemodel"``, ``"binaryproto"`` or ``"solverstate"``. Raises ValueError if programs would
    take the file for another format.
    """
    name = Path(name_of(target)).name.lower()
    if hasattr(target, "write"):
        name = name.removesuffix(".gz")
    extension, expected = Path(name).suffix, _EXPECTED[contents]
    of_state = Path(name).stem.endswith(_STATE) and extension in _HDF5_EXTENSIONS
    kind = _STATE if of_state else extension
    if kind in _ADVICE and kind not in expected:
        raise ValueError(
            f"expected the extension {' or '.join(expected)}, got {_STATE * of_state}{extension}; "
            f"{_ADVICE[kind]}"
        )
    return extension in _HDF5_EXTENSIONS
