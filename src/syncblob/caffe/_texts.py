"""Texts in messages that need not be UTF-8, as names in GBK: Caffe takes any bytes.

Here such a text is a str with a lone surrogate for each byte that is no UTF-8, as file names are in
Python. protobuf gives it as bytes, and does not let it be assigned, but it parses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncblob.caffe._wire import length_field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.message import Message

__all__ = ["add_texts", "all_decoded", "decoded", "encoded", "put_texts", "readable"]


def decoded(text: str | bytes) -> str:
    """Return a text that protobuf may have given as bytes."""
    return text.decode(errors="surrogateescape") if isinstance(text, bytes) else text


def all_decoded(texts: Iterable[str | bytes]) -> tuple[str, ...]:
    """Return several of them."""
    return tuple(map(decoded, texts))


def encoded(text: str | bytes) -> bytes:
    """Return the bytes that a text has in a file."""
    return text if isinstance(text, bytes) else text.encode(errors="surrogateescape")


def add_texts(message: Message, name: str, texts: Iterable[str | bytes]) -> None:
    """Append texts to a repeated field; one that is not repeated has the last of them then."""
    number = message.DESCRIPTOR.fields_by_name[name].number
    message.MergeFromString(b"".join(length_field(number, encoded(text)) for text in texts))


def put_texts(message: Message, name: str, texts: Iterable[str | bytes]) -> None:
    """Set a field to texts."""
    message.ClearField(name)
    add_texts(message, name, texts)


def readable(text: str) -> str:
    """Return a text to be shown, with a replacement character for what is no UTF-8."""
    return encoded(text).decode(errors="replace")
