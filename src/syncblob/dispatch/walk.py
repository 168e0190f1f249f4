"""Walks through nested lists, tuples and dicts of arguments and results."""

from __future__ import annotations

import copy
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NESTED = (list, tuple, dict)


def instances(x: Any, kind: type | tuple[type, ...]) -> Iterator[Any]:
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
        The same object if nothing has changed, otherwise a copy of the same type.
    """
    if isinstance(x, kind):
        return replace(x)
    if not isinstance(x, NESTED):
        return x
    if isinstance(x, dict):
        values = [replaced(item, kind, replace) for item in x.values()]
        changed = not all(map(operator.is_, values, x.values()))
        return dict(zip(x, values, strict=True)) if changed else x
    # The usual items, without another call.
    return _rebuilt(
        x,
        [replace(item) if isinstance(item, kind) else replaced(item, kind, replace) for item in x],
    )


def mapped(x: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to all items of nested lists and tuples; return the same as `replaced`.

    An item that is in a sequence twice has one result.
    """
    if not isinstance(x, (list, tuple)):
        return function(x)
    items = {id(item): mapped(item, function) for item in x}
    return _rebuilt(x, [items[id(item)] for item in x])


def _rebuilt(x: list[Any] | tuple[Any, ...], items: list[Any]) -> Any:
    """Return a sequence with new items; the same object if no item has changed."""
    if all(map(operator.is_, items, x)):
        return x
    if type(x) is list:
        return items
    if isinstance(x, list):
        rebuilt: Any = copy.copy(x)
        rebuilt[:] = items
        return rebuilt
    try:
        # The constructor of a subclass may take other arguments.
        rebuilt = tuple.__new__(type(x), items)
    except TypeError:
        # A structure of C, such as those of torch.return_types.
        return type(x)(items)
    if hasattr(x, "__dict__"):
        vars(rebuilt).update(vars(x))
    return rebuilt
