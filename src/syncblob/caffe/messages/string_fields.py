"""Strings that may not be UTF-8, such as names in GBK, and other properties of fields.

Caffe accepts any bytes. Here such a string is a str with a lone surrogate for each byte that is not
UTF-8, like a file name in Python. protobuf parses it and returns it as bytes, but does not accept
it in an assignment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from google.protobuf.unknown_fields import UnknownFieldSet

from syncblob.caffe.messages.wire import length_field
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from google.protobuf.message import Message


def decoded(text: str | bytes) -> str:
    """Return a string that protobuf may have returned as bytes."""
    return text.decode(errors="surrogateescape") if isinstance(text, bytes) else text


def encoded(text: str | bytes) -> bytes:
    """Return the bytes of a string in a file."""
    return text if isinstance(text, bytes) else text.encode(errors="surrogateescape")


def add_texts(message: Message, name: str, texts: Iterable[str | bytes]) -> None:
    """Append strings to a repeated field, or set a singular field to the last of them."""
    number = message.DESCRIPTOR.fields_by_name[name].number
    message.MergeFromString(b"".join(length_field(number, encoded(text)) for text in texts))


def put_texts(message: Message, name: str, texts: Iterable[str | bytes]) -> None:
    """Set a field to strings."""
    message.ClearField(name)
    add_texts(message, name, texts)


def unknown_fields(message: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the fields without a name, such as ``"layer.pooling_param.13"``.

    They are those of forks of Caffe. Enum values that Caffe lacks are among them.
    """
    unknown = UnknownFieldSet(message)
    yield from (f"{path}{unknown[at].field_number}" for at in range(len(unknown)))
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if hasattr(value, "DESCRIPTOR") else value:
                yield from unknown_fields(part, f"{path}{field.name}.")


def require_complete(message: Any) -> None:
    """Raise ValueError if fields are missing that Caffe's ``.proto`` file requires."""
    if missing := message.FindInitializationErrors():
        raise ValueError(
            f"expected the fields {', '.join(missing)}, without which Caffe opens no file; set them"
        )


@contextlib.contextmanager
def naming(place: str) -> Iterator[None]:
    """Prefix the message of an error with a place."""
    try:
        yield
    except ModelFileError:
        raise  # the message already names the file and the place
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{place}: {error}") from error
