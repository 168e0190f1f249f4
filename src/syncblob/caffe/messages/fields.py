"""The field numbers of Caffe's messages, for code that works without protobuf."""

from __future__ import annotations

from syncblob.caffe.messages.wire import WireType

Kind = tuple[int, WireType]
"""A field number and the wire type of the field."""

# BlobProto. Older messages have four dimensions in place of a shape.
LEGACY_NAMES = ("num", "channels", "height", "width")
LEGACY_AXES = len(LEGACY_NAMES)
LEGACY_DIMS = range(1, 1 + LEGACY_AXES)
# Caffe's kMaxBlobAxes.
MOST_AXES = 32
# Caffe's Blob counts its elements in an int.
MOST_ELEMENTS = 2**31 - 1
DATA, DIFF, SHAPE, DOUBLE_DATA, DOUBLE_DIFF = range(5, 10)
# Fields that NVCaffe added.
RAW_DATA_TYPE, RAW_DIFF_TYPE, RAW_DATA, RAW_DIFF = range(10, 14)

# BlobProtoVector
ROW_OF_BLOBS: Kind = (1, WireType.LENGTH)

# NetParameter
NET_NAME = 1
LAYER = 100

# LayerParameter
BLOBS = 7

# SolverState
ITER: Kind = (1, WireType.VARINT)
LEARNED_NET: Kind = (2, WireType.LENGTH)
HISTORY: Kind = (3, WireType.LENGTH)
