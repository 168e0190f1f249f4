"""The fields of a BlobProto, and the limits of Caffe's blobs."""

# Older messages have four dimensions in place of a shape.
LEGACY_NAMES = ("num", "channels", "height", "width")
LEGACY_AXES = len(LEGACY_NAMES)
# Caffe's kMaxBlobAxes. HDF5 has the same limit.
MOST_AXES = 32
# Caffe's Blob counts its elements in an int.
MOST_ELEMENTS = 2**31 - 1
# Limits of syncblob, against small files that look endless: layers and blobs together, or groups
# and datasets of HDF5; and fields of a message, without those inside its settings.
MOST_OBJECTS = 1 << 15
MOST_FIELDS = 1 << 18
DATA, DIFF, _SHAPE, DOUBLE_DATA, DOUBLE_DIFF = range(5, 10)
# Fields that NVCaffe added.
RAW_DATA_TYPE, RAW_DIFF_TYPE, RAW_DATA, RAW_DIFF = range(10, 14)
