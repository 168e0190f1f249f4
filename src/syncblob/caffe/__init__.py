"""Caffe's files and messages: model files, mean files, network definitions and BlobProto.

Most names are also in `syncblob`. The others are the building blocks of the command line and of
`syncblob.caffe.convert`, for other programs that work with such files.

Nothing here imports protobuf until a message is made. Files are read by this package's own parser.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from syncblob.caffe.files.blobs import read_blob, read_blobs, write_blob
from syncblob.caffe.files.hdf5 import hdf5_address, hdf5_contents, hdf5_problem
from syncblob.caffe.files.model import ModelFile, open_model, plan_model, save_model
from syncblob.caffe.files.other_formats import file_signature
from syncblob.caffe.files.solver_state import SolverState, open_solver_state, save_solver_state
from syncblob.caffe.messages.blobproto import equal_shapes
from syncblob.caffe.messages.disk import replacing
from syncblob.caffe.messages.lazy import blob_values
from syncblob.caffe.nets.layer import Layer, LayerBlobs
from syncblob.caffe.nets.net_shapes import NetShapes
from syncblob.caffe.nets.param_shapes import legacy_blobs, mark_legacy, squeezed_blobs
from syncblob.caffe.nets.trained_layers import CopyReport

if TYPE_CHECKING:
    from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetParameter, SolverParameter
    from syncblob.caffe.messages.prototxt import read_prototxt, read_solver_prototxt, write_prototxt

__all__ = [
    "CopyReport",
    "Layer",
    "LayerBlobs",
    "LayerParameter",
    "ModelFile",
    "NetParameter",
    "NetShapes",
    "SolverParameter",
    "SolverState",
    "blob_values",
    "equal_shapes",
    "file_signature",
    "hdf5_address",
    "hdf5_contents",
    "hdf5_problem",
    "legacy_blobs",
    "mark_legacy",
    "open_model",
    "open_solver_state",
    "plan_model",
    "read_blob",
    "read_blobs",
    "read_prototxt",
    "read_solver_prototxt",
    "replacing",
    "save_model",
    "save_solver_state",
    "squeezed_blobs",
    "write_blob",
    "write_prototxt",
]

# The names that need protobuf, and the modules that define them.
_LATER = {
    "LayerParameter": "_pb.caffe_pb2",
    "NetParameter": "_pb.caffe_pb2",
    "SolverParameter": "_pb.caffe_pb2",
    "read_prototxt": "messages.prototxt",
    "read_solver_prototxt": "messages.prototxt",
    "write_prototxt": "messages.prototxt",
}


def __getattr__(name: str) -> Any:
    """Import the names that need protobuf on first use."""
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
