"""Calls with array-likes that implement NumPy's protocols themselves ("strangers").

The protocols of strangers are called first. If all of them decline, Blobs are replaced by read-only
host arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np

from syncblob.arrays import foreign
from syncblob.blob.core import BlobCore
from syncblob.calls import tables
from syncblob.calls.foreign_operators import host_value, known_form
from syncblob.calls.make_call import joined
from syncblob.calls.nested import instances, replaced
from syncblob.calls.operands import shape_only


def _has_strangers(protocol: str, *kinds: type) -> bool:
    return any(
        foreign.is_stranger(kind, protocol) for kind in kinds if not issubclass(kind, BlobCore)
    )


# Returns whether some types, other than Blob, implement a protocol of NumPy's in their own way.
has_strangers: Callable[..., bool] = lru_cache(maxsize=1024)(_has_strangers)


def ufunc_with_strangers(ufunc: np.ufunc, method: str, inputs: Any, kwargs: Any) -> Any:
    """Return the first stranger's result that is not NotImplemented, else that with ndarrays."""
    protocol, out = "__array_ufunc__", kwargs.get("out", ())
    if type(out) is not tuple:
        # The protocol has a tuple.
        out = (out,)
        kwargs = {**kwargs, "out": out}
    strangers = [x for x in (*inputs, *out) if has_strangers(protocol, type(x))]
    answer = _answer(protocol, strangers, (ufunc, method, *inputs), kwargs)
    if answer is not NotImplemented:
        return answer
    _require_arrays(ufunc.__name__, (*out, *inputs[:1]) if method == "at" else out, strangers)
    arrays = replaced(inputs, BlobCore, host_value)
    return getattr(ufunc, method)(*arrays, **replaced(kwargs, BlobCore, np.asarray))


def function_with_strangers(
    function: Callable[..., Any], types: Collection[type], args: Any, kwargs: Any
) -> Any:
    """Do the same for ``__array_function__``; NotImplemented if a stranger is not found."""
    name, protocol = function.__name__, "__array_function__"
    everything = (*args, *kwargs.values())
    kinds = [kind for kind in types if has_strangers(protocol, kind)]
    strangers = [next(instances(everything, kind), None) for kind in kinds]
    if any(x is None for x in strangers):
        return NotImplemented
    answer = _answer(protocol, strangers, (function, types, args, kwargs), {})
    if answer is not NotImplemented:
        return answer
    asks = function in tables.QUESTIONS
    if not asks and any(isinstance(x, np.ma.MaskedArray) for x in strangers):
        raise TypeError(
            f"{name} may lose the mask of a MaskedArray; give it the array's .filled(), or "
            "numpy.asarray() of the Blob"
        )
    written = tables.written_arguments(function, args, kwargs)
    arguments = joined(args, kwargs)
    _require_arrays(name, [arguments[key] for key in written], strangers)
    replace = shape_only if asks else np.asarray
    return function(*replaced(args, BlobCore, replace), **replaced(kwargs, BlobCore, replace))


def _answer(
    protocol: str, strangers: Iterable[Any], request: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Call the protocols from left to right, as NumPy does; NotImplemented if all decline."""
    for x in strangers:
        try:
            known = replaced(request, BlobCore, partial(known_form, other=x))
            answer = getattr(type(x), protocol)(x, *known, **kwargs)
        except TypeError:
            continue
        if answer is not NotImplemented:
            return answer
    return NotImplemented


def _require_arrays(name: str, written: Any, strangers: Iterable[Any]) -> None:
    """Raise if a Blob would be written."""
    if next(instances([*written], BlobCore), None) is not None:
        kinds = ", ".join(sorted({type(x).__name__ for x in strangers}))
        raise TypeError(
            f"{name} writes into a Blob, and cannot take {kinds}; convert it with numpy.asarray()"
        )
