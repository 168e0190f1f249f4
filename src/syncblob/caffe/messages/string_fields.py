"""Strings that may not be UTF-8, such as names in GBK, and other properties of fields.

Caffe accepts any bytes. Here such a string is a str with a lone surrogate for each byte that is not
UTF-8, like a file name in Python. protobuf parses it and returns it as bytes, but does not accept
it in an assignment. protobuf in pure Python does not parse it either: UnicodeDecodeError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from syncblob.caffe.messages.wire import length_field
from syncblob.errors import ModelFileError


def decode_text(text: str | bytes) -> str:
    """Return a string that protobuf may have returned as bytes."""
    return text.decode(errors="surrogateescape") if isinstance(text, bytes) else str(text)


def encode_text(text: str | bytes) -> bytes:
    """Return the bytes of a string in a file."""
    return text if isinstance(text, bytes) else text.encode(errors="surrogateescape")


def escape(name: str) -> str:
    r"""Escape characters that are not printable."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in encode_text(name).decode(errors="replace")
    )


def put_texts(message: Message, name: str, texts: Iterable[str | bytes]) -> None:
    """Set a field to strings; a singular field to the last of them."""
    number = message.DESCRIPTOR.fields_by_name[name].number
    content = b"".join(length_field(number, encode_text(text)) for text in texts)
    message.ClearField(name)
    message.MergeFromString(content)


def unknown_fields(message: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the fields without a name, such as ``"layer.pooling_param.13"``."""
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


# --- errors ---------------------------------------------------------------------------------------


def require_type(value: object, kind: type, advice: str) -> None:
    """Raise TypeError, with advice, if an argument is of another type."""
    if not isinstance(value, kind):
        raise TypeError(f"expected a {kind.__name__}, got {type(value).__name__}; {advice}")


def require_list(values: object, what: str, one: type = str) -> None:
    """Raise TypeError if an argument is one string, array or the like in place of a list."""
    if isinstance(values, one) or hasattr(values, "shape"):
        shown = repr(values) if isinstance(values, str) else type(values).__name__
        raise TypeError(f"expected a list of {what}, got {shown}; put it in a list: [{shown}]")


@contextlib.contextmanager
def at_place(place: str) -> Iterator[None]:
    """Prefix the message of an error with a place."""
    try:
        yield
    except ModelFileError:
        raise  # the message already names the file and the place
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{place}: {error}") from error
