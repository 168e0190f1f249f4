"""What an entry of the tables is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Call", "call"]


@dataclass(frozen=True)
class Call:
    """One call of a consumer.

    Attributes
    ----------
    name
        The function with its module, as users write it; what follows a space tells two calls apart.
    function
        What is called.
    inputs, keywords
        Its arguments. Every ndarray in them, in lists, tuples and dictionaries too, becomes a Blob.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    keywords: Mapping[str, Any]


def call(name: str, function: Callable[..., Any], *inputs: Any, **keywords: Any) -> Call:
    """Make an entry of a table, written as the call itself is."""
    return Call(name, function, inputs, keywords)
