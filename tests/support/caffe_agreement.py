"""Compares the scanner with protobuf: both accept or both refuse, and find the same bits.

Known and intended differences: the scanner refuses shapes of more than 64 axes, files that it
recognises as messages of another type, and Caffe's fields with another wire type than Caffe's. It
takes absent dimensions of the older formats as 1 if there are values, which Caffe refuses. protobuf
7 accepts field number 0 within a group, unlike other releases and Caffe.
"""

import numpy as np
import pytest
from caffe_oracle import (
    LEGACY,
    LISTS,
    WIDTHS,
    BlobProto,
    BlobProtoVector,
    Contents,
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

from syncblob.caffe import read_blobs
from syncblob.caffe.files.model_index import index_model
from syncblob.caffe.files.solver_state import open_solver_state
from syncblob.caffe.messages.blob_index import Values, find_parts, index_blob
from syncblob.caffe.messages.disk import OpenFile
from syncblob.caffe.messages.lazy import origin_of
from syncblob.caffe.messages.texts import encoded
from syncblob.caffe.messages.wire import WireReader
from syncblob.caffe.nets.layer import serialised
from syncblob.errors import ModelFileError

needs_upb = pytest.mark.skipif(
    api_implementation.Type() != "upb",
    reason="protobuf's pure Python parser ignores fields whose tag is longer than it need be",
)

RAW = {10: "raw_data_type", 11: "raw_diff_type", 12: "raw_data", 13: "raw_diff"}
# The beginnings of errors for files of another kind.
OTHER_FILES = ("this is ", "expected a file with weights", "expected a .solverstate file")
DIFFERENCES = (
    "got 0:",
    "at most 64 axes",
    "this is one blob",
    "this is the state of a solver",
    # For a tag or a length. Older releases of protobuf accept longer ones.
    "has over 5 bytes",
)


def is_meant(error):
    """Tell whether the scanner may refuse what protobuf accepts."""
    return any(words in str(error) for words in DIFFERENCES)


def check_blob(data):
    """Compare the two, and Caffe's rules, on a BlobProto."""
    buffer = np.frombuffer(data, np.uint8)
    try:
        message = BlobProto.FromString(data)
        refuse_wrong_types(message)
        expected = contents_of(message)
    except (DecodeError, RefusedError):
        with pytest.raises(ModelFileError):
            contents_by_scanner(data)
        with pytest.raises(ModelFileError):
            index_blob(WireReader(buffer), 0, len(data))
        return
    try:
        assert contents_by_scanner(data) == expected
    except ModelFileError as error:
        if is_meant(error):
            return
        raise
    chosen = as_syncblob_chooses(expected)
    if chosen is None:
        with pytest.raises(ModelFileError):
            index_blob(WireReader(buffer), 0, len(data))
        return
    assert values_of(index_blob(WireReader(buffer), 0, len(data)), buffer) == chosen


def check_net(data):
    """Compare the two, and Caffe's rules, on a NetParameter."""
    buffer = np.frombuffer(data, np.uint8)
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
    assert (encoded(found.name), found.version) == (net.name, version)
    assert len(found.layers) == len(layers)
    for layer, expected in zip(found.layers, layers, strict=True):
        assert encoded(layer.proto.name) == expected.name
        assert encoded(layer.proto.type) == expected.type
        assert [encoded(name) for name in layer.proto.bottom] == expected.bottoms
        assert [encoded(name) for name in layer.proto.top] == expected.tops
        assert [values_of(blob, buffer) for blob in layer.blobs] == expected.blobs


def check_file(path):
    """Compare the index of a file, which is read piece by piece, with that of its bytes."""
    buffer = np.frombuffer(path.read_bytes(), np.uint8)
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
    layers = [(serialised(layer.proto), *layer[1:]) for layer in index.layers]
    return index.name, index.version, layers, serialised(index.settings)


def check_state(path):
    """Compare the two on a SolverState."""
    _check_blobs(path, SolverState, "history", open_solver_state)


def check_row(path):
    """Compare the two on a BlobProtoVector."""
    _check_blobs(path, BlobProtoVector, "blobs", read_blobs)


def _check_blobs(path, kind, field, read):
    data = path.read_bytes()
    buffer = np.frombuffer(data, np.uint8)
    try:
        message = kind.FromString(data)
        refuse_wrong_types(message)
        expected = blobs_as_caffe_reads_them(getattr(message, field))
    except (DecodeError, RefusedError):
        with pytest.raises(ModelFileError):
            read(path)
        return
    try:
        found = read(path)
    except ModelFileError as error:
        if is_meant(error) or str(error.message).startswith(OTHER_FILES):
            return
        raise
    blobs = found
    if kind is SolverState:
        blobs = found.history
        assert (found.iter, found.current_step) == (message.iter, message.current_step)
        assert encoded(found.learned_net) == message.learned_net
    indexes = [origin_of(blob).index for blob in blobs]
    assert [values_of(index, buffer) for index in indexes] == expected
    for blob, index in zip(blobs, indexes, strict=True):
        data = index.data.read(buffer, blob.dtype)
        np.testing.assert_array_equal(blob.cpu_data().ravel().view("u1"), data.view("u1"))


def values_of(index, buffer):
    """Return shape, dtype, data and diff of an index."""
    diff = b"" if index.diff is None else index.diff.read(buffer, index.diff.dtype).tobytes()
    data = index.data.read(buffer, index.data.dtype).tobytes()
    return index.shape, index.dtype.name, data, diff


def contents_by_scanner(data):
    """Return all parts of a BlobProto."""
    buffer = np.frombuffer(data, np.uint8)
    parts = find_parts(WireReader(buffer), 0, len(data), depth=0)
    dtypes = {4: np.dtype("<f4"), 8: np.dtype("<f8")}
    return Contents(
        {LEGACY[number]: dim for number, dim in sorted(parts.legacy_dims.items())},
        parts.dims,
        {
            name: Values(dtypes[WIDTHS[number]], tuple(parts.runs[number]))
            .read(buffer, dtypes[WIDTHS[number]])
            .tobytes()
            for number, name in LISTS.items()
        },
        {RAW[number]: kind for number, kind in sorted(parts.raw_types.items())},
        {RAW[number]: data[raw.start : raw.stop] for number, raw in sorted(parts.raw.items())},
    )
