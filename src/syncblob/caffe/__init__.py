"""Caffe's files and messages: model files, mean files, network definitions and BlobProto.

Most names are also in `syncblob`. The others are the building blocks of the command line and of
`syncblob.caffe.convert`, for other programs that work with such files.
"""

from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetParameter, SolverParameter
from syncblob.caffe.files.blobs import (
    SolverState,
    open_solver_state,
    read_blob,
    save_solver_state,
    write_blob,
)
from syncblob.caffe.files.model import ModelFile, open_model, save_model
from syncblob.caffe.messages.file_objects import replacing
from syncblob.caffe.messages.lazy_blobs import blob_values, equal_shapes
from syncblob.caffe.messages.prototxt import read_prototxt, read_solver_prototxt, write_prototxt
from syncblob.caffe.nets.copy_trained_layers import CopyReport
from syncblob.caffe.nets.infer_shapes import NetShapes
from syncblob.caffe.nets.layer import Layer, LayerBlobs
from syncblob.caffe.nets.layer_types import mark_legacy, squeezed_blobs

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
    "mark_legacy",
    "open_model",
    "open_solver_state",
    "read_blob",
    "read_prototxt",
    "read_solver_prototxt",
    "replacing",
    "save_model",
    "save_solver_state",
    "squeezed_blobs",
    "write_blob",
    "write_prototxt",
]
