"""Installs the model of CUDA in place of CuPy, for the whole life of a process.

The model is `tests/support/cuda_model.py`. Its arrays do not compute. Here NumPy computes on their
memory, after all queued work has run, so that benchmarks and tests can run. This proves only that
they run, and nothing about speed.
"""

import operator
import types

import cupy_model
import numpy as np
from cuda_model import Machine

# Context managers that are left when the process ends.
_kept = []

_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
)
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_METHODS = (
    *("sum", "mean", "max", "min", "argmax", "argmin", "all", "any", "std", "var", "prod"),
    *("cumsum", "ravel", "dot", "round", "clip"),
)


def install(mode):
    """Make ``import cupy`` import the model, with a machine of two devices.

    `mode`: ``"lazy"`` or ``"eager"``: see `cuda_model`.
    """
    if _kept:
        return
    machine = Machine(2, eager=mode == "eager")
    context = cupy_model.installed(machine)
    cupy = context.__enter__()
    _kept.append(context)
    import sys

    from array_api_compat import numpy as compat

    cupy.is_model = True
    _compute_with(cupy, np, machine)
    _compute_with(sys.modules["array_api_compat.cupy"], compat, machine)
    cupy.float32 = np.float32
    cupy.cuda.runtime.runtimeGetVersion = lambda: 0
    cupy.cuda.runtime.driverGetVersion = lambda: 0
    cupy.cuda.runtime.getDeviceProperties = lambda _: {
        "name": b"a model of CUDA, no GPU",
        "totalGlobalMem": 0,
    }
    _give_operators(cupy_model.ndarray, machine)


# --- NumPy computes -------------------------------------------------------------------------------


def _to_numpy(value):
    """Return a NumPy array over the memory of a model array, also inside nested containers."""
    if isinstance(value, cupy_model.ndarray):
        return cupy_model._over(
            value.data.ptr, value.shape, value.strides, value.dtype
        )  # the model's own way
    if isinstance(value, (list, tuple)):
        return type(value)(map(_to_numpy, value))
    return value


def _from_numpy(value):
    if isinstance(value, (np.ndarray, np.generic)):
        values = np.array(value)
        array = cupy_model.ndarray(values.shape, values.dtype)
        if values.size:
            # In the order of the stream: the pool may have poisoned this memory later than all work
            # that has run.
            cupy_model.launch(lambda there: np.copyto(there, values), array)
        return array
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_from_numpy, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_from_numpy, value))
    return value


def _computed(function, machine):
    """Return a function that computes with NumPy after all queued work has run."""

    def compute(*args, **keywords):
        machine.finish()
        out = keywords.get("out")
        given = {name: _to_numpy(value) for name, value in keywords.items()}
        result = function(*map(_to_numpy, args), **given)
        return _from_numpy(result) if out is None else out

    compute.__name__ = getattr(function, "__name__", "compute")
    return compute


def _compute_with(module, numpy, machine):
    """Give a module NumPy's functions, computed on the model's arrays."""

    def missing(name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(numpy, name)
        if isinstance(found, types.ModuleType):
            within = types.ModuleType(f"{module.__name__}.{name}")
            _compute_with(within, found, machine)
            found = within
        elif callable(found) and not isinstance(found, type):
            found = _computed(found, machine)
        setattr(module, name, found)
        return found

    vars(module)["__getattr__"] = missing


def _give_operators(kind, machine):
    def give(name, function):
        if name not in vars(kind):
            setattr(kind, name, _computed(function, machine))

    def in_place(name):
        change = getattr(operator, f"i{name}")

        def method(self, other):
            machine.finish()
            change(_to_numpy(self), _to_numpy(other))
            return self

        return method

    for name in _OPERATORS:
        plain = getattr(operator, f"{name}_" if name in ("and", "or") else name)
        give(f"__{name}__", plain)
        give(f"__r{name}__", lambda a, b, plain=plain: plain(b, a))
        setattr(kind, f"__i{name}__", in_place(name))
    for name in _COMPARISONS:
        setattr(kind, f"__{name}__", _computed(getattr(operator, name), machine))
    kind.__hash__ = None
    for name in ("neg", "pos", "abs", "invert"):
        give(f"__{name}__", getattr(operator, name))
    for name in _METHODS:
        give(name, lambda self, *args, name=name, **k: getattr(self, name)(*args, **k))
    for name, convert in (("float", float), ("int", int), ("bool", bool), ("complex", complex)):
        setattr(kind, f"__{name}__", lambda self, convert=convert: convert(self.get().item()))
    kind.__array_ufunc__ = _ufunc(machine)
    kind.__array_function__ = _function(machine)
    kind.__len__ = lambda self: self.shape[0]
    kind.__iter__ = lambda self: (self[i] for i in range(self.shape[0]))
    kind.set = _set
    kind.get = _get(kind.get)
    kind.T = property(lambda self: self.transpose())


def _ufunc(machine):
    def method(self, ufunc, how, *inputs, **keywords):
        del self
        machine.finish()
        out = keywords.pop("out", None)
        if out is not None:
            keywords["out"] = _to_numpy(out)
        result = getattr(ufunc, how)(*map(_to_numpy, inputs), **keywords)
        return _from_numpy(result) if out is None else out[0] if len(out) == 1 else out

    return method


def _function(machine):
    def method(self, function, kinds, args, keywords):
        del self, kinds
        return _computed(function, machine)(*args, **keywords)

    return method


def _set(self, values, stream=None):
    kept = np.array(values)
    cupy_model.launch(lambda to: to.__setitem__(..., kept), self, stream=stream)


def _get(get):
    def method(self, *args, out=None, **keywords):
        if out is None:
            return get(self, *args, **keywords)
        out[...] = get(self, *args, **keywords)
        return out

    return method
