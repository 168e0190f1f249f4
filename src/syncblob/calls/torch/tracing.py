"""Functions that torch.compile must not trace."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def untraced(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Make torch.compile, which is not imported, call a function instead of tracing it."""
    disabled: list[Callable[_Parameters, _Result]] = []

    @functools.wraps(function)
    def outside(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if not disabled:
            disabled.append(torch.compiler.disable(function))  # type: ignore[no-untyped-call]  # torch's
        return disabled[0](*args, **kwargs)

    return outside
