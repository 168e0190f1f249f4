"""Caffe's files and messages: model files, mean files and BlobProto.

Nothing here imports protobuf until a message is made; files are read by a scanner of their own.
"""

from __future__ import annotations

from syncblob.caffe.model import Layer, ModelFile, open_model, read_blob

__all__ = ["Layer", "ModelFile", "open_model", "read_blob"]
