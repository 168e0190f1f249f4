"""Compares the scanner with protobuf: both accept or both refuse, and find the same bits.

Known and intended differences: the scanner refuses shapes of more than 64 axes, groups, and Caffe's
fields with another wire type than Caffe's. It takes absent dimensions of the older formats as 1 if
there are values, which Caffe refuses. protobuf 7 accepts field number 0 within a group, unlike
other releases and Caffe.
"""

import numpy as np
import pytest
from caffe_oracle import (
    LISTS,
    MESSAGES,
    RefusedError,
    blobs_as_caffe_reads_them,
    blobs_of,
    refuse_wrong_types,
)
from google.protobuf.internal import api_implementation
from google.protobuf.message import DecodeError

from syncblob.caffe._pb import caffe_pb2
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.read_blobproto import MessageIndex
from syncblob.caffe.messages.wire import Buffer, WireReader
from syncblob.caffe.nets.layer import serialise
from syncblob.errors import ModelFileError

needs_upb = pytest.mark.skipif(
    api_implementation.Type() != "upb",
    reason="protobuf's pure Python parser ignores fields whose tag is longer than it need be, and "
    "refuses texts that are not UTF-8",
)

DIFFERENCES = (
    "got 0:",
    "is a group",
    "at most 64 axes",
    # For a tag or a length. Older releases of protobuf accept longer ones.
    "has over 5 bytes",
)


def check(name, data, path=None):
    """Compare the two, and Caffe's rules, on a message of a name, in memory or in a file."""
    contents = Buffer(data) if path is None else OpenFile(path)
    try:
        message = MESSAGES[name].FromString(data)
        refuse_wrong_types(message)
        expected = blobs_as_caffe_reads_them(blobs_of(message))
    except (DecodeError, RefusedError):
        expected = None
    try:
        parsed = MessageIndex(WireReader(contents), getattr(caffe_pb2, name))
        found = [values_of(parsed.blob(blob), contents) for blob in blobs_of(parsed.message)]
    except ModelFileError as error:
        assert 0 <= error.offset <= len(data)  # noqa: PT017  # success is right, too
        if expected is not None and not any(words in str(error) for words in DIFFERENCES):
            raise
        return
    assert found == expected
    assert without_values(parsed.message) == without_values(message)


def values_of(index, contents):
    """Return shape, dtype, data and diff of an index."""

    def read(values):
        array = np.empty(values.count, values.dtype)
        values.read_into(contents, array)
        return array.tobytes()

    diff = b"" if index.diff is None else read(index.diff)
    return index.shape, index.dtype.name, read(index.data), diff


def without_values(message):
    """Return the other fields of a message that Caffe has, as bytes."""
    for blob in blobs_of(message):
        for field in (*LISTS.values(), "raw_data", "raw_diff"):
            blob.ClearField(field)
    message.DiscardUnknownFields()
    return serialise(message)
