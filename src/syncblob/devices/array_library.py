"""Accelerators with an array library of their own, whose arrays NumPy's functions do not take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from syncblob.devices.base import Accelerator

# Functions that make an array without being given one.
_CREATION = frozenset(
    """
    arange array asarray empty eye fftfreq frombuffer fromfile fromfunction fromiter fromstring full
    identity linspace loadtxt ones rfftfreq tri zeros
    """.split()  # noqa: SIM905  # reads best as words
)
# Functions in which NumPy differs from the array API's standard; libraries are taken as they are.
_CORRECTED = "syncblob._corrected"
_NUMBERS = (bool, int, float, complex, np.generic)
_COMPARISONS = frozenset(
    (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)
)
# The position of the value that a function assigns to elements of its first argument; its names.
_ASSIGNMENTS = {
    **dict.fromkeys(("copyto", "fill_diagonal", "full_like"), 1),
    **dict.fromkeys(("insert", "place", "put", "put_along_axis", "putmask"), 2),
    "pad": 3,
}
_VALUES = frozenset(("constant_values", "fill_value", "src", "v", "val", "vals", "values"))


class Namespace:
    """An array library whose creation functions make arrays on one device.

    Parameters
    ----------
    module
        The library.
    device, **keywords
        What its creation functions take for ``device=`` and other keywords.
    """

    def __init__(self, module: ModuleType, device: Any, **keywords: Any) -> None:
        self._module = module
        self._keywords = {"device": device, **keywords}

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the library."""
        found = getattr(self._module, name)
        if name in _CREATION:
            return partial(found, **self._keywords)
        return Namespace(found, **self._keywords) if isinstance(found, ModuleType) else found


class LibraryHome(Accelerator):
    """An accelerator whose arrays are of a library of its own.

    The library has NumPy's functions under their names, and its arrays have the methods of ndarrays
    that docs/device-backend.md lists.
    """

    native = False
    views = False

    def compute(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call a function; the library's own in place of one of NumPy's.

        Raises NotImplementedError if the library has no such function.
        """
        name, where = _name_of(function), True
        if name is not None:
            own = self.own(name)
            ufunc = getattr(np, name, None)
            if isinstance(ufunc, np.ufunc):
                args, after = args[: ufunc.nin], args[ufunc.nin :]
                if after:
                    keywords["out"] = after
                if keywords.get("out") is not None:
                    # A library without `out` would leave arbitrary values where this is False.
                    where = keywords.pop("where", True)
                if all(isinstance(x, _NUMBERS) for x in args):
                    # Libraries take no numbers only.
                    own = ufunc
                elif ufunc is np.true_divide:
                    # An integer that does not fit is divided, too, because the result is a float.
                    args = tuple([float(x) if type(x) is int else x for x in args])
                elif name == "power":
                    self.require_powers(*args)
                elif ufunc in _COMPARISONS and (shape := _shape_beside_large(*args)) is not None:
                    # Any number of the dtype compares with it as zero does.
                    x1, x2 = (x if type(x) is int else 0 for x in args)
                    own, args = partial(self.namespace.full, dtype=bool), (shape, ufunc(x1, x2))
            elif name in _ASSIGNMENTS:
                _require_fit(name, args, keywords)
            # Arrays that are no operands, such as shapes.
            args = tuple([x.tolist() if isinstance(x, np.ndarray) else x for x in args])
            out = keywords.pop("out", None)
            function = own if out is None else partial(self._into, out, where, own)
        return super().compute(function, *args, **keywords)

    def own(self, name: str) -> Callable[..., Any]:
        """Return the library's function of a name.

        Raises NotImplementedError if there is none.
        """
        try:
            return super().own(name)
        except AttributeError:
            raise NotImplementedError(
                f"{self.device} cannot compute {name}, which its array library lacks; compute on "
                "the host, with blob.on('cpu')"
            ) from None

    def as_array(self, result: Any) -> Any:
        """Return an array; a 0-d array for a number."""
        return self.namespace.asarray(result) if isinstance(result, _NUMBERS) else result

    def owns(self, array: Any) -> bool:
        """Return False: these arrays do not tell whether they are views."""
        del array
        return False

    def overlap(self, array: Any, buffer: Any) -> bool:
        layout = self.layout(array, self.address(buffer))
        return layout.start < buffer.nbytes and layout.stop > 0

    def _into(
        self, out: Any, where: Any, function: Callable[..., Any], *args: Any, **keywords: Any
    ) -> Any:
        """Call a function, and assign its results to arrays: libraries may have no `out`.

        Raises TypeError, ValueError if a result has another shape, or a dtype that is not of the
        same kind.
        """
        targets = out if isinstance(out, tuple) else (out,)
        results = function(*args, **keywords)
        pairs = list(zip(targets, results if len(targets) > 1 else (results,), strict=True))
        for target, result in pairs:
            shape = np.broadcast_shapes(result.shape, getattr(where, "shape", ()))
            if shape != tuple(target.shape):
                raise ValueError(f"expected out of shape {shape}, got {target.shape}")
            if not np.can_cast(result.dtype, target.dtype, "same_kind"):
                raise TypeError(
                    f"expected out of a dtype that holds {result.dtype}, got {target.dtype}"
                )
        for target, result in pairs:
            if where is True:
                target[...] = result
            else:
                self.own("copyto")(target, self.as_array(result), where=where)
        return out if len(targets) > 1 else targets[0]


def _name_of(function: Any) -> str | None:
    """Return the name of a function of NumPy's, or of a corrected one; None for other functions."""
    module = getattr(function, "__module__", None) or ""
    if module in {"numpy", _CORRECTED}:
        return str(function.__name__)
    if module.startswith("numpy."):
        return f"{module.removeprefix('numpy.')}.{function.__name__}"
    return None


def _shape_beside_large(x1: Any, x2: Any) -> Any:
    """Return the shape of an array of integers beside a Python integer that its dtype lacks."""
    number, array = (x1, x2) if type(x1) is int else (x2, x1)
    if type(number) is not int or array.dtype.kind not in "iu":
        return None
    limits = np.iinfo(array.dtype)
    return None if limits.min <= number <= limits.max else tuple(array.shape)


def _require_fit(name: str, args: Any, keywords: Any) -> None:
    """Raise an OverflowError for a Python integer that does not fit; libraries may wrap it."""
    others = [x for key, x in keywords.items() if key not in _VALUES]
    named = [x for key, x in keywords.items() if key in _VALUES]
    dtype, position = keywords.get("dtype"), _ASSIGNMENTS[name]
    for value in (*args[position : position + 1], *named):
        if type(value) is int:
            np.empty((), (*args, *others)[0].dtype if dtype is None else dtype)[()] = value
