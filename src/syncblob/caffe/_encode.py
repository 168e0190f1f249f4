"""Writing the pieces of protobuf's wire format that hold arrays."""

from __future__ import annotations

from syncblob.caffe._wire import WireType

__all__ = ["length_header", "varint"]


def varint(value: int) -> bytes:
    """Encode a non-negative integer."""
    encoded = bytearray()
    while value >> 7:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def length_header(number: int, length: int) -> bytes:
    """Encode what stands in front of `length` bytes that are the payload of a field."""
    return varint(number << 3 | WireType.LENGTH) + varint(length)
