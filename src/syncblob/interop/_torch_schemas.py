"""Which arguments torch's functions write: read from torch's own schemas where it has them.

The schema of an operator says of each argument whether its memory is written. Functions that are
written in Python have none; of those the parameters tell: ``inplace=True``, ``running_mean`` while
training, ``max_norm``.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["UNREAD", "written_arguments"]

# They ask for shape and dtype and look at no element.
UNREAD = frozenset(
    {
        torch.empty_like,
        torch.full_like,
        torch.get_device,
        torch.is_complex,
        torch.is_conj,
        torch.is_floating_point,
        torch.is_inference,
        torch.is_neg,
        torch.is_same_size,
        torch.is_signed,
        torch.numel,
        torch.ones_like,
        torch.rand_like,
        torch.randint_like,
        torch.randn_like,
        torch.result_type,
        torch.zeros_like,
    }
)

# Written while a flag of the function is set; without such a flag, always. Torch's schemas are
# silent about them.
_RUNNING = frozenset({"running_mean", "running_var"})
_TRAINING = ("training", "use_input_stats", "train")
# Rows of the weight are scaled down to this norm, in place.
_RENORMALISED = ("weight", "max_norm")

# Functions of torch.distributed: what they receive is written.
_RECEIVED = {
    "all_gather": "tensor_list",
    "all_gather_coalesced": "output_tensor_lists",
    "all_gather_into_tensor": "output_tensor",
    "all_gather_single": "output_tensor",
    "all_reduce": "tensor",
    "all_reduce_coalesced": "tensors",
    "all_to_all": "output_tensor_list",
    "all_to_all_single": "output",
    "broadcast": "tensor",
    "gather": "gather_list",
    "irecv": "tensor",
    "recv": "tensor",
    "reduce": "tensor",
    "reduce_scatter": "output",
    "reduce_scatter_single": "output",
    "reduce_scatter_tensor": "output",
    "scatter": "tensor",
}


class _Rule(NamedTuple):
    """What is known of a function."""

    parameters: tuple[str, ...]
    """Their names, as far as arguments without a keyword go."""
    places: frozenset[int]
    """The arguments that are written."""
    names: frozenset[str]
    """The same, where they are given by keyword."""
    outs: frozenset[str]
    """The keywords of results, which are written completely."""


def written_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[int | str, bool]:
    """Return which arguments of a call of a torch function it writes.

    Returns
    -------
    dict
        From the argument's place or keyword to whether every element of it is written.
    """
    rule = _rule(function)
    result: dict[int | str, bool] = {place: False for place in rule.places if place < len(args)}
    result.update((name, False) for name in rule.names & kwargs.keys())
    if "out" in kwargs:
        result["out"] = "out" in rule.outs
    result.update((name, True) for name in rule.outs & kwargs.keys())
    for name in _conditional(rule, args, kwargs):
        place = _argument(rule, name, args, kwargs)
        if place is not None:
            result[place] = False
    return result


def _conditional(rule: _Rule, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterable[str]:
    """Return the parameters that are written because of what other arguments say."""

    def given(name: str) -> Any:
        place = _argument(rule, name, args, kwargs)
        if place is None:
            return None
        return kwargs[place] if isinstance(place, str) else args[place]

    parameters = {*rule.parameters, *kwargs}
    if rule.parameters and given("inplace"):
        yield rule.parameters[0]
    weight, max_norm = _RENORMALISED
    if given(max_norm) is not None:
        yield weight
    if parameters.issuperset(_RUNNING):
        flags = [flag for flag in _TRAINING if flag in parameters]
        # A flag that was left out keeps its default: which one, the memory need not know.
        if not flags or any(given(flag) in {None, True} for flag in flags):
            yield from _RUNNING


def _argument(
    rule: _Rule, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> int | str | None:
    """Return under which place or keyword an argument was given; None where it was not."""
    if name in kwargs:
        return name
    place = rule.parameters.index(name) if name in rule.parameters else len(args)
    return place if place < len(args) else None


@cache
def _rule(function: Callable[..., Any]) -> _Rule:
    """Find out what a function writes."""
    schemas = _schemas(function)
    parameters = _signature(function)
    places: set[int] = set()
    outs: set[str] = set()
    for schema in schemas:
        for place, argument in enumerate(schema.arguments):
            if _is_written(argument):
                if argument.kwarg_only:
                    outs |= {argument.name, "out"}
                else:
                    places.add(place)
    name = getattr(function, "__name__", "")
    if not schemas:
        module = getattr(function, "__module__", None) or ""
        if module.startswith("torch.distributed") and name in _RECEIVED:
            places |= {p for p, known in enumerate(parameters) if known == _RECEIVED[name]}
        elif name.endswith("_") and not name.endswith("__"):
            places.add(0)
    if not parameters:
        longest = max(schemas, key=lambda schema: len(schema.arguments), default=None)
        parameters = tuple(
            argument.name
            for argument in (() if longest is None else longest.arguments)
            if not argument.kwarg_only
        )
    names = {parameters[place] for place in places if place < len(parameters)}
    if "self" in names:
        # What the schemas call so is "input" in Python.
        names.add("input")
    return _Rule(parameters, frozenset(places), frozenset(names), frozenset(outs))


def _is_written(argument: Any) -> bool:
    """Tell whether the memory of an argument, or of the tensors in it, is written."""
    alias = argument.alias_info
    if alias is None or not alias.is_write:
        return False
    # A list that is written itself is TorchScript's: its elements change, and not their memory.
    return not (alias.before_set and str(argument.type).startswith("List"))


def _schemas(function: Callable[..., Any]) -> list[Any]:
    """Return the schemas of a function; none where torch has none."""
    own = getattr(function, "_schema", None)
    if own is not None:
        return [own]
    operator: Any = function
    if not hasattr(operator, "overloads"):
        if getattr(function, "__module__", None) == "torch.distributed.distributed_c10d":
            return []
        operator = getattr(torch.ops.aten, getattr(function, "__name__", ""), None)
        if operator is None:
            return []
    return [getattr(operator, name)._schema for name in operator.overloads()]  # noqa: SLF001  # where torch keeps them


def _signature(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the parameters of a function that is written in Python."""
    if not inspect.isfunction(function):
        return ()
    return tuple(inspect.signature(function).parameters)
