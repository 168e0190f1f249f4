"""Names of tensors and CuPy's arrays that Blobs do not have, and what to use instead."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Missing"]


class Missing:
    """In the place of a tensor's method that Blobs do not have: the error says what to use."""

    __slots__ = ("_advice", "_name")

    def __init__(self, advice: str) -> None:
        self._advice = advice

    def __set_name__(self, owner: type, name: str) -> None:
        """Take the name that the attribute has."""
        self._name = name

    def __get__(self, blob: Any, owner: type | None = None) -> NoReturn:
        """Raise AttributeError, with the advice."""
        raise AttributeError(f"a Blob has no attribute {self._name!r}; {self._advice}")
