"""Fields of protobuf messages: strings that may not be UTF-8, and required fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob._texts import encoded
from syncblob.caffe.messages.wire import length_field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.message import Message

__all__ = ["add_texts", "put_texts", "require_complete"]


def add_texts(message: Message, name: str, texts: Iterable[str | bytes]) -> None:
    """Append strings to a repeated field, or set a singular field to the last of them."""
    number = message.DESCRIPTOR.fields_by_name[name].number
    message.MergeFromString(b"".join(length_field(number, encoded(text)) for text in texts))


def put_texts(message: Message, name: str, texts: Iterable[str | bytes]) -> None:
    """Set a field to strings."""
    message.ClearField(name)
    add_texts(message, name, texts)


def require_complete(message: Any) -> None:
    """Raise ValueError if fields are missing that Caffe's ``.proto`` file requires."""
    if missing := message.FindInitializationErrors():
        raise ValueError(
            f"expected the fields {', '.join(missing)}, without which Caffe opens no file; set them"
        )
