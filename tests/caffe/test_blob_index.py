"""The fields of a BlobProto that define a Blob, and the places of its values."""

import caffe_oracle
import numpy as np
import pytest
from caffe_agreement import check_blob, needs_upb
from caffe_oracle import as_syncblob_chooses, contents_of

from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape
from syncblob.caffe.messages.blob_index import MessageIndex, static_cast
from syncblob.caffe.messages.wire import Buffer, WireReader, length_header
from syncblob.errors import ModelFileError


def index(data):
    parsed = MessageIndex(WireReader(Buffer(data)), BlobProto)
    return parsed.blob(parsed.message)


def index_message(**fields):
    shape = fields.pop("shape", None)
    message = BlobProto(**fields)
    if shape is not None:
        message.shape.CopyFrom(BlobShape(dim=shape))
    return index(message.SerializeToString())


def floats(*values):
    return np.array(values, "<f4").tobytes()


def unpacked(*values):
    return b"".join(b"\x2d" + floats(value) for value in values)


def packed(*values):
    return length_header(5, 4 * len(values)) + floats(*values)


DOUBLE = b"\x42\x08" + np.float64(4).tobytes()


# --- unusual messages -----------------------------------------------------------------------------

SHAPE_4, HALVES = b"\x3a\x02\x08\x04", b"\x50\x02"
DIMS = b"\x10\x01\x18\x01\x20\x01"
VALUES = [
    packed(1, 2, 3, 4),
    unpacked(1, 2, 3, 4),
    packed(1, 2) + packed(3, 4),
    packed(1) + packed() + packed(2, 3) + packed(4),
    unpacked(1, 2) + packed(3) + unpacked(4),
    packed(1) + b"\x78\x01" + packed(2, 3, 4),
    unpacked(1) + b"\x7b\x7c" + unpacked(2, 3, 4),
    # The same tag, encoded in two bytes.
    b"\xad\x00" + floats(1) + unpacked(2) + b"\xaa\x00\x08" + floats(3, 4),
    # Fields of NVCaffe with wire types that they cannot have there, which are ignored.
    packed(1, 2, 3) + b"\x52\x01\x00" + b"\x60\x63" + b"\x6b\x6c" + packed(4),
]
UNUSUAL = [
    *(SHAPE_4 + values for values in VALUES),
    *(values + SHAPE_4 for values in VALUES),
    # The last num counts, or its low 32 bits.
    b"\x08\x09" + DIMS + b"\x08\x02" + packed(1, 2),
    b"\x08" + b"\xff" * 9 + b"\x01" + DIMS + b"\x08\x01" + packed(1),
    b"\x08\x82\x80\x80\x80\x10" + DIMS + packed(1, 2),
    b"\x3a\x03\x0a\x01\x02" + packed(*range(6)) + b"\x3a\x02\x08\x03",
    *(
        length_header(7, len(dims)) + dims + packed(*range(24))
        for dims in (
            b"\x0a\x03\x02\x03\x04",
            b"\x08\x02\x08\x03\x08\x04",
            b"\x0a\x01\x02\x08\x03\x0a\x01\x04",
            b"\x0a\x02\x02\x03\x12\x01x\x0a\x01\x04",
            b"\x08\x82\x00\x0a\x04\x83\x80\x00\x04",
            b"\x13\x14\x15\x00\x00\x00\x00\x0a\x03\x02\x03\x04",
        )
    ),
    # Old dimensions, some of them absent, and another shape, also one that no Blob can have.
    *(SHAPE_4 + bytes([number << 3, value]) for number in range(1, 5) for value in (0, 5)),
    SHAPE_4 + b"\x08\x01\x10\x02" + packed(1, 2),
    b"\x08\x01" + DIMS + length_header(7, 11) + b"\x08" + b"\xff" * 9 + b"\x01" + packed(1),
    # Several lists of values: doubles, also none of them, come before floats, and raw ones last.
    packed(1, 2) + DOUBLE,
    packed(1) + b"\x4a" + DOUBLE[1:] + b"\x32\x08" + floats(1, 2),
    b"\x42\x00" + packed(1),
    *(values + HALVES + b"\x62\x02\0\0" for values in (packed(1), DOUBLE, b"")),
    packed(1) + b"\x58\x02" + b"\x6a\x02\0\x3c",
    *(
        b"\x3a\x02\x08\x02\x50" + bytes([kind]) + length_header(12, 2 * width) + bytes(2 * width)
        for kind, width in ((0, 8), (1, 4), (2, 2))
    ),
    b"\x3a\x04\x08\x00\x08\x05",
]


@needs_upb
@pytest.mark.parametrize("message", UNUSUAL)
def test_unusual_messages_are_what_protobuf_finds(message):
    assert as_syncblob_chooses(contents_of(caffe_oracle.BlobProto.FromString(message)))
    check_blob(message)


# --- shape ----------------------------------------------------------------------------------------


def test_absent_legacy_dims_are_one_if_there_are_values():
    mean = {"channels": 3, "height": 2, "width": 2}
    found = index_message(**mean, data=range(12))
    assert (found.shape, found.legacy) == ((1, 3, 2, 2), True)
    with pytest.raises(ModelFileError, match=r"\(1, 3, 2, 2\) needs 12 values of data, got 11"):
        index_message(**mean, data=range(11))
    with pytest.raises(ModelFileError, match=r"\(0, 3, 2, 2\) needs 0 values of data, got 12"):
        index_message(num=0, **mean, data=range(12))


def test_as_many_axes_as_a_blob_can_have():
    assert index_message(shape=[1] * 64, data=[1]).shape == (1,) * 64
    with pytest.raises(ModelFileError, match="at most 64 axes"):
        index_message(shape=[2**40] * 1_000_000)


RAW_HALVES = {"raw_data_type": BlobProto.FLOAT16}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"shape": [2, -3]}, "the message is damaged"),
        ({"num": -1, "channels": 1, "height": 1, "width": 1}, "the message is damaged"),
        ({"shape": [2**62, 2**62, 0]}, "the message is damaged"),
        ({"shape": [1] * 65, "data": [1]}, "the message is damaged"),
        ({"data": [7, 8]}, r"shape \(\) needs 1 values of data, got 2: the shape or the values"),
        ({}, r"shape \(\) needs 1 values of data, got 0: perhaps a net without weights"),
        ({"shape": [2], "data": [1, 2], "double_data": [1]}, "needs 2 values of data, got 1"),
        ({"shape": [2], "data": [1, 2], "diff": [1]}, "needs 2 values of diff, got 1"),
        (
            {"shape": [2], "data": [1, 2], "diff": [1, 2], "double_diff": [1]},
            "needs 2 values of diff, got 1",
        ),
        ({"shape": [2], "raw_data": b"ab", **RAW_HALVES}, "needs 2 values of data, got 1"),
        ({"raw_data": b"abc"}, "in field 10; got none that is known"),
        ({"raw_data": b"abc", "raw_data_type": BlobProto.INT}, "in field 10; got type 3"),
        ({"raw_data": b"abc", "raw_diff_type": BlobProto.FLOAT}, "10; got none that is known"),
        ({"raw_data": b"abc", **RAW_HALVES}, "3 bytes, which is not a whole number of 2-byte"),
    ],
)
def test_shapes_and_values_that_do_not_fit(fields, words):
    with pytest.raises(ModelFileError, match=words):
        index_message(**fields)


@pytest.mark.parametrize(("number", "width"), [(5, 4), (6, 4), (8, 8), (9, 8)])
def test_packed_lists_hold_whole_values(number, width):
    data = length_header(number, 3 * width - 1) + bytes(3 * width - 1)
    with pytest.raises(ModelFileError, match=f"whole number of {width}-byte values") as caught:
        index(data)
    assert caught.value.offset == 2


# --- conversion -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_conversion_gives_no_warnings():
    values = static_cast(np.array([1e300, -1e300, np.nan, np.inf]), "float32")
    np.testing.assert_array_equal(values, np.array([np.inf, -np.inf, np.nan, np.inf], "float32"))
    assert static_cast(np.array([np.nan, 1e300]), "int32").dtype == np.int32
