"""Caffe's files and messages: model files, mean files, network definitions and BlobProto.

Nothing here imports protobuf until a message is made; files are read by a scanner of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.caffe._layer import Layer, LayerBlobs
from syncblob.caffe._trained_layers import CopyReport
from syncblob.caffe.files import open_model, read_blob, read_blobs, save_model, write_blob
from syncblob.caffe.model import ModelFile
from syncblob.caffe.solver_state import SolverState, open_solver_state

if TYPE_CHECKING:
    from syncblob.caffe.prototxt import read_prototxt, write_prototxt

__all__ = [
    "CopyReport",
    "Layer",
    "LayerBlobs",
    "ModelFile",
    "SolverState",
    "open_model",
    "open_solver_state",
    "read_blob",
    "read_blobs",
    "read_prototxt",
    "save_model",
    "write_blob",
    "write_prototxt",
]

_PROTOTXT = ("read_prototxt", "write_prototxt")


def __getattr__(name: str) -> Any:
    """Bring in what needs protobuf when it is asked for."""
    if name in _PROTOTXT:
        from syncblob.caffe import prototxt  # see above

        return getattr(prototxt, name)
    raise AttributeError(f"module 'syncblob.caffe' has no attribute {name!r}")
