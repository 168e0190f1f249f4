"""Protobuf's wire format, written out by hand, in a BlobProto, whose values are in field 5 or 8."""

import numpy as np
import pytest

from syncblob import Blob, ModelFileError, read_blob
from syncblob.caffe.messages.wire import length_field, varint


def shape(*dims):
    return length_field(7, length_field(1, b"".join(map(varint, dims))))


@pytest.mark.parametrize(("tag", "kind"), [(b"\x2d", "<f4"), (b"\x41", "<f8")])
@pytest.mark.parametrize("records", [1, 2, 15, 16, 17, 18, 47, 48, 49, 1000, 300_000])
def test_values_that_are_not_packed(tag, kind, records):
    values = np.arange(records, dtype=kind)
    rows = b"".join(tag + value.tobytes() for value in values)
    assert np.array_equal(Blob.from_proto(rows + shape(records)), values)
    # A run ends at another tag, too.
    parts = rows[: (1 + values.itemsize)] + shape(records) + rows[(1 + values.itemsize) :]
    assert np.array_equal(Blob.from_proto(parts), values)


def test_a_run_ends_where_the_message_does():
    with pytest.raises(ModelFileError, match="claims 4 bytes"):
        Blob.from_proto((b"\x2d" + bytes(4)) * 3 + b"\x2d\x00")


@pytest.mark.parametrize(
    ("data", "offset", "words"),
    [
        (b"\x00\x00", 0, "field number"),
        (b"\x08\x01\x02\x00", 2, "field number"),
        (b"\x88\x80\x80\x80\x10\x00", 0, "field number"),
        (b"\x0e", 0, "field 1 has wire type 6"),
        (b"\x0f", 0, "field 1 has wire type 7"),
        (b"\xaa", 0, "number that starts here does not end: the message is truncated"),
        (b"\x08\x80", 1, "number that starts here does not end: the message is truncated"),
        (b"\x08" + b"\x80" * 10 + b"\x01", 1, "over 10 bytes"),
        (b"\x88" + b"\x80" * 4 + b"\x00\x01", 0, "over 5 bytes"),
        (b"\x2a\x84" + b"\x80" * 4 + b"\x00abcd", 1, "over 5 bytes"),
        (b"\x2a\x05abc", 2, "field 5 claims 5 bytes from byte 2 on, but only 3 are there"),
        (b"\x2a\xff\xff\xff\xff\x07", 6, "claims 2147483647 bytes"),
        (b"\x2d\x00\x00", 1, "field 5 claims 4 bytes from byte 1 on, but only 2 are there"),
        (b"\x41" + bytes(7), 1, "field 8 claims 8 bytes from byte 1 on, but only 7 are there"),
        (b"\x7b", 0, "field 15 is a group"),
        (b"\x08\x01\x7c", 2, "field 15 is a group"),
    ],
)
def test_what_protobuf_refuses(data, offset, words):
    with pytest.raises(ModelFileError, match=words) as caught:
        Blob.from_proto(data)
    assert caught.value.offset == offset


def test_a_field_may_not_leave_its_message():
    with pytest.raises(ModelFileError, match="the message around it ends at byte 4"):
        Blob.from_proto(b"\x3a\x02\x0a\x03abc")


def test_no_field_has_2_gib(tmp_path):
    path = tmp_path / "huge.binaryproto"
    path.write_bytes(b"\x2a" + varint(2**31))
    with path.open("r+b") as file:
        file.truncate(2**32)  # a hole, which takes no room
    with pytest.raises(ModelFileError, match="claims 2147483648 bytes, protobuf allows 2147483647"):
        read_blob(path)
