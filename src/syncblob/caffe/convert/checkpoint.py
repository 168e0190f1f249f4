"""Finding the tensors of a net in nested dictionaries, such as checkpoints of PyTorch's.

A dictionary in a dictionary is a part of a net, such as a layer with its ``weight``, or a whole
net. The names of the tensors of a net contain dots, those of a layer do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

# The usual key of the weights in a checkpoint.
_USUAL_KEY = "state_dict"
# The last part of the name of an entry with what a module keeps beside its tensors, of any type.
_EXTRA_STATE = "_extra_state"
# Limits for hostile files, whose dictionaries may contain themselves, or each other many times.
_MOST_LEVELS = 32
MOST_ENTRIES = 1 << 20


class Found(NamedTuple):
    """Tensors by name, and in words what was left out."""

    tensors: dict[str, Any]
    others: tuple[str, ...] = ()


def flatten(nested: Mapping[Any, Any], is_tensor: Callable[[Any], bool]) -> Found:
    """Join the keys of nested dictionaries with dots; `is_tensor` tells which entries are tensors.

    Raises TypeError if an entry is neither a tensor nor a dictionary, or a key is not a string, and
    ValueError if two tensors get one name, or there are too many entries.
    """
    tensors: dict[str, Any] = {}
    others = []
    for number, (name, value) in enumerate(_leaves(nested, "", _MOST_LEVELS)):
        if number == MOST_ENTRIES:
            raise ValueError(f"it has more than {MOST_ENTRIES} entries")
        if _is_extra_state(name):
            others.append(f"the extra state {name!r}")
        elif not is_tensor(value):
            raise TypeError(f"entry {name!r} is of type {type(value).__name__}, not a tensor")
        elif name in tensors:
            raise ValueError(f"two of its tensors are called {name!r}")
        else:
            tensors[name] = value
    return Found(tensors, tuple(others))


def _leaves(nested: Mapping[Any, Any], prefix: str, levels: int) -> Iterator[tuple[str, Any]]:
    if not levels:
        raise ValueError(f"dictionaries are nested more than {_MOST_LEVELS} deep")
    for key, value in nested.items():
        if not isinstance(key, str):
            raise TypeError(f"the name {key!r} of an entry is of type {type(key).__name__}")
        if isinstance(value, Mapping) and not _is_extra_state(key):
            yield from _leaves(value, f"{prefix}{key}.", levels - 1)
        else:
            yield prefix + key, value


def _is_extra_state(name: str) -> bool:
    return name.rpartition(".")[2] == _EXTRA_STATE


def find_net(loaded: Mapping[Any, Any], is_tensor: Callable[[Any], bool]) -> Found:
    """Return the tensors of the only net, or of that with the usual key; else all tensors.

    The key of such a net is no part of the names. Of other entries, those without tensors are left
    out, such as the state of an optimizer. Raises the errors of `flatten` if no entry is a
    dictionary of tensors.
    """
    loose = [name for name, value in loaded.items() if is_tensor(value)]
    nets, mixed = {}, []
    for name, value in loaded.items():
        if isinstance(value, Mapping):
            try:
                if (found := flatten(value, is_tensor)).tensors:
                    nets[name] = found
            except (TypeError, ValueError):
                if any(map(is_tensor, value.values())):
                    mixed.append(f"{name!r}, which has tensors and other entries")
    if not nets or _has_names_of_a_net(loose):
        return flatten(loaded, is_tensor)  # a state_dict, or the error names an entry
    only = _USUAL_KEY if _USUAL_KEY in nets else next(iter(nets))
    if only == _USUAL_KEY or (len(nets) == 1 and _has_names_of_a_net(loaded[only])):
        net = nets.pop(only)
        others = [f"the tensor {name!r}" for name in loose] + [f"the net {name!r}" for name in nets]
        return Found(net.tensors, (*net.others, *others, *mixed))
    found = flatten({name: loaded[name] for name in (*nets, *loose)}, is_tensor)
    return found._replace(others=(*found.others, *mixed))


def _has_names_of_a_net(part: Iterable[Any]) -> bool:
    return any("." in str(name) for name in part)
