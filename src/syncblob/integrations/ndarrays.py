"""Make functions that require ndarrays accept Blobs.

They get read-only host arrays, or writable ones for the arguments in `write`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial, wraps
from typing import Any

import numpy as np

from syncblob._blob import Blob
from syncblob.calls.nested import replace_instances
from syncblob.calls.tables import names_of

__all__ = ["takes_blobs"]


def takes_blobs(
    function: Callable[..., Any] | None = None, /, *, write: Collection[int | str] = ()
) -> Callable[..., Any]:
    """Convert the Blobs among a function's arguments to ndarrays; also a decorator.

    This includes Blobs in lists, tuples and dicts. Transfers are those of `numpy.asarray`.

    Raises TypeError if `write` is a string; ValueError in a call, if a const Blob would be written.

    Parameters
    ----------
    function
        A function of ndarrays.
    write
        Positions or names of the arguments that the function writes. It gets writable arrays of
        `syncblob.Blob.cpu`, a mutable access of the host that lasts as long as the arrays. All
        other arrays are read-only.

    Returns
    -------
    Callable
        A function that calls `function`. If the result is, or contains, an array that replaced a
        Blob, the Blob is returned instead; other results are unchanged.
    """
    if isinstance(write, str):
        raise TypeError(
            f"expected a collection of names and positions, got {write!r}; write [{write!r}]"
        )
    if function is None:
        return partial(takes_blobs, write=write)
    names = names_of(function)
    targets = {*write, *(names[key] for key in write if key in names)}

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        lent: dict[int, tuple[Any, Any]] = {}

        def lend(blob: Any, *, written: bool) -> Any:
            if written and blob.flags.writeable is False:
                raise ValueError("the function writes, and this Blob is a const view")
            array = np.asarray(blob.cpu if written else blob)
            lent[id(array)] = array, blob
            return array

        def convert(key: int | str, x: Any) -> Any:
            written = key in targets or names.get(key) in targets
            return replace_instances(x, Blob, partial(lend, written=written))

        result = function(
            *(convert(index, x) for index, x in enumerate(args)),
            **{name: convert(name, x) for name, x in kwargs.items()},
        )
        return replace_instances(result, np.ndarray, lambda x: lent.get(id(x), (x, x))[1])

    return call
