"""Strings that may not be UTF-8, such as names in GBK, and other properties of fields.

Caffe accepts any bytes. Here such a string is a str with a lone surrogate for each byte that is not
UTF-8, like a file name in Python. protobuf parses it and returns it as bytes, but does not accept
it in an assignment. protobuf in pure Python, for interpreters without a compiled wheel, does not
parse it either: its messages get an `_AnyText`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from syncblob.caffe.messages.wire import Buffer, WireReader, WireType, length_field
from syncblob.errors import ModelFileError

M = TypeVar("M", bound="Message")


class _AnyText(str):
    """A string with surrogates, which protobuf in pure Python stores, and writes as the bytes."""

    __slots__ = ()

    def encode(self, *_: str, **__: str) -> bytes:
        return super().encode(errors="surrogateescape")


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
    try:
        message.MergeFromString(content)
    except UnicodeDecodeError:
        message.ClearField(name)
        _merge(message, content)


def parse(kind: type[M], content: bytes) -> M:
    """Parse a message whose strings may have any encoding. Raises DecodeError if it is damaged."""
    try:
        return kind.FromString(content)
    except UnicodeDecodeError:
        message = kind()
        _merge(message, content)
        return message


def _merge(message: Any, content: bytes) -> None:
    """Merge the fields of a message one by one into another one, of the same type."""
    begin = 0
    for found in WireReader(Buffer(content)).fields(0, len(content)):
        field = message.DESCRIPTOR.fields_by_number.get(found.number)
        kind = field.type if field and found.wire_type is WireType.LENGTH else None
        payload, whole = content[found.start : found.stop], content[begin : found.stop]
        begin = found.stop
        if kind not in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE):
            message.MergeFromString(whole)
            continue
        many, value = isinstance(field.default_value, list), getattr(message, field.name)
        if kind == FieldDescriptor.TYPE_MESSAGE:
            value = value.add() if many else value
            value.SetInParent()
            _merge(value, payload)
        elif many:
            value.append(_AnyText(payload, errors="surrogateescape"))
        else:
            setattr(message, field.name, _AnyText(payload, errors="surrogateescape"))


def unknown_fields(message: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the fields without a name, such as ``"layer.pooling_param.13"``."""
    unknown = UnknownFieldSet(message)
    yield from (f"{path}{unknown[at].field_number}" for at in range(len(unknown)))
    for field, value in message.ListFields():
        if field.name == _CLIP and _is_of_fork(message):
            yield f"{path}{field.number}"
        elif field.message_type is not None:
            for part in [value] if hasattr(value, "DESCRIPTOR") else value:
                yield from unknown_fields(part, f"{path}{field.name}.")


_CLIP = "clip_param"
"""The only settings with required fields. Forks give its number to others."""


def _is_of_fork(layer: Any) -> bool:
    """Return whether the number of clip_param has the settings of a fork, such as OpenPose's."""
    clip = layer.HasField(_CLIP) and not layer.clip_param.IsInitialized()
    return clip and layer.type != "Clip"


def without_fork_settings(message: M) -> M:
    """Return a net or a layer without settings of forks under the name of Caffe's."""
    if message.IsInitialized():
        return message
    own: Any = copy.deepcopy(message)
    for layer in getattr(own, "layer", [own]):
        if _CLIP in layer.DESCRIPTOR.fields_by_name and _is_of_fork(layer):
            layer.ClearField(_CLIP)
    return own  # type: ignore[no-any-return]  # a copy of the message


def require_complete(message: Any) -> None:
    """Raise ValueError if fields are missing that Caffe's ``.proto`` file requires."""
    if missing := without_fork_settings(message).FindInitializationErrors():
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
