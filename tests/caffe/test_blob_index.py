"""The fields of a BlobProto that define a Blob, and the places of its values."""

import numpy as np
import pytest

from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape
from syncblob.caffe.messages.blob_index import MessageIndex, static_cast
from syncblob.caffe.messages.wire import Buffer, WireReader, length_header
from syncblob.errors import ModelFileError


def index(data):
    parsed = MessageIndex(WireReader(Buffer(data)), BlobProto)
    return parsed.blob(parsed.message)


def read(values, data, dtype):
    array = np.empty(values.count, dtype)
    values.read_into(Buffer(data), array)
    return array.tolist()


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


# --- shape ----------------------------------------------------------------------------------------


def test_shape_message():
    found = index_message(shape=[2, 3], data=range(6))
    assert (found.shape, found.legacy, found.dtype) == ((2, 3), False, np.float32)
    assert found.diff is None


def test_without_a_shape_there_are_no_axes_and_one_value():
    assert index_message(data=[7]).shape == ()
    with pytest.raises(ModelFileError, match=r"shape \(\) needs 1 values of data, got 2"):
        index_message(data=[7, 8])
    with pytest.raises(ModelFileError, match="needs 1 values of data, got 0: perhaps"):
        index(b"")


def test_legacy_dims_beat_the_shape():
    found = index_message(shape=[7, 7], num=1, channels=2, height=3, width=1, data=range(6))
    assert (found.shape, found.legacy) == ((1, 2, 3, 1), True)


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("value", [0, 5])
def test_one_legacy_dim_makes_the_others_zero(axis, value):
    name = ["num", "channels", "height", "width"][axis]
    expected = tuple(value if other == axis else 0 for other in range(4))
    assert index_message(**{name: value}, shape=[3]).shape == expected


def test_absent_legacy_dims_are_one_if_there_are_values():
    mean = {"channels": 3, "height": 2, "width": 2}
    found = index_message(**mean, data=range(12))
    assert (found.shape, found.legacy) == ((1, 3, 2, 2), True)
    assert index_message(width=3, double_data=range(3)).shape == (1, 1, 1, 3)
    with pytest.raises(ModelFileError, match=r"\(1, 3, 2, 2\) needs 12 values of data, got 11"):
        index_message(**mean, data=range(11))
    with pytest.raises(ModelFileError, match=r"\(0, 3, 2, 2\) needs 0 values of data, got 12"):
        index_message(num=0, **mean, data=range(12))


DIMS = b"\x10\x01\x18\x01\x20\x01"


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        (b"\x08\x09" + DIMS + b"\x08\x02" + packed(1, 2), (2, 1, 1, 1)),  # the last num counts
        (b"\x08" + b"\xff" * 9 + b"\x01" + DIMS + b"\x08\x01" + packed(1), (1, 1, 1, 1)),
        (b"\x08\x82\x80\x80\x80\x10" + DIMS + packed(1, 2), (2, 1, 1, 1)),  # its low 32 bits
        (b"\x3a\x03\x0a\x01\x02" + packed(*range(6)) + b"\x3a\x02\x08\x03", (2, 3)),
    ],
)
def test_dims_that_occur_twice_or_are_too_long(data, shape):
    assert index(data).shape == shape


@pytest.mark.parametrize(
    "dims",
    [
        b"\x0a\x03\x02\x03\x04",
        b"\x08\x02\x08\x03\x08\x04",
        b"\x0a\x01\x02\x08\x03\x0a\x01\x04",
        b"\x0a\x02\x02\x03\x12\x01x\x0a\x01\x04",
        b"\x08\x82\x00\x0a\x04\x83\x80\x00\x04",
        b"\x13\x14\x15\x00\x00\x00\x00\x0a\x03\x02\x03\x04",
    ],
)
def test_layouts_of_the_dims(dims):
    assert index(length_header(7, len(dims)) + dims + packed(*range(24))).shape == (2, 3, 4)


@pytest.mark.parametrize(
    "fields",
    [
        {"shape": [2, -3]},
        {"num": -1, "channels": 1, "height": 1, "width": 1},
        {"shape": [2**62, 2**62, 0]},
        {"shape": [1] * 65, "data": [1]},
    ],
)
def test_impossible_shapes(fields):
    with pytest.raises(ModelFileError, match="the message is damaged"):
        index_message(**fields)


def test_as_many_axes_as_a_blob_can_have():
    assert index_message(shape=[1] * 64, data=[1]).shape == (1,) * 64
    with pytest.raises(ModelFileError, match="at most 64 axes"):
        index_message(shape=[2**40] * 1_000_000)


def test_a_negative_shape_that_does_not_count_is_no_error():
    legacy = dict.fromkeys(("num", "channels", "height", "width"), 1)
    assert index_message(shape=[-1], **legacy, data=[1]).shape == (1, 1, 1, 1)


# --- values ---------------------------------------------------------------------------------------


def values_of(data):
    return read(index(data).data, data, np.float32)


SHAPE_4 = b"\x3a\x02\x08\x04"


@pytest.mark.parametrize(
    "pieces",
    [
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
    ],
)
def test_layouts_of_the_values(pieces):
    assert values_of(SHAPE_4 + pieces) == [1, 2, 3, 4]
    assert values_of(pieces + SHAPE_4) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("field", "name"),
    [
        (b"\x0a\x01\x02", r"field 1 \(num\) has wire type LENGTH"),
        (b"\x25" + bytes(4), r"field 4 \(width\) has wire type FIXED32"),
        (b"\x28\x05", r"field 5 \(data\) has wire type VARINT"),
        (b"\x29" + bytes(8), r"field 5 \(data\) has wire type FIXED64"),
        (b"\x33\x34", r"field 6 \(diff\) has wire type GROUP_START"),
        (b"\x38\x04", r"field 7 \(shape\) has wire type VARINT"),
        (b"\x3a\x05\x0d" + bytes(4), r"field 1 \(dim\) has wire type FIXED32"),
        (b"\x45" + bytes(4), r"field 8 \(double_data\) has wire type FIXED32"),
    ],
)
def test_a_field_of_caffes_with_another_wire_type_is_named(field, name):
    """protobuf would skip it, and the rest would be taken for all that there is."""
    for data in (SHAPE_4 + packed(1, 2, 3, 4) + field, field + SHAPE_4 + packed(1, 2, 3, 4)):
        BlobProto.FromString(data)
        with pytest.raises(ModelFileError, match=name + r".*a fork of Caffe"):
            values_of(data)


def test_a_long_row_of_unpacked_values_is_read_whole():
    count = 100_000
    row = np.empty(count, [("tag", "u1"), ("value", "<f4")])
    row["tag"], row["value"] = 0x2D, np.arange(count)
    assert values_of(row.tobytes() + b"\x3a\x04\x08\xa0\x8d\x06") == list(range(count))


RAW = {"raw_data": b"\0\0", "raw_data_type": BlobProto.FLOAT16}
RAW_DIFF = {"raw_diff": b"\0\x3c", "raw_diff_type": BlobProto.FLOAT16}


@pytest.mark.parametrize(
    ("fields", "data", "diff"),
    [
        ({"data": [1, 2], "double_data": [4]}, "f8", None),
        ({"data": [1], "double_diff": [4], "diff": [1, 2]}, "f4", "f8"),
        ({"data": [1], **RAW}, "f4", None),
        ({"double_data": [1], **RAW}, "f8", None),
        ({**RAW}, "f2", None),
        ({"data": [1], **RAW_DIFF}, "f4", "f2"),
    ],
)
def test_the_values_that_count(fields, data, diff):
    found = index_message(**fields)
    assert (found.data.dtype, found.data.count) == (data, 1)
    assert (found.diff and found.diff.dtype) == diff
    assert found.dtype == max(data, diff or data)


def test_an_empty_double_list_is_absent():
    assert index(b"\x42\x00" + packed(1)).dtype == np.float32


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"data": [1]}, "needs 2 values of data, got 1: the shape or the values"),
        ({"data": [1, 2, 3]}, "needs 2 values of data, got 3"),
        ({"data": [1, 2], "double_data": [1]}, "needs 2 values of data, got 1"),
        ({"data": [1, 2], "diff": [1]}, "needs 2 values of diff, got 1"),
        ({"data": [1, 2], "diff": [1, 2], "double_diff": [1]}, "values of diff, got 1"),
        ({}, "needs 2 values of data, got 0: perhaps a net without weights"),
    ],
)
def test_values_that_do_not_fit_the_shape(fields, words):
    with pytest.raises(ModelFileError, match=words) as caught:
        index_message(shape=[2], **fields)
    assert caught.value.offset == 0


@pytest.mark.parametrize(("number", "width"), [(5, 4), (6, 4), (8, 8), (9, 8)])
def test_packed_lists_hold_whole_values(number, width):
    data = length_header(number, 3 * width - 1) + bytes(3 * width - 1)
    with pytest.raises(
        ModelFileError, match=f"not a whole number of {width}-byte values"
    ) as caught:
        index(data)
    assert caught.value.offset == 2


def test_zero_size():
    found = index_message(shape=[0, 5])
    assert (found.shape, found.data.count, read(found.data, b"", "f4")) == ((0, 5), 0, [])
    with pytest.raises(ModelFileError, match=r"shape \(0, 5\) needs 0 values of data, got 1"):
        index_message(shape=[0, 5], data=[1])


# --- conversion -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("int32", [1, -1, 0, 0]),
        ("int8", [1, -1, 0, 0]),
        ("bool", [True, True, True, False]),
        ("float64", [1.9, -1.9, 0.5, 0]),
        ("complex64", [1.9, -1.9, 0.5, 0]),
    ],
)
def test_conversion_is_that_of_c(dtype, expected):
    values = static_cast(np.array([1.9, -1.9, 0.5, -0.0]), dtype)
    assert values.dtype == dtype
    assert values.tolist() == pytest.approx(expected)


@pytest.mark.filterwarnings("error")
def test_conversion_gives_no_warnings():
    values = static_cast(np.array([1e300, -1e300, np.nan, np.inf]), "float32")
    np.testing.assert_array_equal(values, np.array([np.inf, -np.inf, np.nan, np.inf], "float32"))
    assert static_cast(np.array([np.nan, 1e300]), "int32").dtype == np.int32


# --- NVCaffe's raw values -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(BlobProto.DOUBLE, "<f8"), (BlobProto.FLOAT, "<f4"), (BlobProto.FLOAT16, "<f2")],
)
def test_raw_values(kind, dtype):
    data, diff = np.arange(3, dtype=dtype), np.arange(3, 6, dtype=dtype)
    message = BlobProto(
        shape=BlobShape(dim=[3]),
        raw_data=data.tobytes(),
        raw_data_type=kind,
        raw_diff=diff.tobytes(),
        raw_diff_type=kind,
    ).SerializeToString()
    # The values may begin at any byte: an unknown field of three bytes is in front.
    for content in (message, b"\x80\x01\x00" + message):
        found = index(content)
        assert found.dtype == np.dtype(dtype).newbyteorder("=")
        assert read(found.data, content, found.dtype) == [0, 1, 2]
        assert read(found.diff, content, np.float32) == [3, 4, 5]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "in field 10; got none that is known"),
        ({"raw_data_type": BlobProto.INT}, "in field 10; got type 3"),
        ({"raw_diff_type": BlobProto.FLOAT}, "in field 10; got none that is known"),
        ({"raw_data_type": BlobProto.FLOAT16}, "3 bytes, which is not a whole number of 2-byte"),
    ],
)
def test_raw_values_of_no_known_type(fields, words):
    with pytest.raises(ModelFileError, match=words):
        index_message(raw_data=b"abc", **fields)


def test_raw_values_that_do_not_fill_the_shape():
    with pytest.raises(ModelFileError, match=r"shape \(2,\) needs 2 values of data, got 1"):
        index_message(shape=[2], raw_data=b"\0\0", raw_data_type=BlobProto.FLOAT16)
