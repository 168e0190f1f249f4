"""The naming convention for the tensors of layers.

A tensor is ``<layer>.<part>``. The parts of a layer with at most two blobs are ``weight`` and
``bias``, in this order; those of a BatchNorm layer are ``mean``, ``variance`` and ``scale_factor``,
and that of a Bias layer is ``bias``. In any other layer they are numbers, starting at ``0``. If
several layers with blobs have the same name, the second one is named ``<layer>#2``, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_BATCH_NORM = "BatchNorm"
_PARTS = {_BATCH_NORM: ("mean", "variance", "scale_factor"), "Bias": ("bias",)}
_USUAL_PARTS = ("weight", "bias")

_MOST_DIGITS = 7

# The order of parts in a layer. A name without a dot is the only tensor of its layer.
_ORDER = {part: place for place, part in enumerate(("", *_USUAL_PARTS, *_PARTS[_BATCH_NORM]))}


def name_tensors(layers: Iterable[tuple[str, str, int]]) -> list[list[str]]:
    """Return tensor names for layers, given the name, type and number of blobs of each."""
    found: list[list[str]] = []
    taken: set[str] = set()
    # For each layer name and its parts, the number to try first: all smaller ones are taken.
    numbers: dict[tuple[str, Sequence[str]], int] = {}
    for layer, kind, count in layers:
        parts = _PARTS.get(kind, _USUAL_PARTS)
        parts = parts[:count] if count <= len(parts) else tuple(map(str, range(count)))
        number = numbers.get((layer, parts), 1)
        while not taken.isdisjoint(names := _names(layer, number, parts)):
            number += 1
        numbers[layer, parts] = number
        taken.update(names)
        found.append(names)
    return found


def _names(layer: str, number: int, parts: Sequence[str]) -> list[str]:
    return [f"{name_with_number(layer, number)}.{part}" for part in parts]


def name_with_number(name: str, number: int) -> str:
    """Return the name of the first, the second, … of several layers of one name."""
    return name if number == 1 else f"{name}#{number}"


def group_names(names: Iterable[str]) -> list[tuple[str, str, list[str]]]:
    """Group tensors into layers by their names."""
    groups: dict[str, list[str]] = {}
    for name in names:
        layer, dot, _ = name.rpartition(".")
        groups.setdefault(layer if dot else name, []).append(name)
    found = []
    for layer, members in groups.items():
        parts = {name: name[len(layer) + 1 :] for name in members}
        places = {name: _place(part) for name, part in parts.items()}
        kind = _BATCH_NORM if set(parts.values()) == set(_PARTS[_BATCH_NORM]) else ""
        found.append((layer, kind, sorted(members, key=places.__getitem__)))
    return found


def _place(part: str) -> tuple[int, int]:
    """Return the sort key of a part; unknown parts come last, in their own order."""
    if part in _ORDER:
        return 0, _ORDER[part]
    # int() also accepts other digits, and raises for very long numbers.
    if part.isascii() and part.isdigit() and len(part) <= _MOST_DIGITS:
        return 1, int(part)
    return 2, 0
