"""The entries of the tables."""

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
        The function with its module, as users write it. A suffix after a space distinguishes calls.
    function
        The function to call.
    inputs, keywords
        Its arguments. All ndarrays in them, also in lists, tuples and dictionaries, become Blobs.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    keywords: Mapping[str, Any]


def call(name: str, function: Callable[..., Any], *inputs: Any, **keywords: Any) -> Call:
    """Make an entry of a table. The arguments are those of the call itself."""
    return Call(name, function, inputs, keywords)
