"""The nested lists, tuples and dicts that arguments and results come in."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["NESTED", "instances", "replaced"]

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
    items = [replaced(item, kind, replace) for item in x]
    if all(map(operator.is_, items, x)):
        return x
    if isinstance(x, list):
        return items
    # The constructor of a named tuple takes the fields one by one.
    return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
