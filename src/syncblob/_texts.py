"""Strings from files that may not be UTF-8, such as names in GBK: Caffe accepts any bytes.

Here such a string is a str with a lone surrogate for each byte that is not UTF-8, like a file name
in Python. protobuf parses it and returns it as bytes, but does not accept it in an assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def decoded(text: str | bytes) -> str:
    """Return a string that protobuf may have returned as bytes."""
    return text.decode(errors="surrogateescape") if isinstance(text, bytes) else text


def all_decoded(texts: Iterable[str | bytes]) -> tuple[str, ...]:
    """Return several strings, as `decoded` does."""
    return tuple(map(decoded, texts))


def encoded(text: str | bytes) -> bytes:
    """Return the bytes of a string in a file."""
    return text if isinstance(text, bytes) else text.encode(errors="surrogateescape")


def readable(text: str) -> str:
    """Return a string for display, with replacement characters for bytes that are not UTF-8."""
    return encoded(text).decode(errors="replace")
