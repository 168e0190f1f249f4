"""Tables of NumPy's functions: which arguments they write, and which return views.

A function in none of these tables reads its arguments and returns new arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from syncblob._shape import require_repeats


class Views(NamedTuple):
    """Which views a function returns, and of which arguments."""

    axes: int = 0
    """The number of axes from which on it returns nothing but views."""
    several: bool = False
    """Whether all its positional arguments may be arrays, not only the first."""
    const: bool = False
    """Whether its views are read-only in NumPy."""


def _named(names: str) -> list[Callable[..., Any]]:
    """Return NumPy's functions of these names."""
    return [attrgetter(name)(np) for name in names.split()]


# The functions that write their first argument. In addition, every function writes its `out`.
_ALWAYS_WRITE = frozenset(_named("copyto fill_diagonal place put put_along_axis putmask"))
# The same if an option has a value.
_WRITE_IF: dict[Callable[..., Any], tuple[str, bool]] = {
    np.nan_to_num: ("copy", False),
    **dict.fromkeys(
        (np.median, np.nanmedian, np.nanpercentile, np.nanquantile, np.percentile, np.quantile),
        ("overwrite_input", True),
    ),
}
WRITES = _ALWAYS_WRITE | _WRITE_IF.keys()

# The functions that only make views: `ravel` and `reshape` if possible.
# Most of the const ones are, because their elements overlap.
_USUAL_VIEWS = """
array_split dsplit expand_dims fliplr flipud hsplit linalg.matrix_transpose matrix_transpose
moveaxis permute_dims ravel reshape rollaxis rot90 split squeeze swapaxes transpose vsplit
"""
_CONST_VIEWS = "broadcast_to diagonal lib.stride_tricks.sliding_window_view linalg.diagonal"
VIEWS: dict[Callable[..., Any], Views] = {
    **dict.fromkeys(_named(_USUAL_VIEWS), Views()),
    **dict.fromkeys(_named(_CONST_VIEWS), Views(const=True)),
    **dict.fromkeys(_named("atleast_1d atleast_2d atleast_3d"), Views(several=True)),
    np.broadcast_arrays: Views(several=True, const=True),
    np.diag: Views(axes=2, const=True),
    np.flip: Views(axes=1),
    np.unstack: Views(axes=2),
}
# The usual number of arguments of those that copy if they must.
VIEWS_OR_COPIES: dict[Callable[..., Any], int] = {np.ravel: 1, np.reshape: 2}
OVERLAPPING: set[Any] = {
    *(function for function, views in VIEWS.items() if views.const),
    np.meshgrid,
}

# The parameters for indices or a condition, and for the array or the sequence that they index.
INDICES: dict[Callable[..., Any], tuple[str, str]] = {
    np.choose: ("a", "choices"),
    np.compress: ("condition", "a"),
    np.extract: ("condition", "arr"),
    np.put: ("ind", "a"),
    np.put_along_axis: ("indices", "arr"),
    np.take: ("indices", "a"),
    np.take_along_axis: ("indices", "arr"),
}

# They use only shapes and dtypes, and read no element.
QUESTIONS = frozenset(
    _named("can_cast common_type einsum_path iscomplexobj isrealobj ndim result_type shape size")
)

# They return an attribute of their argument.
OF_ATTRIBUTES = frozenset({np.imag, np.real})

# They use only the shape and dtype of their first argument.
EMPTY_LIKE = frozenset({np.empty_like, np.full_like, np.ones_like, np.zeros_like})

SHARING = frozenset({np.may_share_memory, np.shares_memory})

# Their results are on the host.
TEXTS_AND_FILES = frozenset(
    _named("array2string array_repr array_str save savetxt savez savez_compressed")
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
    np.busday_count: ("begindates", "enddates", "weekmask", "holidays", "busdaycal", "out"),
    np.busday_offset: ("dates", "offsets", "roll", "weekmask", "holidays", "busdaycal", "out"),
    np.concatenate: ("arrays", "axis", "out"),
    np.copyto: ("dst", "src", "casting", "where"),
    np.dot: ("a", "b", "out"),
    np.is_busday: ("dates", "weekmask", "holidays", "busdaycal", "out"),
}

# Faster methods of ndarray with the same parameters in the same order. `np.all` and `np.any` have
# another order than their methods; those of `np.std` and `np.var` have no `correction`.
_METHODS = """
argmax argmin argsort cumprod cumsum diagonal max mean min prod ravel repeat round squeeze sum take
"""
METHODS: dict[Callable[..., Any], Callable[..., Any]] = {
    getattr(np, name): getattr(np.ndarray, name) for name in _METHODS.split()
}


def _repeat(array: Any, repeats: Any, axis: Any = None) -> Any:
    require_repeats(array.shape, array.itemsize, repeats, axis)
    return array.repeat(repeats, axis)


METHODS[np.repeat] = _repeat

# NumPy's ufuncs. For supported dtypes, their results have supported dtypes.
ELEMENTWISE = frozenset(each for each in vars(np).values() if isinstance(each, np.ufunc))


@cache
def positions(function: Callable[..., Any]) -> dict[str, int]:
    """Return the positions of a function's parameters; -1 for keyword-only ones."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return {
            name: position for position, name in enumerate(_WITHOUT_SIGNATURE.get(function, ()))
        }
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {
        name: position if parameter.kind in positional else -1
        for position, (name, parameter) in enumerate(parameters.items())
    }


def _argument(
    function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> int | str | None:
    """Return the position or keyword of an argument; None if it was not given.

    A keyword that a function collects, as `savez` does, is no parameter.
    """
    position = positions(function).get(name)
    if position is None:
        return None
    if name in kwargs:
        return name
    return position if 0 <= position < len(args) else None


def first_argument(function: Callable[..., Any], args: Sequence[Any]) -> int | str:
    """Return the position or keyword of a function's first argument."""
    # NumPy 2.2 does not tell the parameters of some functions in C.
    return 0 if args else next(iter(positions(function)), 0)


def value_of(
    function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Return the value of an argument; None if it was not given."""
    key = _argument(function, name, args, kwargs)
    if key is None:
        return None
    return kwargs[key] if isinstance(key, str) else args[key]


def written_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[int | str, bool]:
    """Return the arguments that a call writes, and whether it writes every element of each."""
    if len(args) <= 1 and "out" not in kwargs and function not in WRITES:
        return {}
    whole = kwargs.get("where", True) is True
    result: dict[int | str, bool] = {}
    out = _argument(function, "out", args, kwargs)
    if out is not None:
        # The other functions with a mask are reductions, which write every element.
        result[out] = whole or function is not np.clip
    option, wanted = _WRITE_IF.get(function, ("", None))
    value = value_of(function, option, args, kwargs)
    if function in _ALWAYS_WRITE or (value is not None and bool(value) is wanted):
        # Of a call without a mask.
        whole = whole and len(args) <= positions(function).get("where", len(args))
        result[first_argument(function, args)] = function is np.copyto and whole
    return result


def plain_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> set[int | str]:
    """Return the positions and keywords of arguments for axes, shapes and the like."""
    keys = {_argument(function, name, args, kwargs) for name in _PLAIN & {*positions(function)}}
    return {key for key in keys if key is not None}
