"""Calls of every function of the namespace, and references for their results.

If a function has a correction, the corrected values are left out, or the reference is another
function than NumPy's of that name. Corrections have separate tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np

import syncblob

DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
    "complex128"
).split()
KINDS = {name: np.dtype(name).kind for name in DTYPES}
# Pairs of dtypes that NumPy promotes.
MIXED = [("int8", "uint8"), ("int32", "float32"), ("float32", "float64"), ("uint64", "int64")]
REAL = "biuf"
NUMBERS = "iufc"
FLOATING = "fc"


@dataclass
class Call:
    """A call of one function: the shapes of its arrays, and its other arguments."""

    name: str
    shapes: tuple[tuple[int, ...], ...] = ((3, 4),)
    args: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    # Kinds of dtypes. Those that NumPy refuses must be refused.
    kinds: str = "biufc"
    # "any" values, "tame" ones of ordinary size, or "no zero".
    values: str = "any"
    # A function of the namespace and the arrays, if a call with the arrays is not enough.
    made: Callable[..., Any] | None = None
    # A function of NumPy arrays, if the reference is not NumPy's function of that name.
    reference: Callable[..., Any] | None = None
    # Whether the pairs of dtypes above are tried, too.
    promotes: bool = False

    def with_blobs(self, arrays: list[Any]) -> Any:
        if self.made is not None:
            return self.made(syncblob, *arrays)
        return attrgetter(self.name)(syncblob)(*arrays, *self.args, **self.keywords)

    def with_numpy(self, arrays: list[Any]) -> Any:
        if self.reference is not None:
            return self.reference(*arrays)
        if self.made is not None:
            return self.made(np, *arrays)
        return attrgetter(self.name)(np)(*arrays, *self.args, **self.keywords)


def calls() -> Iterator[Call]:
    """List all calls."""
    yield from elementwise()
    yield from reductions()
    yield from rearrangements()
    yield from selections()
    yield from matrices()
    yield from decompositions()
    yield from transforms()
    yield from creations()


def elementwise() -> Iterator[Call]:
    for name in """
        abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp floor isfinite
        isinf isnan log log10 log1p log2 logical_not negative positive real reciprocal signbit sin
        sinh sqrt square tan trunc
    """.split():
        kinds = "biufc" if name not in {"ceil", "floor", "trunc"} else "iuf"
        yield Call(name, kinds=kinds)
        yield Call(name, ((),), kinds=kinds)
    yield Call("imag", kinds="c")
    yield Call("round", kinds=NUMBERS)
    yield Call("sign", values="no zero")
    # Their corrections concern special values of complex numbers.
    yield Call("expm1", kinds=REAL)
    yield Call("expm1", kinds="c", values="no zero")
    yield Call("tanh", kinds=REAL)
    yield Call("tanh", kinds="c", values="tame")
    for name in """
        add atan2 bitwise_and bitwise_or bitwise_xor copysign divide equal greater greater_equal
        hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply
        nextafter not_equal remainder subtract
    """.split():
        yield Call(name, ((3, 4), (3, 4)), promotes=True)
        yield Call(name, ((3, 1), (4,)))
        yield Call(name, ((), ()))
        if not name.startswith(("bitwise", "logical")):
            yield Call(name, ((3, 4),), (2,), kinds="iuf")
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        yield Call(name, ((5,),), (3,), kinds="iu")
    yield Call("floor_divide", ((3, 4), (3, 4)), kinds=REAL, values="tame", promotes=True)
    yield Call("pow", ((3, 4), (3, 4)), kinds="bufc", values="tame", promotes=True)
    yield Call("pow", ((3, 4),), (2,), kinds="iu")
    yield Call("clip", ((3, 4), (4,), (3, 1)), kinds="iuf")
    yield Call("clip", ((3, 4),), (1, 3), kinds="iuf")


def reductions() -> Iterator[Call]:
    ways: list[dict[str, Any]] = [{}, {"axis": 0}, {"axis": -1, "keepdims": True}]
    several: list[dict[str, Any]] = [*ways, {"axis": (0, 2)}, {"axis": ()}]
    for name in ("sum", "prod", "max", "min", "mean", "all", "any", "count_nonzero"):
        for keywords in several:
            yield Call(name, ((2, 3, 4),), keywords=keywords)
        if name not in {"max", "min", "mean"}:
            yield Call(name, ((0,),))
    for name in ("std", "var"):
        for keywords in (*several[:-1], {"correction": 1}, {"correction": 0.5}):
            yield Call(name, ((2, 3, 4),), keywords=keywords)
    for name in ("argmax", "argmin"):
        for keywords in ways:
            yield Call(name, ((2, 3, 4),), keywords=keywords)
    for name in ("sum", "prod", "cumulative_sum", "cumulative_prod"):
        yield Call(name, ((3, 4),), keywords={"axis": 1, "dtype": np.float64}, kinds=REAL)
    for name in ("cumulative_sum", "cumulative_prod"):
        yield Call(name, ((7,),))
        yield Call(name, ((3, 4),), keywords={"axis": 0, "include_initial": True}, kinds=NUMBERS)


def rearrangements() -> Iterator[Call]:
    yield Call("broadcast_arrays", ((3, 1), (4,)))
    yield Call("broadcast_to", args=((2, 3, 4),))
    yield Call("concat", made=lambda xp, x, y: xp.concat([x, y], axis=1), shapes=((2, 3), (2, 1)))
    yield Call("concat", made=lambda xp, x, y: xp.concat((x, y), axis=None), shapes=((2, 3), (4,)))
    yield Call("expand_dims", args=(1,))
    yield Call("flip")
    yield Call("flip", keywords={"axis": 1})
    yield Call("moveaxis", ((2, 3, 4),), args=((0, 1), (-1, 0)))
    yield Call("permute_dims", ((2, 3, 4),), args=((2, 0, 1),))
    yield Call("repeat", args=(3,))
    yield Call("repeat", args=(2,), keywords={"axis": 1})
    yield Call("reshape", args=((2, -1),))
    yield Call("roll", args=(2,))
    yield Call("roll", args=((1, -1),), keywords={"axis": (0, 1)})
    yield Call("squeeze", ((1, 3, 1),), args=(0,))
    yield Call("stack", made=lambda xp, x, y: xp.stack([x, y], axis=-1), shapes=((2, 3), (2, 3)))
    yield Call("roll", args=(-1,), keywords={"axis": 1})
    yield Call("tile", args=((2, 1, 3),))
    yield Call("tile", args=((2,),))
    yield Call("expand_dims", args=((-1, 2),))
    yield Call("flip", ((2, 3, 4),), keywords={"axis": (1, -1)})
    yield Call("squeeze", ((1, 3, 1),), args=((-3,),))
    yield Call("unstack", keywords={"axis": 1})
    yield Call("meshgrid", ((3,), (4,)))
    yield Call("meshgrid", ((3,), (4,)), keywords={"indexing": "ij"})
    yield Call("tril", ((2, 3, 4),), keywords={"k": 1})
    yield Call("triu", ((2, 3, 4),), keywords={"k": -1})
    yield Call("diff")
    yield Call("diff", keywords={"axis": 0, "n": 2})
    yield Call("diff", keywords={"n": 0})
    yield Call("astype", args=(np.complex128,))
    yield Call("astype", args=(np.bool,))
    yield Call("astype", args=(np.int64,), kinds="biu")
    yield Call("astype", args=(np.float32,), kinds=REAL)


def selections() -> Iterator[Call]:
    yield Call("argsort", ((3, 8),), keywords={"stable": True})
    yield Call("argsort", ((3, 8),), keywords={"axis": 0, "stable": True})
    yield Call("sort", ((3, 8),), keywords={"stable": True})
    yield Call("sort", ((3, 8),), keywords={"axis": 0, "stable": True})
    yield Call("isin", ((3, 4), (5,)))
    yield Call("nonzero", ((3, 4),))
    yield Call(
        "searchsorted", made=lambda xp, x, y: xp.searchsorted(xp.sort(x), y), shapes=((6,), (3, 4))
    )
    yield Call("take", made=lambda xp, x: xp.take(x, xp.arange(2, -2, -1), axis=0))
    yield Call(
        "take_along_axis",
        made=lambda xp, x: xp.take_along_axis(x, xp.argsort(x, stable=True), axis=-1),
    )
    for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        reference = (lambda x: np.unique(x, equal_nan=False)) if name == "unique_values" else None
        yield Call(name, ((3, 4),), reference=reference)
    yield Call("where", made=lambda xp, x, y: xp.where(x > y, x, y), shapes=((3, 4), (4,)))
    yield Call("where", made=lambda xp, x: xp.where(x > 1, x, 3), kinds="iuf")


def matrices() -> Iterator[Call]:
    for name in ("matmul", "linalg.matmul"):
        yield Call(name, ((3, 4), (4, 2)), kinds=NUMBERS)
        yield Call(name, ((2, 3, 4), (4,)))
        yield Call(name, ((4,), (4,)))
        yield Call(name, ((5, 1, 2, 3), (6, 3, 4)), kinds=NUMBERS)
        yield Call(name, ((2, 0), (0, 3)), kinds=NUMBERS)
    for name in ("matrix_transpose", "linalg.matrix_transpose"):
        yield Call(name, ((2, 3, 4),))
    for name in ("tensordot", "linalg.tensordot"):
        yield Call(name, ((3, 4), (4, 2)), keywords={"axes": 1})
        for axes in (0, ((-1, 0), (0, -1)), ((), ())):
            yield Call(name, ((3, 4), (4, 3)), keywords={"axes": axes}, kinds=NUMBERS)
    for name in ("vecdot", "linalg.vecdot"):
        yield Call(name, ((3, 4), (4,)), kinds=NUMBERS)
        yield Call(name, ((4,), (4,)), kinds=NUMBERS)
        yield Call(name, ((3, 4), (3, 4)), keywords={"axis": -2}, kinds=NUMBERS)


def decompositions() -> Iterator[Call]:
    tame: dict[str, Any] = {"kinds": FLOATING, "values": "tame"}
    square: Any = ((2, 3, 3),)
    for name in ("det", "inv", "slogdet"):
        yield Call(f"linalg.{name}", square, **tame)
    for name in ("eigh", "eigvalsh", "cholesky"):
        made = _of_definite(name)
        yield Call(f"linalg.{name}", square, made=made, **tame)
    yield Call("linalg.cross", ((4, 3), (4, 3)), kinds=NUMBERS)
    yield Call("linalg.diagonal", ((2, 3, 4),), keywords={"offset": 1})
    yield Call("linalg.eig", square, reference=_complex_eig, **tame)
    yield Call("linalg.eigvals", square, reference=lambda x: _complex_eig(x, values=True), **tame)
    for order in ("fro", "nuc", 1, -1, 2, -2, math.inf):
        yield Call("linalg.matrix_norm", ((2, 3, 4),), keywords={"ord": order}, **tame)
    yield Call("linalg.matrix_norm", ((2, 3, 4),), keywords={"keepdims": True}, **tame)
    for power in (-2, 0, 1, 3):
        yield Call("linalg.matrix_power", square, args=(power,), **tame)
    yield Call("linalg.matrix_rank", ((2, 3, 4),), **tame)
    yield Call("linalg.outer", ((3,), (4,)))
    # NumPy's default tolerance is not the standard's.
    yield Call("linalg.pinv", ((2, 3, 4),), keywords={"rtol": 1e-3}, **tame)
    yield Call("linalg.qr", ((2, 4, 3),), **tame)
    yield Call("linalg.qr", ((4, 3),), keywords={"mode": "complete"}, **tame)
    yield Call("linalg.solve", ((3, 3), (3,)), **tame)
    yield Call("linalg.solve", ((2, 3, 3), (2, 3, 2)), **tame)
    yield Call("linalg.svd", ((2, 3, 4),), **tame)
    yield Call("linalg.svd", ((2, 3, 4),), keywords={"full_matrices": False}, **tame)
    yield Call("linalg.svdvals", ((2, 3, 4),), **tame)
    yield Call("linalg.trace", ((2, 3, 4),), keywords={"offset": 1}, kinds=NUMBERS)
    for order in (0, 1, 2, 3.5, math.inf, -math.inf):
        yield Call("linalg.vector_norm", keywords={"ord": order, "axis": 1}, **tame)
        several = {"ord": order, "axis": (0, -1), "keepdims": True}
        yield Call("linalg.vector_norm", ((2, 3, 4),), keywords=several, **tame)
    yield Call("linalg.vector_norm", keywords={"keepdims": True}, **tame)


def transforms() -> Iterator[Call]:
    for name in ("fft", "ifft", "hfft", "rfft", "irfft", "ihfft"):
        kinds = "f" if name in {"rfft", "ihfft"} else "c"
        for keywords in ({}, {"n": 6}, {"axis": -2, "n": 3, "norm": "forward"}, {"norm": "ortho"}):
            yield Call(f"fft.{name}", keywords=keywords, kinds=kinds)
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        kinds = "f" if name == "rfftn" else "c"
        several: Any = {"s": (2, 6), "axes": (-1, 0), "norm": "forward"}
        for keywords in ({}, {"axes": (0,)}, several, {"norm": "ortho"}):
            yield Call(f"fft.{name}", keywords=keywords, kinds=kinds)
    for name in ("fftshift", "ifftshift"):
        yield Call(f"fft.{name}")
        yield Call(f"fft.{name}", keywords={"axes": 1})
        yield Call(f"fft.{name}", ((2, 3, 5),), keywords={"axes": (0, 2)})
    for name in ("fftfreq", "rfftfreq"):
        yield Call(f"fft.{name}", (), args=(7,), keywords={"d": 0.3})
        yield Call(
            f"fft.{name}",
            (),
            args=(8,),
            keywords={"dtype": np.float32},
            reference=lambda name=name: attrgetter(name)(np.fft)(8).astype(np.float32),
        )


def creations() -> Iterator[Call]:
    for args in ((7,), (2, 9), (1, 2, 0.25), (5, 0, -1)):
        yield Call("arange", (), args=args)
    for dtype in ("int8", "uint64", "float32", "complex64"):
        keywords = {"dtype": dtype}
        yield Call("arange", (), args=(2, 9, 3), keywords=keywords)
        yield Call("eye", (), args=(3, 4), keywords={**keywords, "k": -1})
        yield Call("full", (), args=((2, 3), 3), keywords=keywords)
        yield Call("zeros", (), args=((2, 3),), keywords=keywords)
        yield Call("ones", (), args=(3,), keywords=keywords)
    yield Call("eye", (), args=(3,))
    for value in (True, 3, 1.5, 2j):
        yield Call("full", (), args=((2, 3), value))
    yield Call("zeros", (), args=(3,))
    yield Call("ones", (), args=((),))
    yield Call("linspace", (), args=(0.1, 3, 8))
    yield Call("linspace", (), args=(1, 2j, 5), keywords={"endpoint": False})
    yield Call("linspace", (), args=(0, 3, 8), keywords={"dtype": np.float32})
    yield Call("full_like", args=(1,))
    yield Call("zeros_like")
    yield Call("ones_like", keywords={"dtype": np.int16})
    yield Call("asarray")
    yield Call("asarray", keywords={"copy": True})
    yield Call("from_dlpack")


def _of_definite(name: str) -> Callable[..., Any]:
    def made(xp: Any, x: Any) -> Any:
        eye = xp.eye(3, dtype=x.dtype)
        definite = xp.matmul(x, xp.conj(xp.matrix_transpose(x))) + eye
        return getattr(xp.linalg, name)(definite)

    return made


def _complex_eig(x: Any, *, values: bool = False) -> Any:
    result = np.linalg.eig(x)
    kind = np.result_type(x, np.complex64)
    found = tuple(part.astype(kind) for part in result)
    return np.linalg.eigvals(x).astype(kind) if values else found
