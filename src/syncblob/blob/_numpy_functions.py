"""NumPy's functions on Blobs: ``__array_ufunc__`` and ``__array_function__``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.blob._operators import Operators
from syncblob.dispatch.numpy.functions import array_ufunc
from syncblob.dispatch.numpy.plans import array_function

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import numpy as np

__all__ = ["NumpyFunctions"]


class NumpyFunctions(Operators):
    """NumPy's protocols for its functions; see `syncblob.dispatch.numpy`."""

    __slots__ = ()

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:  # NumPy's protocol
        """Compute a ufunc, or one of its methods; NumPy calls this.

        Returns
        -------
        Blob or tuple of Blob
            What was given as `out` is returned as it is, an array too. A result of a dtype that
            no Blob has, such as longdouble, is an array.
        """
        return array_ufunc(self, ufunc, method, inputs, kwargs)

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Compute one of NumPy's other functions; NumPy calls this.

        Returns
        -------
        Any
            As the function gives it, with a Blob in the place of each array and of each of NumPy's
            scalars. Blobs that share memory with an argument are views of it. What was given as
            `out` is returned as it is, an array too.
        """
        return array_function(self, func, types, args, kwargs)
