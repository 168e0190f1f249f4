"""Which arguments of a PyTorch function are written: plans of calls, one for each pattern of them.

The schema of an operator declares which arguments are written. Functions written in Python have no
schema. Their parameters tell: ``inplace=True``, ``running_mean`` while training, ``max_norm``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType
from typing import Any, NamedTuple

import torch

from syncblob.blob.core import BlobCore
from syncblob.calls.nested import NESTED, instances

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
# With `max_norm`, rows of the weight are renormalized in place.
_RENORMALISED = ("weight", "max_norm")

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


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The plan of the calls of one function with one pattern of arguments.

    Arguments are numbered: first the positional ones, then the keyword arguments.
    """

    name: str
    """The name of the function, for messages and the log."""
    shape_only: tuple[int, ...]
    """The Blobs of which the function reads no element."""
    computes: bool
    """Whether it computes elements, so that guards apply."""
    written: Mapping[int, bool]
    """The arguments that are written, and whether every element of each is."""
    blobs: tuple[int, ...]
    """The arguments that are Blobs."""
    tensors: tuple[int, ...]
    """The arguments that are tensors."""
    nested_blobs: tuple[int, ...]
    """The lists, tuples and dicts that may contain Blobs."""
    nested_tensors: tuple[int, ...]
    """The lists, tuples and dicts that may contain tensors."""
    positional: bool
    """Whether no keyword argument is or may contain a Blob or a tensor."""
    keeps: bool
    """Whether a Blob may lend its kept tensor: torch's own functions store no argument."""
    direct: bool
    """Whether the function only reads, and can use kept tensors."""
    views: bool
    """Whether it is such a function, with one Blob and no tensor, and may return a view."""
    decisive: tuple[int, ...]
    """The arguments whose contents, and not only types, determine the plan."""

    def blobs_in(self, values: Sequence[Any]) -> list[BlobCore]:
        """Return the Blobs among the arguments of a call, including nested ones."""
        found = [values[place] for place in self.blobs]
        for place in self.nested_blobs:
            found += instances(values[place], BlobCore)
        return found

    def tensors_in(self, values: Sequence[Any]) -> list[torch.Tensor]:
        """Return the tensors among the arguments of a call, including nested ones."""
        # Faster than a comprehension, which is a call in Python 3.11.
        found = [*map(values.__getitem__, self.tensors)]
        for place in self.nested_tensors:
            found += instances(values[place], torch.Tensor)
        return found


def plan_call(function: Callable[..., Any], values: Sequence[Any], names: tuple[str, ...]) -> Plan:
    """Return the plan of a call of a torch function, cached by pattern of arguments.

    Raises TypeError if the function returns a tensor's memory as something other than a tensor.
    """
    # Inlined for few arguments, because `map` would take most of the time.
    match values:
        case [x]:
            plan = _plan(function, names, type(x))
        case [x, y]:
            plan = _plan(function, names, type(x), type(y))
        case [x, y, z]:
            plan = _plan(function, names, type(x), type(y), type(z))
        case _:
            plan = _plan(function, names, *map(type, values))
    if plan.decisive:
        pattern: list[_Pattern] = [*map(type, values)]
        for place in plan.decisive:
            pattern[place] = _contents(values[place])
        plan = _plan(function, names, *pattern)
    return plan


# An entry of a pattern: the type of an argument; for a list or tuple, the set of the patterns of
# its items; for a flag that determines which arguments are written, its truth value.
_Pattern = Any

_SEQUENCES = frozenset({list, tuple})


def _contents(x: Any) -> _Pattern:
    """Return the pattern of a decisive argument."""
    if type(x) not in _SEQUENCES:
        return bool(x)
    kinds = frozenset(map(type, x))
    if kinds.isdisjoint(_SEQUENCES):
        return kinds
    return frozenset(_contents(item) if type(item) in _SEQUENCES else type(item) for item in x)


def _make_plan(function: Callable[..., Any], names: tuple[str, ...], *pattern: _Pattern) -> Plan:
    """Make a plan."""
    if function in _EXPORTS:
        raise TypeError(
            f"torch.Tensor.{function.__name__} takes a tensor, got a Blob, whose memory it would "
            f"expose untracked; call the method of the Blob, or of blob.to_torch()"
        )
    rule = _rule(function)
    arguments = _Arguments(rule, pattern, names)
    written = arguments.written()
    name = getattr(function, "__name__", "torch")
    blobs, nested_blobs = arguments.of(BlobCore), arguments.holding(BlobCore)
    like = name.endswith("_like")
    shape_only: tuple[int, ...] = blobs if function in _SHAPE_ONLY else ()
    if like:
        # The first parameter of torch's builtin functions.
        shape_only = tuple(i for i in shape_only if i == arguments.place("self"))
    tensors, nested_tensors = arguments.of(torch.Tensor), arguments.holding(torch.Tensor)
    places = (*blobs, *nested_blobs, *tensors, *nested_tensors, *written)
    direct = rule.keeps and not written and not shape_only
    return Plan(
        name,
        shape_only,
        # The ``*_like`` functions compute the elements of their result.
        function not in _SHAPE_ONLY or like,
        written,
        blobs,
        tensors,
        nested_blobs,
        nested_tensors,
        max(places, default=0) < len(pattern) - len(names),
        rule.keeps,
        direct,
        direct and rule.views and places == blobs and len(blobs) == 1,
        tuple(arguments.decisive),
    )


# Typed here, because the stubs say that types are not hashable.
_plan: Callable[..., Plan] = lru_cache(maxsize=4096)(_make_plan)


def _is_kind(pattern: _Pattern, kind: type | tuple[type, ...]) -> bool:
    return isinstance(pattern, type) and issubclass(pattern, kind)


def _may_hold(pattern: _Pattern, kind: type) -> bool:
    """Return whether an argument may be a collection that contains instances of a class."""
    if not isinstance(pattern, frozenset):
        # The contents of a dict, or of a subclass of these types, are not part of the pattern.
        return _is_kind(pattern, NESTED)
    return any(_is_kind(item, kind) or _may_hold(item, kind) for item in pattern)


class _Arguments:
    """The pattern of one call, with the rule of its function."""

    def __init__(self, rule: _Rule, pattern: tuple[_Pattern, ...], names: tuple[str, ...]) -> None:
        self._rule = rule
        self._pattern = pattern
        parameters = rule.parameters
        unnamed = len(pattern) - len(names)
        # The parameter of each argument; "self" in the schemas is "input" in Python.
        self._names: list[str | None] = [*parameters[:unnamed]]
        self._names += [None] * (unnamed - len(self._names))
        self._names += ["self" if n == "input" and "self" in parameters else n for n in names]
        # The arguments whose contents matter; `written` adds the flags.
        self.decisive = {i for i, entry in enumerate(pattern) if entry in _SEQUENCES}

    def of(self, kind: type) -> tuple[int, ...]:
        """Return the arguments that are instances of a class."""
        return tuple(i for i, entry in enumerate(self._pattern) if _is_kind(entry, kind))

    def holding(self, kind: type) -> tuple[int, ...]:
        """Return the arguments that may contain instances of a class."""
        return tuple(i for i, entry in enumerate(self._pattern) if _may_hold(entry, kind))

    def written(self) -> dict[int, bool]:
        """Return which arguments are written, and whether completely."""
        rule = self._rule
        written = {*rule.written, *self._conditional()}
        result = {i: False for i, name in enumerate(self._names) if name in written}
        outs = {*rule.outs, "out"}
        result |= {i: name in rule.outs for i, name in enumerate(self._names) if name in outs}
        return result

    def _conditional(self) -> Iterator[str]:
        """Yield the parameters that are written because of other arguments."""
        parameters = {*self._rule.parameters, *self._names}
        if self._flag("inplace"):
            yield self._rule.parameters[0]
        weight, max_norm = _RENORMALISED
        place = self.place(max_norm)
        if place is not None and self._pattern[place] is not NoneType:
            yield weight
        if parameters.issuperset(_RUNNING):
            flags = [flag for flag in _TRAINING if flag in parameters]
            # For a flag that was not given, assume that its default makes the function write.
            if not flags or any(self._flag(flag) is not False for flag in flags):
                yield from _RUNNING

    def _flag(self, name: str) -> bool | None:
        """Return the truth value of a flag; None if it is None, missing, or not known yet."""
        place = self.place(name)
        entry = NoneType if place is None else self._pattern[place]
        if place is None or entry is NoneType:
            return None
        if isinstance(entry, type):
            self.decisive.add(place)
            return None
        return bool(entry)

    def place(self, name: str) -> int | None:
        """Return the number of the argument for a parameter; None if it was not given."""
        return self._names.index(name) if name in self._names else None


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


@lru_cache(maxsize=4096)
def _rule(function: Callable[..., Any]) -> _Rule:
    """Determine which arguments a function writes."""
    schemas = _schemas(function)
    # Some functions, such as `Tensor.pow`, only wrap a builtin one, which has no signature.
    written_in_python = inspect.isfunction(inspect.unwrap(function))
    parameters = tuple(inspect.signature(function).parameters) if written_in_python else ()
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
    return _Rule(parameters, frozenset(written), frozenset(outs), keeps, views)


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
