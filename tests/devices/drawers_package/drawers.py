"""An array library with the peculiarities of dpnp's, on host memory that NumPy computes with.

NumPy's functions do not take its arrays, and its functions take no arrays of NumPy's. Strides count
elements. Arrays have no `base`. Functions have no `out`. The name of a function is NumPy's. Arrays
in an index are neighbours, without integers, None or an Ellipsis, and out of bounds are clipped.
"""

from __future__ import annotations

import operator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

PROTOCOL = "__drawer_array_interface__"
DLPACK_TYPE = 12  # kDLExtDev
DEVICES = 2

_CREATION = {"arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros"}


class Array:
    """An array in a drawer."""

    __slots__ = ("__weakref__", "_inside", "drawer", "owner")

    __array_ufunc__ = None
    __hash__ = None

    def __init__(self, inside: np.ndarray, drawer: int, owner: object = None) -> None:
        self._inside = np.asarray(inside)
        self.drawer = drawer
        self.owner = owner

    def __array__(self, *_args: Any, **_keywords: Any) -> Any:
        raise TypeError("NumPy cannot look into a drawer; use .asnumpy()")

    @property
    def __drawer_array_interface__(self) -> tuple[np.ndarray, int]:
        return self._inside, self.drawer

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK_TYPE, self.drawer

    def __dlpack__(self, **keywords: Any) -> Any:
        return self._inside.__dlpack__(max_version=keywords.get("max_version"))

    def asnumpy(self) -> np.ndarray:
        return self._inside.copy()

    def put(self, values: np.ndarray) -> None:
        self._inside[...] = values

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self._inside.ctypes.data)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(step // self._inside.itemsize for step in self._inside.strides)

    @property
    def flags(self) -> Any:
        return SimpleNamespace(
            c_contiguous=self._inside.flags.c_contiguous, writable=self._inside.flags.writeable
        )

    def __getitem__(self, key: Any) -> Array:
        return _wrapped(self._inside[_clipped(self.shape, _within(key))], self)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._inside[_clipped(self.shape, _within(key))] = _within(value)

    def __len__(self) -> int:
        return len(self._inside)

    def __bool__(self) -> bool:
        return bool(self._inside)

    def __int__(self) -> int:
        return int(self._inside)

    def __index__(self) -> int:
        return operator.index(self._inside)


def _attribute(name: str) -> property:
    return property(lambda self: _wrapped(getattr(self._inside, name), self))


def _method(name: str) -> Any:
    def method(self: Array, *args: Any, **keywords: Any) -> Any:
        return _wrapped(getattr(self._inside, name)(*_within(args), **_within(keywords)), self)

    return method


def _operator(name: str) -> Any:
    def method(self: Array, *args: Any) -> Any:
        if not all(isinstance(x, (Array, bool, int, float, complex, np.generic)) for x in args):
            return NotImplemented
        result = getattr(self._inside, name)(*_within(args))
        return self if name.startswith("__i") and name != "__invert__" else _wrapped(result, self)

    return method


for _name in "dtype shape size ndim nbytes itemsize".split():
    setattr(Array, _name, property(lambda self, _name=_name: getattr(self._inside, _name)))
for _name in "T real imag".split():
    setattr(Array, _name, _attribute(_name))
for _name in """
    all any argsort astype copy diagonal fill item max mean min partition ravel reshape sort squeeze
    sum swapaxes tolist transpose view
""".split():
    setattr(Array, _name, _method(_name))
for _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    for _kind in ("", "r", "i"):
        setattr(Array, f"__{_kind}{_name}__", _operator(f"__{_kind}{_name}__"))
for _name in "eq ne lt le gt ge neg pos abs invert".split():
    setattr(Array, f"__{_name}__", _operator(f"__{_name}__"))


def _within(x: Any) -> Any:
    """Replace arrays in drawers by what is inside; refuse NumPy's."""
    if isinstance(x, Array):
        return x._inside
    if isinstance(x, np.ndarray):
        raise TypeError(f"expected an array in a drawer, got {type(x).__name__}")
    if isinstance(x, (list, tuple)):
        return type(x)(map(_within, x))
    return {name: _within(item) for name, item in x.items()} if isinstance(x, dict) else x


def _clipped(shape: tuple[int, ...], key: Any) -> Any:
    """Clip arrays in an index; refuse those that libraries do not agree on."""
    entries = key if isinstance(key, tuple) else (key,)
    arrays = [isinstance(x, np.ndarray) for x in entries]
    if True not in arrays:
        return key
    alike = all(isinstance(x, (slice, np.ndarray)) for x in entries)
    if not alike or "10" in "".join(str(int(x)) for x in arrays).strip("0"):
        raise IndexError(f"expected arrays that are neighbours, and slices, got {key}")
    return tuple(
        x if isinstance(x, slice) or x.dtype.kind == "b" else np.clip(x, -n, n - 1)
        for x, n in zip(entries, shape, strict=False)
    )


def _wrapped(x: Any, like: Any) -> Any:
    """Put arrays and NumPy's scalars into the drawer of another array."""
    if isinstance(x, (np.ndarray, np.generic)):
        return Array(x, getattr(like, "drawer", 0), getattr(like, "owner", None))
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return tuple(_wrapped(item, like) for item in x)
    return type(x)(_wrapped(item, like) for item in x) if isinstance(x, (list, tuple)) else x


def _first(x: Any) -> Any:
    """Return the first array in arguments."""
    if isinstance(x, Array):
        return x
    items = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return next((found for found in map(_first, items) if found is not None), None)


def _function(function: Any) -> Any:
    def call(*args: Any, **keywords: Any) -> Any:
        if "out" in keywords:
            raise TypeError(f"{function.__name__} has no out")
        with np.errstate(all="ignore"):
            result = function(*_within(args), **_within(keywords))
        return _wrapped(result, _first([args, keywords]))

    call.__name__ = function.__name__
    return call


def _creation(function: Any) -> Any:
    def make(*args: Any, device: int = 0, **keywords: Any) -> Array:
        args = tuple(x._inside if isinstance(x, Array) else x for x in args)
        return Array(np.array(function(*args, **keywords)), device)

    return make


def __getattr__(name: str) -> Any:
    if name == "lib":
        raise AttributeError(name)
    found = getattr(np, name)
    if name in {"fft", "linalg"}:
        module = ModuleType(name)
        for inner in found.__all__:
            wrap = _creation if inner.endswith("freq") else _function
            if not isinstance(getattr(found, inner), type):
                setattr(module, inner, wrap(getattr(found, inner)))
        return module
    if isinstance(found, type) or name in {"pi", "e", "inf", "nan", "newaxis"}:
        return found
    return _creation(found) if name in _CREATION else _function(found)
