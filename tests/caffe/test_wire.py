"""The scanner, tested with wire format that is written out by hand."""

import pytest

from syncblob.caffe._pb.caffe_pb2 import BlobShape
from syncblob.caffe.messages.wire import Buffer, WireReader, varint
from syncblob.errors import ModelFileError


def scan(data, start=0, stop=None):
    return list(WireReader(Buffer(data)).fields(start, len(data) if stop is None else stop))


@pytest.mark.parametrize(("tag", "width"), [(b"\x2d", 4), (b"\x41", 8)])
@pytest.mark.parametrize("records", [1, 2, 15, 16, 17, 18, 47, 48, 49, 1000, 300_000])
def test_a_row_of_unpacked_values_is_one_run(tag, width, records):
    record = tag + b"\x2d" * width
    data = b"\x08\x01" + record * records + b"\x08\x02"
    _, run, _ = scan(data)
    assert (run.records, run.stride) == (records, width + 1)
    assert (run.start, run.stop) == (3, len(data) - 2)


def test_a_run_ends_where_the_message_or_the_tag_does():
    record = b"\x2d" + bytes(4)
    assert [field.records for field in scan(record * 9, 0, 20)] == [4]
    fields = scan(record * 20 + (b"\x35" + bytes(4)) * 30)
    assert [(field.number, field.records) for field in fields] == [(5, 20), (6, 30)]
    fields = WireReader(Buffer(record * 3 + b"\x2d\x00")).fields(0, 17)
    assert next(fields).records == 3
    with pytest.raises(ModelFileError, match="claims 4 bytes"):
        next(fields)


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
        scan(data)
    assert caught.value.offset == offset


def test_a_field_may_not_leave_its_message():
    with pytest.raises(ModelFileError, match="the message around it ends at byte 4"):
        scan(b"\x2a\x03abcdef", 0, 4)


class HugeFile:
    """A stand-in for a file of more than 2 GiB that begins with a few given bytes."""

    def __init__(self, head):
        self._head = head

    def __len__(self):
        return 2**32

    def read(self, start, stop):
        return memoryview(self._head)[start:stop]


def test_no_field_has_2_gib():
    data = b"\x2a" + varint(2**31)
    reader = WireReader(HugeFile(data))
    with pytest.raises(ModelFileError, match="claims 2147483648 bytes, protobuf allows 2147483647"):
        list(reader.fields(0, 2**32))
    reader = WireReader(HugeFile(b"\x2a" + varint(2**31 - 1)))
    assert next(reader.fields(0, 2**32)).stop == 2**31 + 5


def test_errors_say_where_they_happened():
    reader = WireReader(Buffer(b"\x2a\x05abc"), "net.caffemodel")
    reader.layer = "conv1"
    with pytest.raises(ModelFileError, match="the file is truncated") as caught:
        list(reader.fields(0, 5))
    assert (caught.value.path, caught.value.layer) == ("net.caffemodel", "conv1")
    assert str(caught.value).startswith("net.caffemodel, layer 'conv1', byte 2: ")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31 - 1, 2**63 - 1])
def test_varint_encodes_what_protobuf_decodes(value):
    assert BlobShape.FromString(b"\x08" + varint(value)).dim == [value]
