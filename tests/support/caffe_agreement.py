"""The scanner and protobuf, side by side: both accept or both refuse, and find the same bits.

Known differences, all of them meant: the scanner refuses shapes of more than 64 axes, and what is
recognised as a message of another type; protobuf 7 lets field number 0 pass within a group, which
other releases and Caffe do not.
"""

from __future__ import annotations

import numpy as np
import pytest
from caffe_oracle import (
    LEGACY,
    LISTS,
    WIDTHS,
    BlobProto,
    Contents,
    NetParameter,
    RefusedError,
    as_caffe_chooses,
    contents_of,
    net_as_caffe_reads_it,
)
from google.protobuf.internal import api_implementation
from google.protobuf.message import DecodeError

from syncblob.caffe._blob_index import Values, _find_parts, index_blob
from syncblob.caffe._model_index import index_model
from syncblob.caffe._wire import WireReader
from syncblob.errors import ModelFileError

needs_upb = pytest.mark.skipif(
    api_implementation.Type() != "upb",
    reason="protobuf's pure Python parser ignores fields whose tag is longer than it need be",
)

RAW = {10: "raw_data_type", 11: "raw_diff_type", 12: "raw_data", 13: "raw_diff"}
DIFFERENCES = (
    "got 0:",
    "at most 64 axes",
    "this is one blob",
    "this is the state of a solver",
    # Of a tag or a length; older releases of protobuf take longer ones.
    "has over 5 bytes",
)


def is_meant(error):
    """Tell whether the scanner may refuse what protobuf accepts."""
    return any(words in str(error) for words in DIFFERENCES)


def check_blob(data):
    """Compare the two on a BlobProto, and with what Caffe makes of it."""
    buffer = np.frombuffer(data, np.uint8)
    try:
        expected = contents_of(BlobProto.FromString(data))
    except DecodeError:
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
    chosen = as_caffe_chooses(expected)
    if chosen is None:
        with pytest.raises(ModelFileError):
            index_blob(WireReader(buffer), 0, len(data))
        return
    assert values_of(index_blob(WireReader(buffer), 0, len(data)), buffer) == chosen


def check_net(data):
    """Compare the two on a NetParameter, and with what Caffe makes of it."""
    buffer = np.frombuffer(data, np.uint8)
    try:
        net = NetParameter.FromString(data)
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
    assert (as_bytes(found.name), found.version) == (net.name, version)
    assert len(found.layers) == len(layers)
    for layer, expected in zip(found.layers, layers, strict=True):
        assert as_bytes(layer.name) == expected.name
        assert as_bytes(layer.type) == expected.type
        assert [as_bytes(name) for name in layer.bottoms] == expected.bottoms
        assert [as_bytes(name) for name in layer.tops] == expected.tops
        assert [values_of(blob, buffer) for blob in layer.blobs] == expected.blobs


def as_bytes(text):
    return text.encode(errors="surrogateescape")


def values_of(index, buffer):
    """Return shape, dtype, data and diff that were found."""
    diff = b"" if index.diff is None else index.diff.read(buffer, index.diff.dtype).tobytes()
    data = index.data.read(buffer, index.data.dtype).tobytes()
    return index.shape, index.dtype.name, data, diff


def contents_by_scanner(data):
    """Return all parts of a BlobProto."""
    buffer = np.frombuffer(data, np.uint8)
    parts = _find_parts(WireReader(buffer), 0, len(data), 0)
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
