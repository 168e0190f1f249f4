"""The rules of functions, which the engine reads: what they write, which return views.

One of NumPy's functions in none of these tables reads its arguments and returns new arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob._dtypes import is_bfloat16

if TYPE_CHECKING:
    from syncblob.devices.base import Home


# The arguments of a call by position or keyword, or their types.
Key = int | str
Arguments = Mapping[Key, Any]


def _nothing(_given: Any) -> Any:
    return {}


class Rules(NamedTuple):
    """What the engine has to know of a function."""

    name: str
    """For messages, and to look the function up in the library of a device."""
    function: Callable[..., Any]
    """The function of arrays, which NumPy or, through its protocols, CuPy computes."""
    native: Callable[..., Any]
    """The same for NumPy's arrays alone: without the dispatch."""
    written: Callable[[Arguments], Mapping[Key, bool]] = _nothing
    """Returns which arguments of a call are written, and whether wholly."""
    plain: Callable[[Arguments], Collection[Key]] = _nothing
    """Returns which arguments are axes, shapes and the like, where an array is no operand."""
    home: Home | None = None
    """The home that always computes, without a question to the guards."""
    const: bool = False
    """Whether results that are views are const."""
    by_name: bool = False
    """Whether arrays of a device do not dispatch to the function, so that it is looked up there."""
    with_library: bool = False
    """Whether the function takes the array library first."""
    elementwise: bool = False
    """Whether it computes element by element, or a matrix product, in new arrays."""
    check: Callable[..., None] | None = None
    """Of an in-place operator: raises unless the result has the dtype and shape of the Blob."""
    empty: bool = False
    """Whether only the shape and dtype of a Blob are used, to make an array."""
    plan: Any = None
    """Returns the function that makes calls, given these rules and the types of the arguments."""

    def function_in(self, home: Home, *, by_name: bool) -> Callable[..., Any]:
        """Return the function for arrays of a home."""
        if by_name and not home.native:
            return home.own(self.name)
        return partial(self.function, home.namespace) if self.with_library else self.function


def _named(names: str) -> list[Callable[..., Any]]:
    return [attrgetter(name)(np) for name in names.split()]


# The functions that write their first argument. In addition, every function writes its `out`.
_ALWAYS_WRITE = frozenset(_named("copyto fill_diagonal place put put_along_axis putmask"))
_QUANTILES = _named("median nanmedian nanpercentile nanquantile percentile quantile")
# The same if an option has a value.
_WRITE_IF: dict[Callable[..., Any], tuple[str, bool]] = {
    np.nan_to_num: ("copy", False),
    **dict.fromkeys(_QUANTILES, ("overwrite_input", True)),
}
# They may leave the rest of a larger `out`, some if an argument is given; so do ufuncs'
# `accumulate` and `reduceat`.
_LEAVE_REST: dict[Callable[..., Any], str] = {
    **dict.fromkeys(_named("cumprod cumsum cumulative_prod cumulative_sum"), "out"),
    **dict.fromkeys(_named("nancumprod nancumsum"), "out"),
    **dict.fromkeys(_QUANTILES, "keepdims"),
}

# The functions that only make views of their first argument, if it has at least so many axes;
# `ravel` and `reshape` if possible.
_USUAL_VIEWS = """
array_split dsplit expand_dims fliplr flipud hsplit linalg.matrix_transpose matrix_transpose
moveaxis permute_dims ravel reshape rollaxis rot90 split squeeze swapaxes transpose vsplit
"""
_CONST_VIEWS = "broadcast_to diagonal lib.stride_tricks.sliding_window_view linalg.diagonal"
VIEWS: dict[Callable[..., Any], int] = {
    **dict.fromkeys(_named(_USUAL_VIEWS + _CONST_VIEWS), 0),
    np.diag: 2,
    np.flip: 1,
    np.unstack: 2,
}
# They and others do, given nothing else.
VIEWS_OF_ONE = VIEWS | dict.fromkeys(_named("atleast_1d atleast_2d atleast_3d"), 0)
# The functions whose views are const, most of them because their elements overlap.
CONST_VIEWS = frozenset(_named(f"{_CONST_VIEWS} broadcast_arrays diag meshgrid"))

# Which parameter is for indices. The other of the first two is for what they index.
INDICES: dict[Callable[..., Any], int] = {
    **dict.fromkeys(_named("choose compress extract"), 0),
    **dict.fromkeys(_named("put put_along_axis take take_along_axis"), 1),
}

# They use only shapes and dtypes, and read no element.
QUESTIONS = frozenset(
    _named("can_cast common_type einsum_path iscomplexobj isrealobj ndim result_type shape size")
)

# They use only the shape and dtype of their first argument.
EMPTY_LIKE = frozenset({np.empty_like, np.full_like, np.ones_like, np.zeros_like})

# Their results are on the host, or say where its memory is.
ON_THE_HOST = frozenset(
    _named(
        "array2string array_repr array_str may_share_memory save savetxt savez savez_compressed "
        "shares_memory"
    )
)

# Parameters for axes, shapes and the like; an array passed to them is not an operand.
_PLAIN = frozenset(
    """
    axes axis axis1 axis2 axisa axisb axisc dims indices_or_sections n order pad_width reps repeats
    s shape shift source destination window_shape
    """.split()  # noqa: SIM905  # reads best as words
)

# Functions written in C have no signature in some versions of NumPy.
_WITHOUT_SIGNATURE: dict[Callable[..., Any], tuple[str, ...]] = {
    np.concatenate: ("arrays", "axis", "out"),
    np.copyto: ("dst", "src", "casting", "where"),
    np.dot: ("a", "b", "out"),
}

# Faster methods of ndarray with the same parameters in the same order. `np.all` and `np.any` have
# another order than their methods; those of `np.std` and `np.var` have no `correction`.
_METHODS = """
argmax argmin argsort cumprod cumsum diagonal max mean min prod ravel repeat round squeeze sum
swapaxes take transpose
"""
METHODS: dict[Callable[..., Any], Callable[..., Any]] = {
    getattr(np, name): getattr(np.ndarray, name) for name in _METHODS.split()
}


@cache
def names_of(function: Callable[..., Any]) -> dict[Key, str]:
    """Return the names of a function's parameters by the keys that arguments may have."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        names = _WITHOUT_SIGNATURE.get(function, ())
        return {**dict(enumerate(names)), **dict(zip(names, names, strict=True))}
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    result: dict[Key, str] = {name: name for name in parameters}
    places = enumerate(parameters.values())
    return result | {n: each.name for n, each in places if each.kind in positional}


def keys_by_name(function: Callable[..., Any], given: Arguments) -> dict[str, Key]:
    """Return the keys of arguments by the names of the parameters."""
    names = names_of(function)
    return {names[key]: key for key in given if key in names}


def first_argument(function: Callable[..., Any], given: Arguments) -> Key:
    """Return the key of a function's first argument."""
    # NumPy 2.2 does not tell the parameters of some functions in C.
    return 0 if 0 in given else names_of(function).get(0, 0)


def written_arguments(function: Callable[..., Any], given: Arguments) -> dict[Key, bool]:
    """Return the arguments that a call writes, and whether it writes every element of each."""
    keys = keys_by_name(function, given)
    # Some functions pass it on, and do not name it.
    whole = given.get(keys.get("where", "where"), True) is True
    result: dict[Key, bool] = {}
    if "out" in keys:
        # The other functions with a mask are reductions, which write every element.
        leaves_rest = _LEAVE_REST.get(function) in keys
        result[keys["out"]] = not leaves_rest and (whole or function is not np.clip)
    option, wanted = _WRITE_IF.get(function, ("", None))
    value = given[keys[option]] if option in keys else None
    if function in _ALWAYS_WRITE or (value is not None and bool(value) is wanted):
        result[first_argument(function, given)] = function is np.copyto and whole
    return result


def plain_arguments(function: Callable[..., Any], given: Arguments) -> set[Key]:
    """Return the keys of arguments for axes, shapes and the like."""
    return {key for name, key in keys_by_name(function, given).items() if name in _PLAIN}


def has_option(function: Callable[..., Any], given: Arguments) -> bool:
    """Return whether an option is given on which it depends whether a function writes."""
    return _WRITE_IF.get(function, ("",))[0] in keys_by_name(function, given)


def split_keys(given: Arguments) -> tuple[int, tuple[str, ...]]:
    """Return the number of positional arguments, and the names of the others."""
    names = tuple(key for key in given if type(key) is str)
    return len(given) - len(names), names


@cache
def keeps_dtype(kernel: Callable[..., Any], dtype: np.dtype[Any], other: Any) -> bool:
    """Tell whether a kernel gives the first dtype; the other may be the type of a scalar."""
    if other is float and is_bfloat16(dtype):
        return True
    found = result_dtype(kernel, dtype, other)
    return found is not None and found == dtype


@cache
def result_dtype(kernel: Callable[..., Any], *kinds: Any) -> np.dtype[Any] | None:
    """Return the dtype of the result, given dtypes or types of scalars; None if there is none."""
    try:
        operands = [kind(1) if isinstance(kind, type) else np.ones((1, 1), kind) for kind in kinds]
        with np.errstate(all="ignore"):
            return getattr(kernel(*operands), "dtype", None)
    except TypeError:
        return None
