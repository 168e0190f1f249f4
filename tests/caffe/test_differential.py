"""The scanner and protobuf agree on unusual messages."""

import struct

import pytest
from caffe_agreement import check_blob, check_net, needs_upb
from caffe_mutations import damaged_files, mutated
from caffe_oracle import (
    LISTS,
    BlobProto,
    Contents,
    NetParameter,
    as_caffe_chooses,
    contents_of,
)
from caffe_strategies import heaps, nets, valid_messages
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = needs_upb

# The number of damaged files that take about as long as one example.
FILES = 8


def check_valid_blob(data):
    check_blob(data)
    assert as_caffe_chooses(contents_of(BlobProto.FromString(data))) is not None


def check_valid_net(data):
    check_net(data)
    NetParameter.FromString(data)


def check_both(data):
    check_blob(data)
    check_net(data)


def damaged(messages):
    return st.builds(
        lambda damage, message: mutated(damage, [message]),
        st.randoms(use_true_random=False),
        messages,
    )


@damaged_files
@pytest.mark.parametrize(
    ("examples", "check"),
    [
        pytest.param(valid_messages(), check_valid_blob, id="wild layouts"),
        pytest.param(heaps(), check_blob, id="heaps of fields"),
        pytest.param(
            damaged(st.one_of(valid_messages(), heaps())), check_blob, id="damaged messages"
        ),
        pytest.param(st.binary(max_size=40), check_both, id="random bytes"),
        pytest.param(nets(), check_valid_net, id="nets of all formats"),
        pytest.param(damaged(nets()), check_net, id="damaged nets"),
    ],
)
def test_the_scanner_agrees_with_protobuf(examples, check, count):
    @settings(max_examples=max(30, count // FILES))
    @given(examples)
    def agree(data):
        check(data)

    agree()


def test_the_model_of_caffes_choice_is_no_copy_of_the_index():
    """Facts of `FromProto`, written by hand, so that the model cannot share errors of the index."""
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
