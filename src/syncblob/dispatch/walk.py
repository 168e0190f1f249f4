"""The nested lists, tuples and dicts that arguments and results come in."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["NESTED", "instances", "mapped", "replaced"]

NESTED = (list, tuple, dict)


def instances(x: Any, kind: type) -> Iterator[Any]:
    """Yield the instances of a class in a nested value, or the value itself if it is one."""
    if isinstance(x, kind):
        yield x
    elif isinstance(x, NESTED):
        for item in x.values() if isinstance(x, dict) else x:
            yield from instances(item, kind)


def replaced(x: Any, kind: type, replace: Callable[[Any], Any]) -> Any:
    """Replace the instances of a class in a nested value.

    Returns
    -------
    Any
        The same object where nothing has changed, otherwise a copy of the same type.
    """
    if isinstance(x, kind):
        return replace(x)
    if not isinstance(x, NESTED):
        return x
    if isinstance(x, dict):
        values = [replaced(item, kind, replace) for item in x.values()]
        changed = not all(map(operator.is_, values, x.values()))
        return dict(zip(x, values, strict=True)) if changed else x
    return _rebuilt(x, [replaced(item, kind, replace) for item in x])


def mapped(x: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to all that is in nested lists and tuples; returns as `replaced` does."""
    if not isinstance(x, (list, tuple)):
        return function(x)
    return _rebuilt(x, [mapped(item, function) for item in x])


def _rebuilt(x: list[Any] | tuple[Any, ...], items: list[Any]) -> Any:
    """Make a sequence of other items; the same object where none is another one."""
    if all(map(operator.is_, items, x)):
        return x
    if isinstance(x, list):
        return items
    # The constructor of a named tuple takes the fields one by one.
    return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
