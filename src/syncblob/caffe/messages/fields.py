"""The field numbers of Caffe's messages, for code that works without protobuf.

The fields of layers are dictionaries, keyed by the version of the layer format: 2 is the current
one, 1 identifies types by numbers, and 0, the first one, nests its layers in layers of version 1.
"""

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

# BlobShape
SHAPE_DIM = 1

# BlobProtoVector
ROW_OF_BLOBS: Kind = (1, WireType.LENGTH)

# NetParameter
NET_NAME = 1
LAYERS = {0: 2, 1: 2, 2: 100}

# V0LayerParameter, V1LayerParameter and LayerParameter. Bottoms and tops of version 0 are those of
# the layer around it.
NAME = {0: 1, 1: 4, 2: 1}
TYPE = {0: 2, 1: 5, 2: 2}
BOTTOM = {1: 2, 2: 3}
TOP = {1: 3, 2: 4}
BLOBS = {0: 50, 1: 6, 2: 7}
# The V0LayerParameter within a V1LayerParameter.
V0_LAYER = 1

# SolverState
ITER: Kind = (1, WireType.VARINT)
LEARNED_NET: Kind = (2, WireType.LENGTH)
HISTORY: Kind = (3, WireType.LENGTH)
CURRENT_STEP: Kind = (4, WireType.VARINT)
