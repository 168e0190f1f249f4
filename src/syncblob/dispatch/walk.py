"""Nested arguments of a call: lists and tuples, and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["leaves", "mapped"]


def mapped(function: Callable[[Any], Any], x: Any) -> Any:
    """Apply a function to what is in nested lists and tuples, named ones too.

    A sequence in which nothing changes is returned itself.
    """
    if not isinstance(x, (list, tuple)):
        return function(x)
    results = [mapped(function, item) for item in x]
    if all(new is old for new, old in zip(results, x, strict=True)):
        return x
    if isinstance(x, list):
        return results
    # A named one is made of its fields.
    return type(x)(*results) if hasattr(x, "_fields") else tuple(results)


def leaves(x: Any) -> Iterator[Any]:
    """Iterate over what is in nested lists and tuples."""
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from leaves(item)
    else:
        yield x
