"""The safetensors format: a header in JSON, which says where the values of each tensor are.

The package of that name maps the file, needs all tensors at once to write one, and does not say
where values are; so the format, which is simple, is read and written here.

The metadata has room for a description of the layers: a text in JSON with the name of the net; for
each layer the names of its tensors and, in base64, its LayerParameter message; and the rest of the
NetParameter message.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from syncblob.caffe import Layer, LayerParameter, NetParameter
from syncblob.caffe.convert.weights import Entry, Weights
from syncblob.caffe.messages.fields import Write
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.pieces import BlobValues, Piece, write_pieces
from syncblob.caffe.messages.string_fields import parse
from syncblob.errors import ModelFileError
from syncblob.formats import NAMES, quantity

# The names of dtypes in files, in the order of `NAMES`; there is none for complex128.
_IN_FILES = "BOOL I8 I16 I32 I64 U8 U16 U32 U64 F16 F32 F64 C64"
_NAMES = {"BF16": "bfloat16", **dict(zip(_IN_FILES.split(), NAMES, strict=False))}
_IN_FILE = {name: code for code, name in _NAMES.items()}
# The code of any dtype begins with its kind and the number of bits.
_WIDTH = re.compile(r"(?:BOOL|[FCIU]|BF)(\d*)(?:_|$)")
_LENGTH_BYTES = 8
# The longest header that the package reads.
_MOST_HEADER = 100_000_000
# The key of the header under which the metadata are.
_METADATA = "__metadata__"
# The key of our description of the layers in the metadata.
_DESCRIPTION = "syncblob"
_VERSION = 1


def read(path: str) -> Weights:
    """Open a file. Reads its header, but no values."""
    file = OpenFile(path)
    try:
        start, metadata, found = _header(file)
    # Deep nesting raises RecursionError; other JSON raises TypeError, KeyError or AttributeError.
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        file.require_unchanged()
        raise ModelFileError(
            f"the safetensors file is truncated or damaged ({error}); copy it again", path=path
        ) from error
    file.require_unchanged()
    tensors: dict[str, Entry] = {
        name: (entry.shape, _NAMES.get(entry.dtype, entry.dtype), start + entry.begin)
        for name, entry in found.items()
    }
    text = metadata.get(_DESCRIPTION)
    facts = {} if text is None else _parse_description(text, path, tensors)
    facts["metadata"] = metadata
    facts["others"] = tuple(f"the metadata {key!r}" for key in metadata if key != _DESCRIPTION)
    return Weights.of_entries(path, "safetensors", tensors, file, **facts)


class _InFile(NamedTuple):
    """A tensor, as the header describes it."""

    dtype: str
    shape: list[int]
    begin: int
    end: int

    @property
    def nbytes(self) -> float:
        width = _WIDTH.match(self.dtype)
        if width is None:
            raise ValueError(f"there is no dtype {self.dtype!r}")
        return math.prod(self.shape) * int(width[1] or 8) / 8


def _header(file: OpenFile) -> tuple[int, dict[str, str], dict[str, _InFile]]:
    """Return where the values begin, the metadata, and the tensors by name."""
    if len(file) < _LENGTH_BYTES:
        raise ValueError("it has no header")
    length = int.from_bytes(file.read(0, _LENGTH_BYTES), "little")
    start = _LENGTH_BYTES + length
    if length > _MOST_HEADER or start > len(file):
        raise ValueError(f"it has no room for a header of {length} bytes, or that is too long")
    header = json.loads(bytes(file.read(_LENGTH_BYTES, start)))
    metadata = header.pop(_METADATA, None) or {}
    found = {
        name: _InFile(entry["dtype"], entry["shape"], *entry["data_offsets"])
        for name, entry in sorted(header.items())
    }
    end = 0
    for name, entry in sorted(found.items(), key=lambda item: (item[1].begin, item[1].end)):
        numbers = (*entry.shape, entry.begin, entry.end)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError(f"tensor {name!r} has a negative size, or one that is no integer")
        if entry.begin != end or entry.end - end != entry.nbytes:
            raise ValueError(f"tensor {name!r} is not where it should be, from byte {end} on")
        end = entry.end
    if end != len(file) - start:
        raise ValueError(f"its tensors have {end} bytes, and it has {len(file) - start}")
    if not all(isinstance(text, str) for text in metadata.values()):
        raise TypeError("its metadata are not all texts")
    return start, metadata, found


def plan(weights: Weights) -> Write:
    weights.require_utf8()
    if _METADATA in weights.tensors:
        raise ValueError(
            f"safetensors cannot hold a tensor {_METADATA!r}, which is the name of its metadata; "
            f"rename the tensor"
        )
    description = {
        "version": _VERSION,
        "net": weights.name,
        "settings": _encode(weights.settings),
        "layers": [
            {"tensors": list(each.tensors), "proto": _encode(each.layer.proto)}
            for each in weights.layers
        ],
    }
    header: dict[str, Any] = {_METADATA: weights.metadata | {_DESCRIPTION: json.dumps(description)}}
    # Sorted like the package does it, so that all values are aligned.
    ordered = sorted(weights.tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))
    pieces: list[Piece] = []
    end = 0
    for name, blob in ordered:
        begin, end = end, end + blob.nbytes
        pieces.append(BlobValues(blob, blob.dtype))
        dtype = _IN_FILE[blob.dtype.name]
        header[name] = {"dtype": dtype, "shape": blob.shape, "data_offsets": (begin, end)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    if len(text) > _MOST_HEADER:
        raise ValueError(
            f"the header of a safetensors file has at most {_MOST_HEADER:,} bytes, and that of "
            f"{quantity(len(ordered), 'tensor')} would have {len(text):,}; write .npz"
        )
    return partial(write_pieces, [len(text).to_bytes(_LENGTH_BYTES, "little"), text, *pieces])


# --- the description of the layers ----------------------------------------------------------------


def _encode(message: NetParameter | LayerParameter) -> str:
    return b64encode(message.SerializePartialToString()).decode("ascii")


def _parse_description(text: str, path: str, entries: Iterable[str]) -> dict[str, Any]:
    """Return layers, name and settings of a description. Raises ModelFileError if it is wrong."""
    try:
        found = json.loads(text)
        if found["version"] != _VERSION:
            raise ValueError(f"expected version {_VERSION}, got {found['version']!r}")  # noqa: TRY301  # caught below
        described = [name for layer in found["layers"] for name in layer["tensors"]]
        if sorted(described) != sorted(entries):
            raise ValueError("it is about other tensors")  # noqa: TRY301  # caught below
        net = parse(NetParameter, b64decode(found["settings"], validate=True))
        layers = []
        for layer in found["layers"]:
            proto = parse(LayerParameter, b64decode(layer["proto"], validate=True))
            proto.ClearField("blobs")
            layers.append((Layer.of_own(proto), layer["tensors"]))
        for field in ("name", "layer", "layers"):
            net.ClearField(field)
        return {"layers": layers, "name": str(found["net"]), "settings": net}
    # Deep nesting raises RecursionError; other JSON raises TypeError or KeyError.
    except (ValueError, TypeError, KeyError, RecursionError, DecodeError) as error:
        raise ModelFileError(
            f"its description of the layers, the metadata {_DESCRIPTION!r}, does not fit "
            f"({type(error).__name__}: {error}); without it, layers are made of the names of the "
            f"tensors",
            path=path,
        ) from None
