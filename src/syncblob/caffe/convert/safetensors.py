"""The safetensors format, through its own package.

Its metadata has room for a description of the layers: a text in JSON with the name of the net; for
each layer the names of its tensors and, in base64, its LayerParameter message; and the rest of the
NetParameter message.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from google.protobuf.message import DecodeError

from syncblob.caffe import Layer, LayerParameter, NetParameter, blob_values
from syncblob.caffe.convert.weights import Weights, readable
from syncblob.caffe.messages.string_fields import parsed
from syncblob.errors import ModelFileError
from syncblob.formats import NAMES, import_optional

if TYPE_CHECKING:
    from pathlib import Path

    from syncblob.caffe.convert.weights import Entry

# The names of dtypes in files, in the order of `NAMES`; there is none for complex128.
_IN_FILES = "BOOL I8 I16 I32 I64 U8 U16 U32 U64 F16 F32 F64 C64"
_NAMES = {"BF16": "bfloat16", **dict(zip(_IN_FILES.split(), NAMES, strict=False))}
DTYPES = frozenset(_NAMES.values())
# The entry of the header that is no tensor.
_METADATA = "__metadata__"
# The key of the description in it.
_DESCRIPTION = "syncblob"
_VERSION = 1


def read(path: str) -> Weights:
    """Open a file. Reads its header, but no values."""
    safetensors = import_optional("safetensors")
    try:
        file = safetensors.safe_open(path, framework="numpy")
    except safetensors.SafetensorError as error:
        raise ModelFileError(
            f"the safetensors file is truncated or damaged ({error}); copy it again", path=path
        ) from error
    tensors: dict[str, Entry] = {}
    for name in file.keys():  # noqa: SIM118  # not a mapping
        header = file.get_slice(name)
        found = header.get_dtype()
        dtype = _NAMES.get(found, found)
        tensors[name] = header.get_shape(), dtype, partial(file.get_tensor, name)
    metadata = file.metadata() or {}

    close = partial(file.__exit__, None, None, None)
    others = [f"the metadata {key!r}" for key in metadata if key != _DESCRIPTION]
    text = metadata.get(_DESCRIPTION)
    if text is None:
        return Weights.of_names(path, "safetensors", tensors, close, others=others)
    return _described(text, path, tensors, close, others)


def plan(weights: Weights) -> Callable[[Path], None]:
    """Plan a file. Raises ValueError if a tensor has the name of the metadata."""
    numpy_module = import_optional("safetensors.numpy")
    weights.require_utf8()
    if _METADATA in weights.tensors:
        raise ValueError(
            f"safetensors cannot hold a tensor {_METADATA!r}, which is the name of its metadata; "
            f"rename the tensor"
        )

    def write(path: Path) -> None:
        # The package needs all arrays at once. Those in another order would be written wrongly.
        arrays = {
            name: np.asarray(blob_values(blob), order="C") for name, blob in weights.tensors.items()
        }
        mode = path.stat().st_mode
        description = {
            "version": _VERSION,
            "net": weights.name,
            "settings": _encoded(weights.settings),
            "layers": [
                {"tensors": list(each.tensors), "proto": _encoded(each.layer.proto)}
                for each in weights.layers
            ],
        }
        numpy_module.save_file(arrays, path, metadata={_DESCRIPTION: json.dumps(description)})
        # save_file replaces the file by one that only the owner can read.
        path.chmod(mode)

    return write


# --- the description of the layers ----------------------------------------------------------------


def _encoded(message: NetParameter | LayerParameter) -> str:
    return b64encode(message.SerializePartialToString()).decode("ascii")


def _described(
    text: str, path: str, entries: dict[str, Entry], close: Callable[[], object], others: list[str]
) -> Weights:
    """Make weights of tensors and a description. Raises ModelFileError if they do not fit."""
    try:
        found = json.loads(text)
        if found["version"] != _VERSION:
            raise ValueError(f"expected version {_VERSION}, got {found['version']!r}")  # noqa: TRY301  # caught below, as the others
        names = [name for layer in found["layers"] for name in layer["tensors"]]
        if sorted(names) != sorted(entries):
            raise ValueError("it is about other tensors")  # noqa: TRY301  # as above
        net = parsed(NetParameter, b64decode(found["settings"], validate=True))
        layers = []
        for layer in found["layers"]:
            proto = parsed(LayerParameter, b64decode(layer["proto"], validate=True))
            tensors = {name: entries[name] for name in layer["tensors"]}
            proto.ClearField("blobs")
            layers.append((Layer.of_own(proto), tensors))
        for field in ("name", "layer", "layers"):
            net.ClearField(field)
        name = str(found["net"])
    # Deep nesting raises RecursionError; other JSON raises TypeError or KeyError.
    except (ValueError, TypeError, KeyError, RecursionError, DecodeError) as error:
        raise ModelFileError(
            f"its description of the layers, the metadata {_DESCRIPTION!r}, does not fit "
            f"({type(error).__name__}: {error}); without it, layers are made of the names of the "
            f"tensors",
            path=path,
        ) from None
    kept, unreadable = readable(path, layers)
    return Weights(
        path,
        "safetensors",
        kept,
        close,
        name=name,
        settings=net,
        others=others,
        unreadable=unreadable,
    )
