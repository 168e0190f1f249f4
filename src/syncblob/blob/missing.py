"""Attributes of tensors that Blobs lack, with advice on what to use instead."""

from __future__ import annotations

from typing import Any, NoReturn


class Missing:
    """Descriptor for an attribute that Blobs lack; its error says what to use instead."""

    __slots__ = ("_advice", "_name")

    def __init__(self, advice: str) -> None:
        self._advice = advice

    def __set_name__(self, owner: type, name: str) -> None:
        """Store the name of the attribute."""
        self._name = name

    def __get__(self, blob: Any, owner: type | None = None) -> NoReturn:
        """Raise AttributeError, with the advice."""
        raise AttributeError(f"a Blob has no attribute {self._name!r}; {self._advice}")
