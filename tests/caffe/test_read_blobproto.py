"""The fields of a BlobProto that define a Blob, and the places of its values."""

import struct

import numpy as np
import pytest
from caffe_agreement import (
    MESSAGES,
    as_caffe_chooses,
    blobs_as_caffe_reads_them,
    blobs_of,
    check,
    needs_upb,
)
from caffe_mutations import UNUSUAL, unusual_nets

from syncblob import Blob
from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape
from syncblob.caffe.messages.read_blobproto import MessageIndex
from syncblob.caffe.messages.wire import Buffer, WireReader
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


# --- unusual messages -----------------------------------------------------------------------------


@needs_upb
@pytest.mark.parametrize(
    ("name", "message"),
    [
        *(("BlobProto", message) for message in UNUSUAL),
        *(("NetParameter", net) for net in unusual_nets()),
    ],
)
def test_unusual_messages_are_what_protobuf_finds(name, message):
    assert blobs_as_caffe_reads_them(blobs_of(MESSAGES[name].FromString(message)))
    check(name, message)


def test_the_model_of_caffes_choice_is_no_copy_of_the_index():
    """Facts of `FromProto`, written by hand, so that the model cannot share errors of the index."""
    one, two, half = struct.pack("<f", 1), struct.pack("<d", 2), struct.pack("<e", 3)

    def chosen(**fields):
        return as_caffe_chooses(MESSAGES["BlobProto"](shape={"dim": [1]}, **fields))

    assert chosen(width=1, data=[1]) is None
    assert chosen(data=[1]) == ((1,), "float32", one, b"")
    assert chosen(data=[1], double_data=[2]) == ((1,), "float64", two, b"")
    assert chosen(raw_data_type=2, raw_data=half) == ((1,), "float16", half, b"")
    assert chosen(raw_data=half) is None


# --- shape ----------------------------------------------------------------------------------------


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


# --- conversion -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_conversion_gives_no_warnings():
    proto = BlobProto(double_data=[1e300, -1e300, np.nan, np.inf], shape=BlobShape(dim=[4]))
    values = np.asarray(Blob.from_proto(proto, "float32"))
    np.testing.assert_array_equal(values, np.array([np.inf, -np.inf, np.nan, np.inf], "float32"))
    assert Blob.from_proto(proto, "int32").dtype == np.int32
