"""Any network definition comes back from its text as it was."""

from __future__ import annotations

import tempfile
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given, settings
from hypothesis import strategies as st

from syncblob.caffe import read_prototxt, write_prototxt
from syncblob.caffe._pb.caffe_pb2 import NetParameter

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SCALARS = {
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_FLOAT: st.floats(width=32, allow_nan=False),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(allow_nan=False),
}
LEVELS = 3
MOST_FIELDS = 4


def scalars(field):
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return st.binary(max_size=5) if field.type == FieldDescriptor.TYPE_BYTES else TEXT
    return SCALARS[field.cpp_type]


def fill(message, data, levels=LEVELS):
    """Set some fields of a message, and of messages in it."""
    fields = [
        field
        for field in message.DESCRIPTOR.fields
        if levels or field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE
    ]
    if not fields:
        return
    for field in data.draw(st.lists(st.sampled_from(fields), unique=True, max_size=MOST_FIELDS)):
        value = getattr(message, field.name)
        is_repeated = hasattr(value, "extend")
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            inner = value.add() if is_repeated else value
            inner.SetInParent()
            fill(inner, data, levels - 1)
        elif is_repeated:
            value.extend(data.draw(st.lists(scalars(field), max_size=3)))
        else:
            setattr(message, field.name, data.draw(scalars(field)))


@settings(max_examples=150)
@given(data=st.data())
def test_what_is_written_is_read(data):
    net = NetParameter()
    fill(net, data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.prototxt")
        write_prototxt(net, path)
        assert read_prototxt(path) == net
        before = path.read_bytes()
        write_prototxt(read_prototxt(path), path)
        assert path.read_bytes() == before
