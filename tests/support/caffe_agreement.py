"""Compares the scanner with protobuf: both accept or both refuse, and find the same bits.

Known and intended differences: the scanner refuses shapes of more than 64 axes, files that it
recognises as messages of another type or program, and Caffe's fields with another wire type than
Caffe's. It takes absent dimensions of the older formats as 1 if there are values, which Caffe
refuses. protobuf 7 accepts field number 0 within a group, unlike other releases and Caffe.
"""

import numpy as np
import pytest
from caffe_oracle import (
    BlobProto,
    NetParameter,
    RefusedError,
    SolverState,
    as_syncblob_chooses,
    blobs_as_caffe_reads_them,
    contents_of,
    net_as_caffe_reads_it,
    refuse_wrong_types,
)
from google.protobuf.internal import api_implementation
from google.protobuf.message import DecodeError

from syncblob.caffe import open_solver_state
from syncblob.caffe._pb import caffe_pb2
from syncblob.caffe.files.model import index_model
from syncblob.caffe.messages.lazy_blobs import origin_of
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.read_blobproto import MessageIndex
from syncblob.caffe.messages.string_fields import encode_text
from syncblob.caffe.messages.wire import Buffer, WireReader
from syncblob.caffe.nets.layer import serialise
from syncblob.errors import ModelFileError

needs_upb = pytest.mark.skipif(
    api_implementation.Type() != "upb",
    reason="protobuf's pure Python parser ignores fields whose tag is longer than it need be",
)

# The beginnings of errors for files of another kind.
OTHER_FILES = ("this is ", "expected a file with blobs")
DIFFERENCES = (
    "got 0:",
    "is a group",
    "at most 64 axes",
    "this is one blob",
    "this is the state of a solver",
    "got a message of another program",
    # For a tag or a length. Older releases of protobuf accept longer ones.
    "has over 5 bytes",
)


def is_meant(error):
    """Tell whether the scanner may refuse what protobuf accepts."""
    return any(words in str(error) for words in DIFFERENCES)


def index_blob(data):
    """Return the index of a BlobProto in memory."""
    parsed = MessageIndex(WireReader(Buffer(data)), caffe_pb2.BlobProto)
    return parsed.blob(parsed.message)


def check_blob(data):
    """Compare the two, and Caffe's rules, on a BlobProto."""
    try:
        message = BlobProto.FromString(data)
        refuse_wrong_types(message)
        expected = as_syncblob_chooses(contents_of(message))
    except (DecodeError, RefusedError):
        expected = None
    try:
        found = values_of(index_blob(data), Buffer(data))
    except ModelFileError as error:
        if expected is not None and not is_meant(error):
            raise
    else:
        assert found == expected


def check_net(data):
    """Compare the two, and Caffe's rules, on a NetParameter."""
    buffer = Buffer(data)
    try:
        net = NetParameter.FromString(data)
        refuse_wrong_types(net)
        version, layers = net_as_caffe_reads_it(net)
    except (DecodeError, RefusedError):
        with pytest.raises(ModelFileError):
            index_model(WireReader(buffer))
        return
    try:
        found = index_model(WireReader(buffer))
    except ModelFileError as error:
        if is_meant(error):
            return
        raise
    found_version, found_net, found_layers = found
    assert (encode_text(found_net.name), found_version) == (net.name, version)
    assert len(found_layers) == len(layers)
    for (proto, blobs), expected in zip(found_layers, layers, strict=True):
        assert encode_text(proto.name) == expected.name
        assert encode_text(proto.type) == expected.type
        assert [encode_text(name) for name in proto.bottom] == expected.bottoms
        assert [encode_text(name) for name in proto.top] == expected.tops
        assert [values_of(blob, buffer) for blob in blobs] == expected.blobs


def check_file(path):
    """Compare the index of a file, which is read piece by piece, with that of its bytes."""
    buffer = Buffer(path.read_bytes())
    outcomes = []
    for reader in (WireReader(buffer, str(path)), None):
        try:
            if reader is None:
                with WireReader.of_file(OpenFile(path)) as of_file:
                    outcomes.append(comparable(index_model(of_file)))
            else:
                outcomes.append(comparable(index_model(reader)))
        except ModelFileError as error:
            outcomes.append((error.message, error.offset, error.layer))
    assert outcomes[0] == outcomes[1]


def comparable(index):
    """Return a tuple that equals itself, also with NaN in a setting."""
    version, net, layers = index
    return version, [(serialise(proto), blobs) for proto, blobs in layers], serialise(net)


def check_state(path):
    """Compare the two on a SolverState."""
    _check_blobs(path, SolverState, "history", open_solver_state)


def _check_blobs(path, kind, field, opens):
    data = path.read_bytes()
    buffer = Buffer(data)
    try:
        message = kind.FromString(data)
        refuse_wrong_types(message)
        expected = blobs_as_caffe_reads_them(getattr(message, field))
    except (DecodeError, RefusedError):
        with pytest.raises(ModelFileError):
            opens(path)
        return
    try:
        found = opens(path)
    except ModelFileError as error:
        if is_meant(error) or str(error.message).startswith(OTHER_FILES):
            return
        raise
    blobs = found
    if kind is SolverState:
        blobs = found.history
        assert (found.iter, found.current_step) == (message.iter, message.current_step)
        assert encode_text(found.learned_net) == message.learned_net
    indexes = [origin_of(blob).index for blob in blobs]
    assert [values_of(index, buffer) for index in indexes] == expected
    for blob, index in zip(blobs, indexes, strict=True):
        data = read(index.data, buffer, blob.dtype)
        np.testing.assert_array_equal(blob.cpu_data().ravel().view("u1"), data.view("u1"))


def read(values, buffer, dtype=None):
    """Return values of a message in memory."""
    array = np.empty(values.count, values.dtype if dtype is None else dtype)
    values.read_into(buffer, array)
    return array


def values_of(index, buffer):
    """Return shape, dtype, data and diff of an index."""
    diff = b"" if index.diff is None else read(index.diff, buffer).tobytes()
    return index.shape, index.dtype.name, read(index.data, buffer).tobytes(), diff
