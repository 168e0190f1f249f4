"""The results of a library: what is our fault, and a compact form for the file of results."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Cell = tuple[str, ...]
Found = Mapping[str, str]

# What a part of the results has for its axes.
AXES = {
    "given": ("dtype", "layout", "state", "form"),
    "taken": ("dtype", "layout"),
    "operator": ("dtype", "state"),
}

# The only fault that has one reason for all libraries.
NEGATIVE = "refused because of a negative stride, and an ndarray is taken"


def faults(cell: Cell, found: Found) -> list[str]:
    """Return what is our fault in a cell: what an ndarray gets, and a Blob does not."""
    wrong = []
    numpy = {key: found.get(f"numpy {key} True") for key in ("raises", "values", "memory")}
    const = {key: found.get(f"numpy {key} False") for key in ("raises", "values", "memory")}
    # A broadcast view is read-only.
    fair = [const] if cell[0] == "given" and (cell[-1] == "const" or "broadcast" in cell) else []
    fair = fair or [numpy, *([const] if cell[0] == "given" else [])]
    right = [x for x in fair if x["values"] == "right"]
    if "raises" in found:
        if len(right) == len(fair):
            reversed_ = "reversed" in cell and found["raises"].startswith("ours BufferError")
            wrong.append(NEGATIVE if reversed_ else "refused, and an ndarray is taken")
    elif found.get("values") == "wrong" and right:
        wrong.append("other values than an ndarray's")
    elif found.get("memory") == "copied" and right and all(x["memory"] == "shared" for x in fair):
        wrong.append("copied, and an ndarray is shared")
    for key in ("shape", "dtype"):
        if found.get(key) and found.get("values") == "right" and right:
            others = [found.get(f"numpy {key} {writable}") for writable in (True, False)]
            if found[key] not in others:
                wrong.append(f"another {key} than an ndarray's")
    if found.get("write") == "is lost" and found.get("values") == "right":
        wrong.append("a write is lost")
    if "again" in found:
        wrong.append("transferred twice")
    return wrong


def outcome(found: Found) -> str:
    """Return what was found in a cell as one text, of ``name=value`` separated by ``; ``."""
    if "has none" in found:
        return "has none"
    parts = {key: value for key, value in found.items() if not key.startswith("numpy ")}
    if "raises" in parts:
        parts = {key: parts[key] for key in ("raises", "by") if key in parts}
        parts["raises"] = parts["raises"].partition(":")[0]
        if "numpy raises True" in found:
            parts["ndarray"] = "raises too"
    elif parts.get("values") == "right":
        del parts["values"]
    elif found.get("numpy values True") == "wrong":
        parts["ndarray"] = "wrong too"
    return "; ".join(f"{key}={value}" for key, value in parts.items())


def compact(cells: Mapping[Cell, str], among: Iterable[Cell] = ()) -> list[tuple[str, ...]]:
    """Return the cells with each outcome as few products of values of the axes.

    Each is the outcome and, for each axis, the values separated by commas; ``*`` for all that occur
    in these cells or `among` others, and ``!`` before those that are left out.
    """
    if not cells:
        return []
    axes = range(len(next(iter(cells))))
    known = [*(among or cells)]
    everything = [list(dict.fromkeys(cell[axis] for cell in known)) for axis in axes]
    by_outcome: dict[str, set[Cell]] = defaultdict(set)
    for cell, text in cells.items():
        by_outcome[text].add(cell)
    rows = []
    for text, chosen in sorted(by_outcome.items(), key=lambda item: (-len(item[1]), item[0])):
        best = min((_products(chosen, order) for order in itertools.permutations(axes)), key=len)
        # Sets have no order, and results are compared as text.
        rows += sorted(
            (text, *(_named(product[axis], everything[axis]) for axis in axes)) for product in best
        )
    return rows


def _named(values: frozenset[str], everything: list[str]) -> str:
    others = [x for x in everything if x not in values]
    if not others:
        return "*"
    chosen = [x for x in everything if x in values]
    return f"!{','.join(others)}" if len(others) < len(chosen) else ",".join(chosen)


def selects(selector: str, value: str) -> bool:
    """Return whether a text of `compact` for an axis names a value."""
    return selector == "*" or (value in selector.strip("!").split(",")) != (selector[0] == "!")


def _products(cells: Iterable[Cell], order: tuple[int, ...]) -> list[dict[int, frozenset[str]]]:
    """Split a set of cells into products, by the axes in an order."""
    first, *rest = order
    by_value: dict[str, set[Cell]] = defaultdict(set)
    for cell in cells:
        by_value[cell[first]].add(tuple(cell))
    if not rest:
        return [{first: frozenset(by_value)}]
    alike: dict[frozenset[Cell], set[str]] = defaultdict(set)
    for value, chosen in by_value.items():
        others = frozenset(tuple(cell[axis] for axis in rest) for cell in chosen)
        alike[others].add(value)
    found = []
    for others, values in alike.items():
        found += [
            {first: frozenset(values)} | {rest[i]: x for i, x in product.items()}
            for product in _products(others, tuple(range(len(rest))))
        ]
    return found


def results_of(
    measured: Mapping[Cell, Found], ended: Iterable[str], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the results of a library as its file has them.

    `measured`: what was found in each cell: the direction, the call and the axes.
    `ended`: the calls during which the process ended. Their cells but the simplest are left out, so
        that the results do not say what ends it.
    `about`: the versions.
    """
    parts: dict[str, dict[str, dict[Cell, str]]] = defaultdict(lambda: defaultdict(dict))
    blamed: dict[tuple[str, str, str], dict[Cell, str]] = defaultdict(dict)
    messages: dict[str, set[str]] = defaultdict(set)
    for cell, found in measured.items():
        direction, call, *axes = cell
        if call in ended and not {"float32", "C"} <= {*axes, *(["C"] * (direction == "operator"))}:
            continue
        parts[direction][call][tuple(axes)] = outcome(found)
        for fault in faults(cell, found):
            blamed[direction, call, fault][tuple(axes)] = fault
        if "raises" in found:
            kind, _, text = found["raises"].partition(": ")
            messages[f"{call}: {kind}"].add(text)
    return {
        **about,
        "cells": sum(len(cells) for calls in parts.values() for cells in calls.values()),
        **{
            direction: {call: compact(cells) for call, cells in calls.items()}
            for direction, calls in parts.items()
        },
        "ends the process": sorted(ended),
        "messages": {
            kind: min(texts, key=lambda x: (len(x), x)) for kind, texts in messages.items()
        },
        "ours": {
            call: {
                fault: [row[1:] for row in compact(cells, parts[direction][call])]
                for (direction, other, fault), cells in blamed.items()
                if other == call
            }
            for _, call, _ in blamed
        },
    }
