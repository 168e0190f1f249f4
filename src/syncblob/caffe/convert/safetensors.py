"""The safetensors format, through its own package."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import numpy as np

from syncblob.caffe import blob_values
from syncblob.caffe.convert.structure import STRUCTURE, assemble, describe
from syncblob.caffe.convert.values import lazy_entry
from syncblob.errors import ModelFileError
from syncblob.formats import import_optional

if TYPE_CHECKING:
    from syncblob.caffe.convert.weights import Weights

# The names of dtypes in files.
_NAMES = {
    "BOOL": "bool",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}
# The header, which is JSON, follows eight bytes with its length.
_HEADER = slice(8, 9)
DTYPES = frozenset(_NAMES.values())
# The entry of the header that is no tensor.
_METADATA = "__metadata__"


def read(path: str) -> Weights:
    """Open a file. Reads its header, but no values."""
    safetensors = import_optional("safetensors")
    try:
        file = safetensors.safe_open(path, framework="numpy")
    except safetensors.SafetensorError as error:
        with Path(path).open("rb") as opened:
            begins = opened.read(_HEADER.stop)[_HEADER] == b"{"
        found = (
            "the safetensors file is truncated or damaged"
            if begins
            else "this is no safetensors file"
        )
        raise ModelFileError(f"{found} ({error}); copy it again", path=path) from error
    closed = Event()
    tensors = {}
    for name in file.keys():  # noqa: SIM118  # not a mapping
        header = file.get_slice(name)
        found = header.get_dtype()
        tensors[name] = lazy_entry(
            header.get_shape(),
            _NAMES.get(found, found),
            partial(file.get_tensor, name),
            name=name,
            path=path,
            is_closed=closed.is_set,
        )
    metadata = file.metadata() or {}

    def close() -> None:
        closed.set()
        file.__exit__(None, None, None)

    weights = assemble(path, "safetensors", tensors, metadata.get(STRUCTURE), close=close)
    weights.others = tuple(f"the metadata {key!r}" for key in metadata if key != STRUCTURE)
    return weights


def check(weights: Weights) -> None:
    """Raise ValueError if a tensor has the name of the metadata."""
    import_optional("safetensors.numpy")
    if _METADATA in weights.tensors:
        raise ValueError(
            f"safetensors cannot hold a tensor {_METADATA!r}, which is the name of its metadata; "
            f"rename the tensor"
        )


def write(weights: Weights, path: Path) -> None:
    """Write a file. The package needs all arrays at once."""
    numpy_module = import_optional("safetensors.numpy")
    # Non-contiguous arrays would be written in the wrong order.
    arrays = {
        name: np.ascontiguousarray(blob_values(blob)).reshape(blob.shape)
        for name, blob in weights.tensors.items()
    }
    mode = path.stat().st_mode
    described = {STRUCTURE: describe(weights)} if weights.described else None
    numpy_module.save_file(arrays, path, metadata=described)
    # save_file replaces the file by one that only the owner can read.
    path.chmod(mode)
