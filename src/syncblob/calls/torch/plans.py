"""Plans of calls of PyTorch's functions, one for each function and pattern of arguments.

The schema of an operator declares which arguments it writes, and whether its results may be views.
Functions written in Python have no schema. Their parameters tell: ``inplace=True``,
``running_mean`` while training, ``max_norm``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType
from typing import Any, NamedTuple

import torch

from syncblob.blob.core import BlobCore
from syncblob.calls.nested import NESTED, instances
from syncblob.calls.texts import can_be_written

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

# Functions of torch.distributed by their parameters that receive data.
_RECEIVERS = {
    "gather_list": "gather",
    "output": "all_to_all_single reduce_scatter reduce_scatter_single reduce_scatter_tensor",
    "output_tensor": "all_gather_into_tensor all_gather_single",
    "output_tensor_list": "all_to_all",
    "output_tensor_lists": "all_gather_coalesced",
    "tensor": "all_reduce broadcast irecv recv reduce scatter",
    "tensor_list": "all_gather",
    "tensors": "all_reduce_coalesced",
}
_RECEIVED = {name: to for to, names in _RECEIVERS.items() for name in names.split()}


# --- plans ----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Plan:
    """The plan of the calls of one function with one pattern of arguments.

    Arguments are numbered: first the positional ones, then the keyword arguments.
    """

    function: Callable[..., Any]
    kinds: Sequence[_Pattern]
    """The pattern of its arguments."""
    names: tuple[str, ...]
    """The names of the keyword arguments, which come last."""
    name: str
    """The name of the function, for messages and the log."""
    computes: bool
    """Whether it computes elements, so that guards apply."""
    keeps: bool
    """Whether a Blob may lend its kept tensor: torch's own functions store no argument."""
    read: list[int]
    """The Blobs of which it reads elements."""
    shape_only: list[int]
    """The Blobs of which it reads no element."""
    tensors: list[int]
    """The tensors that it reads."""
    nested: list[int]
    """The collections that it reads."""
    numbers: list[int]
    """Those of them that contain no tensors: sizes, axes and the like."""
    written: Mapping[int, bool]
    """The arguments that it writes, and whether every element of each."""
    flags: list[int]
    """The arguments whose truth, and not only type, determines what is written."""
    short: bool
    """Whether it may use what lies ready on the host."""
    plain: bool
    """Whether it only reads Blobs, and has no tensors and no collections of them."""
    lone: bool
    """Whether its only Blob or tensor is one Blob, which it reads."""
    views: bool
    """Whether it is lone, and may return a view. Also set once it has."""
    run: Callable[..., Any] | None = None
    """Makes a call, given the arguments; None before the first."""

    def found_in(self, values: Sequence[Any], kind: type) -> list[Any]:
        """Return the Blobs or the tensors among the arguments, also those in collections."""
        places = {*self.read, *self.shape_only, *self.tensors, *self.nested, *self.written}
        return [*instances([values[place] for place in sorted(places)], kind)]


# An entry of a pattern: the type of an argument; of a flag that determines which arguments are
# written, its truth value.
_Pattern = Any


def plan_with_flags(plan: Plan, values: Sequence[Any]) -> Plan:
    """Return the plan that takes the truth of flags into account."""
    pattern: list[_Pattern] = [*map(type, values)]
    for place in plan.flags:
        pattern[place] = bool(values[place])
    return plan_call(plan.function, plan.names, *pattern)


def _plan_call(function: Callable[..., Any], names: tuple[str, ...], *pattern: _Pattern) -> Plan:
    """Plan a call, given the names of its keyword arguments, and the types of all arguments."""
    if function in _EXPORTS:
        raise TypeError(
            f"torch.Tensor.{function.__name__} takes a tensor, got a Blob, whose memory it would "
            f"expose untracked; call the method of the Blob, or of blob.to_torch()"
        )
    rule = _rule(function)
    unnamed = len(pattern) - len(names)
    # The parameter of each argument; "self" in the schemas is "input" in Python.
    given: list[str | None] = [*rule.parameters[:unnamed]]
    given += [None] * (unnamed - len(given))
    given += ["self" if n == "input" and "self" in rule.parameters else n for n in names]
    by_flags, flags = _written_by_flags(rule, dict(zip(given, pattern, strict=True)))
    outs = {*rule.outs, "out"}
    targets = {*rule.written, *outs, *by_flags}
    written = {i: name in outs for i, name in enumerate(given) if name in targets}
    blobs, tensors = _places(pattern, BlobCore), _places(pattern, torch.Tensor)
    nested = [i for i in _places(pattern, NESTED) if i not in written]
    lists = [i for i in nested if pattern[i] is list or pattern[i] is tuple]
    numbers = [i for i in lists if given[i] in rule.numbers]
    name = getattr(function, "__name__", "torch")
    like = name.endswith("_like")
    shape_only: list[int] = []
    if function in _SHAPE_ONLY:
        # "self" is the first parameter of torch's builtin functions.
        shape_only = [i for i in blobs if given[i] == "self" or not like]
    plain = not (tensors or written or shape_only) and len(numbers) == len(nested)
    lone = rule.keeps and plain and len(blobs) == 1
    return Plan(
        function,
        pattern,
        names,
        name,
        # The ``*_like`` functions compute the elements of their result.
        computes=function not in _SHAPE_ONLY or like,
        keeps=rule.keeps,
        read=[i for i in blobs if i not in written and i not in shape_only],
        shape_only=shape_only,
        tensors=[i for i in tensors if i not in written],
        nested=nested,
        numbers=numbers,
        written=written,
        flags=[i for i, parameter in enumerate(given) if parameter in flags],
        # Of several outputs, all are written or none.
        short=rule.keeps
        and can_be_written(names)
        and written.keys().isdisjoint(_places(pattern, NESTED))
        and not (any(written.values()) and len(written.keys() & {*blobs}) > 1),
        plain=plain,
        lone=lone,
        views=lone and rule.views,
    )


# Typed here, because the stubs say that types are not hashable.
plan_call: Callable[..., Plan] = lru_cache(maxsize=4096)(_plan_call)


def is_kind(entry: _Pattern, kind: type | tuple[type, ...]) -> bool:
    """Return whether an entry is a class, and a subclass of another."""
    return isinstance(entry, type) and issubclass(entry, kind)


def _places(pattern: Sequence[_Pattern], kind: Any) -> list[int]:
    """Return the arguments that are instances of a class."""
    return [i for i, entry in enumerate(pattern) if is_kind(entry, kind)]


def _written_by_flags(
    rule: _Rule, given: Mapping[str | None, _Pattern]
) -> tuple[set[str], set[str]]:
    """Return the parameters that other arguments make it write, and the flags to be looked at."""
    unknown: set[str] = set()

    def flag(name: str) -> bool | None:
        """Return its truth value; None if it is None, missing, or not known yet."""
        entry = given.get(name, NoneType)
        if isinstance(entry, type):
            unknown.update(() if entry is NoneType else (name,))
            return None
        return bool(entry)

    written: set[str] = set()
    if flag("inplace"):
        written.add(rule.parameters[0])
    if given.get("max_norm", NoneType) is not NoneType:
        # It renormalises rows of the weight in place.
        written.add("weight")
    parameters = {*rule.parameters, *given}
    if parameters.issuperset(_RUNNING):
        values = [flag(name) for name in _TRAINING if name in parameters]
        # For a flag that was not given, assume that its default makes the function write.
        if not values or any(value is not False for value in values):
            written |= _RUNNING
    return written, unknown


# --- rules ----------------------------------------------------------------------------------------


class _Rule(NamedTuple):
    """Which arguments a function writes."""

    parameters: tuple[str, ...]
    """The names of the positional parameters; at least one."""
    written: frozenset[str]
    """The parameters that are written."""
    outs: frozenset[str]
    """The keywords of outputs, which are overwritten completely."""
    keeps: bool
    """Whether the function is torch's own."""
    views: bool
    """Whether a schema declares that results may share the memory of an argument."""
    numbers: frozenset[str]
    """The parameters whose types have no tensors."""


@lru_cache(maxsize=4096)
def _rule(function: Callable[..., Any]) -> _Rule:
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
        if module.startswith("torch.distributed") and name in _RECEIVED:
            written.add(_RECEIVED[name])
        elif name == "__setitem__" or (name.endswith("_") and not name.endswith("__")):
            written.add(parameters[0])
    # A third-party operator may store its arguments, or write them undeclared.
    own = f"{module}.".startswith(("torch.", "."))
    keeps = own and all(schema.name.startswith("aten::") for schema in schemas)
    views = any(
        result.alias_info is not None and not result.alias_info.is_write
        for schema in schemas
        for result in schema.returns
    )
    outside = frozenset(_without_tensors(function, schemas))
    return _Rule(parameters, frozenset(written), frozenset(outs), keeps, views, outside)


def _without_tensors(function: Callable[..., Any], schemas: Sequence[Any]) -> set[str]:
    """Return the parameters that schemas, or else annotations, declare to have no tensors."""
    types = [(one.name, str(one.type)) for schema in schemas for one in schema.arguments]
    if not types and inspect.isfunction(function):
        named = function.__annotations__.items()
        types = [(name, str(annotation)) for name, annotation in named]
    return {name for name, _ in types} - {name for name, kind in types if "Tensor" in kind}


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
