"""Names of made functions, and of all that a module defines."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any


def name_made_functions(namespace: Mapping[str, Any], owner: str = "") -> None:
    """Name the made functions of a module, or of a class, for pickles, tracebacks and profilers."""
    for name, function in namespace.items():
        if isinstance(function, FunctionType) and "<locals>" in function.__qualname__:
            qualified = f"{owner}.{name}" if owner else name
            function.__name__ = name
            function.__qualname__ = qualified
            code = function.__code__
            function.__code__ = code.replace(co_name=name, co_qualname=qualified)


def defined_names(namespace: Mapping[str, Any]) -> list[str]:
    """Return the public names of the functions and classes that a module defines."""
    return [
        name
        for name, x in namespace.items()
        if getattr(x, "__module__", "") == namespace["__name__"] and not name.startswith("_")
    ]
