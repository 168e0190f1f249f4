"""Functions composed as texts: each step is written for the arguments of one kind of call."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from keyword import iskeyword
from textwrap import indent
from typing import Any

# Programs have far fewer.
_MOST = 1024


def can_be_written(names: Sequence[str]) -> bool:
    """Return whether a call with keyword arguments of these names has a text."""
    return all(name.isidentifier() and not iskeyword(name) for name in names)


def arguments(values: Sequence[str], names: Sequence[str]) -> str:
    """Return the text of the arguments of a call, of which the last have names."""
    count = len(values) - len(names)
    named = zip(names, values[count:], strict=True)
    return ", ".join([*values[:count], *(f"{name}={x}" for name, x in named)])


def compiler(filename: str, shared: dict[str, Any]) -> Callable[..., Callable[..., Any]]:
    """Return what makes functions of texts with a function `run`, and values of names in them.

    `filename` is that of the steps, for tracebacks, and `shared` has the global variables.
    """

    @lru_cache(maxsize=_MOST)
    def make_of(text: str, names: tuple[str, ...]) -> Callable[..., Callable[..., Any]]:
        text = f"def make({', '.join(names)}):{indent(text, '    ')}    return run"
        where = f"{filename}: text {make_of.cache_info().misses % _MOST}"
        linecache.cache[where] = len(text), None, text.splitlines(keepends=True), where
        variables: dict[str, Any] = {}
        exec(compile(text, where, "exec"), shared, variables)  # noqa: S102  # texts of this package
        made: Callable[..., Callable[..., Any]] = variables["make"]
        return made

    def run_of(text: str, values: Mapping[str, Any]) -> Callable[..., Any]:
        return make_of(text, (*values,))(*values.values())

    return run_of
