"""Plans of calls of PyTorch's functions, one for each function and pattern of arguments.

The schema of an operator declares which arguments it writes. Functions written in Python have no
schema. Their parameters tell: ``inplace=True``, ``running_mean`` while training, ``max_norm``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, NamedTuple

import torch

from syncblob.blob.core import BlobCore
from syncblob.calls.engine import in_order
from syncblob.calls.nested import NESTED
from syncblob.calls.tables import split_keys

# They use only the shapes and dtypes of Blobs. The ``*_like`` functions read the later arguments,
# such as a `fill_value`.
_SHAPE_ONLY = frozenset(
    getattr(torch, name)
    for name in """
    empty_like full_like get_device is_complex is_conj is_floating_point is_inference is_neg
    is_same_size is_signed numel ones_like rand_like randint_like randn_like result_type zeros_like
    """.split()  # noqa: SIM905  # reads best as words
)

# Their results are not tensors but share the memory of their argument. Writes into them could not
# be tracked.
_EXPORTS = frozenset(
    getattr(torch.Tensor, name) for name in ("__array__", "__dlpack__", "__reduce_ex__", "storage")
)

# Written if a flag of the function is set, or always if it has none. Torch's schemas do not declare
# this.
_RUNNING = frozenset({"running_mean", "running_var"})
_TRAINING = ("training", "use_input_stats", "train")


# --- plans ----------------------------------------------------------------------------------------


class Plan:
    """What the calls of one function do with arguments of certain types.

    Arguments are numbered: first the positional ones, then the keyword arguments. In place of its
    type, a flag that determines which arguments are written has a truth value.
    """

    def __init__(self, rule: Rule, kinds_by_key: Mapping[int | str, Any]) -> None:
        function = rule.function
        if function in _EXPORTS:
            raise TypeError(
                f"torch.Tensor.{function.__name__} takes a tensor, got a Blob, whose memory it "
                f"would expose untracked; call the method of the Blob, or of blob.to_torch()"
            )
        count, names = split_keys(kinds_by_key)
        kinds = [*kinds_by_key.values()]
        # The parameter of each argument; "self" in the schemas is "input" in Python.
        given: list[str | None] = [*rule.parameters[:count]]
        given += [None] * (count - len(given))
        given += ["self" if n == "input" and "self" in rule.parameters else n for n in names]
        by_flags, flags = _written_by_flags(rule, dict(zip(given, kinds, strict=True)))
        outs = {*rule.outs, "out"}
        targets = {*rule.written, *outs, *by_flags}
        # The function, with keyword arguments by position, too, and its name for messages.
        self.compute: Callable[..., Any] = in_order(function, kinds_by_key, "torch")
        self.name: str = getattr(function, "__name__", "torch")
        # Whether a Blob may lend its kept tensor: torch's own functions store no argument.
        self.keeps: bool = rule.keeps
        # Whether it has returned a view of its only Blob, and may again.
        self.views: bool = False
        # The arguments whose truth, and not only type, determines what is written.
        self.flags: list[int] = [i for i, name in enumerate(given) if name in flags]
        # The arguments that it writes, and whether every element of each.
        self.written: dict[int, bool] = {
            i: name in outs
            for i, name in enumerate(given)
            if name in targets and kinds[i] is not NoneType
        }
        self.target: int | None = next(iter(self.written), None)
        blobs, tensors, nested = (
            [i for i, kind in enumerate(kinds) if isinstance(kind, type) and issubclass(kind, each)]
            for each in (BlobCore, torch.Tensor, NESTED)
        )
        like, asks = self.name.endswith("_like"), function in _SHAPE_ONLY
        # Whether it computes elements, so that guards apply: at least those of its result.
        self.computes: bool = like or not asks
        # The Blobs of which it reads no element. "self" is the first parameter of torch's builtin
        # functions.
        self.shape_only: list[int] = [n for n in blobs if asks and (given[n] == "self" or not like)]
        # The Blobs of which it reads elements; all tensors, and collections that it reads.
        self.blobs: list[int] = [n for n in blobs if n not in {*self.shape_only, *self.written}]
        self.others: list[int] = [*tensors, *(n for n in nested if n not in self.written)]
        self.read: list[int] = [*self.blobs, *self.others]
        # Whether it may use what lies ready: it is torch's own, and writes at most one argument.
        self.short: bool = rule.keeps and len(self.written) <= 1
        self.short = self.short and self.written.keys().isdisjoint(nested)


def _written_by_flags(rule: Rule, given: Mapping[str | None, Any]) -> tuple[set[str], set[str]]:
    """Return the parameters that other arguments make it write, and the flags to be looked at."""
    named = {name: given.get(name, NoneType) for name in ("inplace", *_TRAINING)}
    flags = {name: truth for name, truth in named.items() if truth is not NoneType}
    written: set[str] = set()
    if flags.get("inplace") is True:
        written.add(rule.parameters[0])
    if given.get("max_norm", NoneType) is not NoneType:
        # It renormalises rows of the weight in place.
        written.add("weight")
    # For a flag that was not given, assume that its default makes the function write.
    trains = all(flags.get(name) is not False for name in _TRAINING)
    if trains and {*rule.parameters, *given} >= _RUNNING:
        written |= _RUNNING
    return written, {name for name, truth in flags.items() if isinstance(truth, type)}


# --- rules ----------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """Which arguments a function writes."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]
    """The names of the positional parameters; at least one."""
    written: frozenset[str]
    """The parameters that are written."""
    outs: frozenset[str]
    """The keywords of outputs, which are overwritten completely."""
    keeps: bool
    """Whether the function is torch's own."""
    plan: Callable[..., Any] | None = None
    """Returns what makes calls, given this rule and the types of the arguments."""


def rule_of(function: Callable[..., Any]) -> Rule:
    """Determine which arguments a function writes."""
    schemas = _schemas(function)
    # Some functions, such as `Tensor.pow`, only wrap a builtin one, which has no signature.
    written_in_python = inspect.isfunction(inspect.unwrap(function))
    parameters = _positional(function) if written_in_python else ()
    if not parameters:
        longest = max((schema.arguments for schema in schemas), key=len, default=())
        parameters = tuple(one.name for one in longest if not one.kwarg_only) or ("self",)
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None) or ""
    written: set[str] = set()
    outs: set[str] = set()
    for schema in schemas:
        for place, argument in enumerate(schema.arguments):
            if _is_written(argument) and argument.kwarg_only:
                outs |= {argument.name, "out"}
            elif _is_written(argument):
                written |= {*parameters[place : place + 1]}
    if not schemas:
        if module.startswith("torch.distributed"):
            # What receives data comes first, but not of these.
            others = {"gather": {"gather_list"}, "isend": set(), "send": set()}
            written |= others.get(name, {parameters[0]})
        elif name == "__setitem__" or (name.endswith("_") and not name.endswith("__")):
            written.add(parameters[0])
    # A third-party operator may store its arguments, or write them undeclared.
    own = f"{module}.".startswith(("torch.", "."))
    keeps = own and all(schema.name.startswith("aten::") for schema in schemas)
    return Rule(function, parameters, frozenset(written), frozenset(outs), keeps)


def _positional(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of arguments by position: behind ``*matrices``, others have keywords."""
    parameters = inspect.signature(function).parameters.values()
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return tuple([each.name for each in parameters if each.kind in kinds])


def _is_written(argument: Any) -> bool:
    """Return whether the memory of an argument, or of the tensors in it, is written."""
    alias = argument.alias_info
    if alias is None or not alias.is_write:
        return False
    # A written list, in TorchScript, has its items replaced; their memory is not written.
    return not (alias.before_set and str(argument.type).startswith("List"))


def _schemas(function: Callable[..., Any]) -> list[Any]:
    """Return the schemas of a function; empty if torch has none."""
    if hasattr(function, "_schema"):
        return [function._schema]
    operator: Any = function
    if not hasattr(operator, "overloads"):
        if getattr(function, "__module__", None) == "torch.distributed.distributed_c10d":
            return []
        operator = getattr(torch.ops.aten, getattr(function, "__name__", ""), None)
    # A few names, such as "__eq__", are methods that every Python object has.
    names = operator.overloads() if hasattr(operator, "overloads") else ()
    return [getattr(operator, name)._schema for name in names]
