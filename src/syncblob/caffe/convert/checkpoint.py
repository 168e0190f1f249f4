"""Finding the tensors of a net in nested dictionaries, such as checkpoints of PyTorch's.

A dictionary in a dictionary is a part of a net, such as a layer with its ``weight``, or a whole
net. The names of the tensors of a net contain dots, those of a layer do not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    IsTensor = Callable[[Any], bool]

# The usual key of the weights in a checkpoint.
_USUAL_KEY = "state_dict"
# The last part of the name of an entry with what a module keeps beside its tensors, of any type.
_EXTRA_STATE = "_extra_state"
# Limits for hostile files, whose dictionaries may contain themselves, or each other many times.
_MOST_LEVELS = 32
_MOST_ENTRIES = 1 << 20
# At most this many keys are listed.
_SHOWN = 8


class Found(NamedTuple):
    """Tensors by name, and in words what was left out."""

    tensors: dict[str, Any]
    others: tuple[str, ...] = ()


def flatten(
    nested: Mapping[Any, Any], is_tensor: IsTensor, allowance: Iterator[int] | None = None
) -> Found:
    """Join the keys of nested dictionaries with dots.

    Parameters
    ----------
    nested
        The dictionaries.
    is_tensor
        Tells whether an entry is a tensor.
    allowance
        Has an item for each entry that may be visited.

    Raises
    ------
    TypeError
        If an entry is neither a tensor nor a dictionary, or a key is not a string.
    ValueError
        If two tensors get one name, or there are too many entries.
    """
    tensors: dict[str, Any] = {}
    others = []
    for name, value in _leaves(nested, "", _MOST_LEVELS, allowance or iter(range(_MOST_ENTRIES))):
        if _is_extra_state(name):
            others.append(f"the extra state {name!r}")
        elif not is_tensor(value):
            raise TypeError(f"entry {name!r} is of type {type(value).__name__}, not a tensor")
        elif name in tensors:
            raise ValueError(f"two of its tensors are called {name!r}")
        else:
            tensors[name] = value
    return Found(tensors, tuple(others))


def _leaves(
    nested: Mapping[Any, Any], prefix: str, levels: int, allowance: Iterator[int]
) -> Iterator[tuple[str, Any]]:
    if not levels:
        raise ValueError(f"dictionaries are nested more than {_MOST_LEVELS} deep")
    for key, value in nested.items():
        if next(allowance, None) is None:
            raise ValueError(f"it has more than {_MOST_ENTRIES} entries")
        if not isinstance(key, str):
            raise TypeError(f"the name {key!r} of an entry is of type {type(key).__name__}")
        if isinstance(value, Mapping) and not _is_extra_state(key):
            yield from _leaves(value, f"{prefix}{key}.", levels - 1, allowance)
        else:
            yield prefix + key, value


def _is_extra_state(name: str) -> bool:
    return name.rpartition(".")[2] == _EXTRA_STATE


def choose_net(loaded: Mapping[Any, Any], key: str | None, is_tensor: IsTensor) -> Found:
    """Return the tensors of one net, whose own name is no part of theirs, or of all dictionaries.

    Parameters
    ----------
    loaded
        The contents of a file.
    key
        The key of the net, of several joined with dots if it is within another entry. None for the
        only one, or that of the usual name. ``""`` for all, with their keys in front of the names.
    is_tensor
        Tells whether an entry is a tensor.

    Raises
    ------
    TypeError
        If an entry is neither a tensor nor a dictionary.
    ValueError
        If `key` is None and there are several nets, or there is no entry of that key.
    """
    if key:
        return flatten(_entry(loaded, key), is_tensor)
    allowance = iter(range(_MOST_ENTRIES))
    parts = {}
    for name, part in loaded.items():
        # Parts with something else, such as an optimizer, are no nets.
        with suppress(TypeError, ValueError):
            if isinstance(part, Mapping) and (found := flatten(part, is_tensor, allowance)).tensors:
                parts[name] = found
    loose = [name for name, value in loaded.items() if is_tensor(value)]
    others = [f"the tensor {name!r}" for name in loose]
    nets = _USUAL_KEY in parts or any(_has_names_of_a_net(loaded[name]) for name in parts)
    if not parts or _has_names_of_a_net(loose):
        return flatten(loaded, is_tensor)  # a state_dict, or the error names an entry
    if nets and key is None:
        if _USUAL_KEY not in parts and len(parts) > 1:
            raise ValueError(_several([*parts]))
        found = parts.pop(_USUAL_KEY if _USUAL_KEY in parts else next(iter(parts)))
        return Found(found.tensors, (*found.others, *others, *(f"the net {n!r}" for n in parts)))
    with suppress(TypeError, ValueError):
        return flatten(loaded, is_tensor)
    found = flatten({name: loaded[name] for name in parts}, is_tensor)
    return Found(found.tensors, (*found.others, *others))


def _has_names_of_a_net(part: Iterable[Any]) -> bool:
    return any("." in str(name) for name in part)


def _entry(loaded: Mapping[Any, Any], key: str) -> Mapping[Any, Any]:
    """Return the dictionary of a key, which may have dots itself."""
    entry: Any = loaded
    for part in [key] if key in loaded else key.split("."):
        entry = entry.get(part) if isinstance(entry, Mapping) else None
    if isinstance(entry, Mapping):
        return entry
    raise ValueError(f"it has no dictionary {key!r}; its entries are {_listed(loaded)}")


def _several(keys: list[str]) -> str:
    return (
        f"it has several, {_listed(keys)}; choose one by its key, as in open_weights(path, "
        f"key={keys[0]!r}) or --key {keys[0]} on the command line (--key-a and --key-b of diff); "
        f"the empty key takes all, with their keys in front of the names"
    )


def _listed(keys: Collection[Any]) -> str:
    shown = ", ".join(repr(key) for key in islice(keys, _SHOWN))
    return f"{shown}, ..." if len(keys) > _SHOWN else shown
