"""The scanner and protobuf agree on messages that no sane program writes."""

from __future__ import annotations

import struct

import pytest
from caffe_agreement import check_blob, check_net, needs_upb
from caffe_mutations import COUNT
from caffe_oracle import (
    LISTS,
    BlobProto,
    Contents,
    NetParameter,
    as_caffe_chooses,
    contents_of,
    net_as_caffe_reads_it,
)
from caffe_strategies import damaged, heaps, nets, valid_messages
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = needs_upb

# Ten times as many in the nightly tier.
MORE = max(1, COUNT // 10_000)


@settings(max_examples=300 * MORE, deadline=None)
@given(valid_messages())
def test_wild_layouts(data):
    check_blob(data)
    assert as_caffe_chooses(contents_of(BlobProto.FromString(data))) is not None


@settings(max_examples=200 * MORE, deadline=None)
@given(heaps())
def test_heaps_of_fields(data):
    check_blob(data)


@settings(max_examples=400 * MORE, deadline=None)
@given(damaged(st.one_of(valid_messages(), heaps())))
def test_damaged_messages(data):
    check_blob(data)


@settings(max_examples=300 * MORE, deadline=None)
@given(st.binary(max_size=40))
def test_random_bytes(data):
    check_blob(data)
    check_net(data)


@settings(max_examples=200 * MORE, deadline=None)
@given(nets())
def test_nets_of_all_formats(data):
    check_net(data)
    NetParameter.FromString(data)


@settings(max_examples=300 * MORE, deadline=None)
@given(damaged(nets()))
def test_damaged_nets(data):
    check_net(data)


def test_the_model_of_caffes_choice_is_no_copy_of_the_index():
    """Facts of `FromProto` by hand, so that the model above cannot be wrong in the same way."""
    one, two, half = struct.pack("<f", 1), struct.pack("<d", 2), struct.pack("<e", 3)
    lists = dict.fromkeys(LISTS.values(), b"") | {"data": one}
    assert as_caffe_chooses(Contents({"width": 1}, [1], lists)) is None
    chosen = as_caffe_chooses(Contents({}, [1], lists | {"double_data": two}))
    assert chosen == ((1,), "float64", two, b"")
    lists["data"] = b""
    raw = Contents({}, [1], lists, {"raw_data_type": 2}, {"raw_data": half})
    assert as_caffe_chooses(raw) == ((1,), "float16", half, b"")
    raw.raw_types.clear()
    assert as_caffe_chooses(raw) is None


def test_the_model_of_caffes_upgrade_is_no_copy_of_the_index():
    """A padding layer in front of a convolution, and a layer of the next format, by hand."""
    conv = b"\x0a\x0b\x0a\x03one\x12\x04conv\x12\x03pad\x1a\x03out"
    padding = b"\x0a\x09\x12\x07padding\x12\x02in\x1a\x03pad"
    later = b"\x22\x04name"
    data = b"".join(b"\x12" + bytes([len(part)]) + part for part in (padding, conv, later))
    version, layers = net_as_caffe_reads_it(NetParameter.FromString(data))
    assert (version, len(layers)) == (0, 2)
    assert (layers[0].name, layers[0].type, layers[0].bottoms) == (b"one", b"Convolution", [b"in"])
    assert (layers[1].name, layers[1].type) == (b"", b"")
    check_net(data)


def test_both_refuse_what_is_cut_off():
    data = b"\xa2\x06\x05\x0a\x04abc"
    with pytest.raises(DecodeError):
        NetParameter.FromString(data)
    check_net(data)
