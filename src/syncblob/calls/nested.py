"""Walks through nested lists, tuples and dicts of arguments and results."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

NESTED = (list, tuple, dict)


def instances(x: Any, kind: type | tuple[type, ...]) -> Iterator[Any]:
    """Yield the instances of a class in a nested value, or the value itself if it is one."""
    if isinstance(x, kind):
        yield x
    elif isinstance(x, (list, tuple, MutableMapping)):
        for item in x.values() if isinstance(x, MutableMapping) else x:
            yield from instances(item, kind)


def replace_instances(x: Any, kind: type, replace: Callable[[Any], Any]) -> Any:
    """Replace the instances of a class in a nested value; return the same as `map_items`."""
    return map_items(x, lambda item: replace(item) if isinstance(item, kind) else item)


def map_items(x: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to all items of a nested value, or to the value itself.

    Returns the same object if nothing has changed. An item that is there twice has one result.
    """
    if isinstance(x, (list, tuple)):
        items = {id(item): map_items(item, function) for item in x}
        return rebuilt(x, [items[id(item)] for item in x])
    if not isinstance(x, MutableMapping):
        return function(x)
    values = {key: map_items(item, function) for key, item in x.items()}
    if all(map(operator.is_, values.values(), x.values())):
        return x
    changed = copy.copy(x)
    changed.update(values)
    return changed


def rebuilt(x: list[Any] | tuple[Any, ...], items: list[Any]) -> Any:
    """Return a sequence with new items; the same object if no item has changed."""
    if all(map(operator.is_, items, x)):
        return x
    if type(x) is list:
        return items
    if isinstance(x, list):
        changed: Any = copy.copy(x)
        changed[:] = items
        return changed
    try:
        # The constructor of a subclass may take other arguments.
        changed = tuple.__new__(type(x), items)
    except TypeError:
        # A structure of C, such as those of torch.return_types.
        return type(x)(items)
    if hasattr(x, "__dict__"):
        vars(changed).update(vars(x))
    return changed
