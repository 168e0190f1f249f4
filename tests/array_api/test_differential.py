"""Random programs give the same results with Blobs as with array-api-strict.

After every step, the values, dtypes and shapes of all live arrays are compared, so a write must
show in all views. Operations that array-api-strict refuses because of values, shapes or axes are
refused here too. Its TypeErrors are about mixed kinds of dtypes, which the standard leaves open.
"""

from __future__ import annotations

import operator
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tiers
from hypothesis import note
from hypothesis import strategies as st

import syncblob
from syncblob import Blob, use_device

strict = pytest.importorskip("array_api_strict")

DEVICES = ("cpu", "simulated:0")
DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
).split()
SHAPES = [(), (1,), (3,), (4,), (2, 3), (3, 3), (1, 3), (2, 1, 3), (0,), (2, 0)]
REFUSALS = (TypeError, ValueError, IndexError, OverflowError)

ELEMENTWISE = """
    abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag
    isfinite isinf isnan log log10 log1p log2 logical_not negative positive real reciprocal round
    sign signbit sin sinh sqrt square tan tanh trunc
""".split()
OF_TWO = """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
    divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and
    logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract
    matmul isin
""".split()
REDUCTIONS = "sum prod max min mean all any count_nonzero std var".split()
OPERATORS = """
    add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge
""".split()
IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift".split()
SCALARS = (True, 2, -1, 0, 3.5, 1.5j)


def axis_of(x: Any, number: int) -> int:
    """Choose an axis, sometimes out of range by one."""
    return number % (2 * x.ndim + 2) - x.ndim - 1


def keys_of(xp: Any, x: Any, number: int) -> Any:
    """Choose an index. Slices have bounds within the axis, as the standard requires."""
    first, last = (x.shape[0], x.shape[-1]) if x.ndim else (0, 0)
    keys: list[Any] = [
        (Ellipsis, 0),
        (number % 3, Ellipsis),
        (slice(min(1, first), None), Ellipsis),
        (slice(None, None, -1), Ellipsis),
        (Ellipsis, slice(0, min(2, last))),
        (None, Ellipsis),
        (Ellipsis, None, slice(None, None, 2)),
        (Ellipsis,),
    ]
    if x.ndim == 1:
        keys += [(slice(0, min(number % 3, first)),), number % 4 - 2]
    if x.dtype == xp.bool and x.ndim:
        keys.append(x)
    if x.ndim == 1 and x.shape[0]:
        keys.append((xp.arange(number % 3) % x.shape[0],))
    return keys[number % len(keys)]


def table() -> dict[str, tuple[int, Any]]:
    """Return the operations by name, with the number of their array operands."""
    found: dict[str, tuple[int, Any]] = {}
    for name in ELEMENTWISE:
        found[name] = (1, lambda xp, a, _, name=name: getattr(xp, name)(a[0]))
    for name in OF_TWO:
        found[name] = (2, lambda xp, a, _, name=name: getattr(xp, name)(*a))
    for name in REDUCTIONS:
        found[name] = (1, lambda xp, a, n, name=name: getattr(xp, name)(a[0], **ways(a[0], n)))
    for name in OPERATORS:
        apply = getattr(operator, name)
        found[f"operator {name}"] = (2, lambda _, a, __, apply=apply: apply(*a))
        found[f"{name} scalar"] = (
            1,
            lambda _, a, n, apply=apply: apply(a[0], SCALARS[n % len(SCALARS)]),
        )
        found[f"scalar {name}"] = (
            1,
            lambda _, a, n, apply=apply: apply(SCALARS[n % len(SCALARS)], a[0]),
        )
    for name in ("neg", "pos", "abs", "invert"):
        apply = getattr(operator, name)
        found[f"operator {name}"] = (1, lambda _, a, __, apply=apply: apply(a[0]))
    return found | CHOSEN


def ways(x: Any, number: int) -> dict[str, Any]:
    """Choose keyword arguments of a reduction."""
    return [
        {},
        {"axis": axis_of(x, number // 4)},
        {"keepdims": True},
        {"axis": tuple(range(x.ndim)), "keepdims": True},
    ][number % 4]


CHOSEN: dict[str, tuple[int, Any]] = {
    "argmax": (1, lambda xp, a, n: xp.argmax(a[0], axis=axis_of(a[0], n))),
    "argmin": (1, lambda xp, a, n: xp.argmin(a[0], keepdims=n % 2 == 0)),
    "argsort": (1, lambda xp, a, n: xp.argsort(a[0], axis=axis_of(a[0], n), descending=n % 2 == 0)),
    "astype": (1, lambda xp, a, n: xp.astype(a[0], getattr(xp, DTYPES[n % len(DTYPES)]))),
    "asarray": (1, lambda xp, a, _: xp.asarray(a[0], copy=True)),
    "broadcast_arrays": (2, lambda xp, a, _: xp.broadcast_arrays(*a)),
    "broadcast_to": (1, lambda xp, a, n: xp.broadcast_to(a[0], SHAPES[n % len(SHAPES)])),
    "clip": (2, lambda xp, a, n: xp.clip(a[0], min=a[1]) if n % 2 else xp.clip(a[0], max=3)),
    "concat": (2, lambda xp, a, n: xp.concat(a, axis=None if n % 5 == 0 else axis_of(a[0], n))),
    "cumulative_sum": (
        1,
        lambda xp, a, n: xp.cumulative_sum(a[0], axis=axis_of(a[0], n), include_initial=n % 2 == 0),
    ),
    "cumulative_prod": (1, lambda xp, a, n: xp.cumulative_prod(a[0], axis=axis_of(a[0], n))),
    "diff": (1, lambda xp, a, n: xp.diff(a[0], axis=axis_of(a[0], n), n=n % 2 + 1)),
    "expand_dims": (1, lambda xp, a, n: xp.expand_dims(a[0], axis=axis_of(a[0], n))),
    "flip": (1, lambda xp, a, n: xp.flip(a[0], axis=axis_of(a[0], n))),
    "full_like": (1, lambda xp, a, n: xp.full_like(a[0], n % 2)),
    "eye": (0, lambda xp, _, n: xp.eye(n % 3, 3, k=n % 5 - 2)),
    "arange": (0, lambda xp, _, n: xp.arange(n % 4, dtype=xp.float32)),
    "linspace": (0, lambda xp, _, n: xp.linspace(-1, n % 4, 3)),
    "getitem": (1, lambda xp, a, n: a[0][keys_of(xp, a[0], n)]),
    "matrix_transpose": (1, lambda xp, a, _: xp.matrix_transpose(a[0])),
    "meshgrid": (2, lambda xp, a, n: xp.meshgrid(*a, indexing="ij" if n % 2 else "xy")),
    "moveaxis": (1, lambda xp, a, n: xp.moveaxis(a[0], axis_of(a[0], n), 0)),
    "nonzero": (1, lambda xp, a, _: xp.nonzero(a[0])),
    "permute_dims": (
        1,
        lambda xp, a, n: xp.permute_dims(a[0], tuple(np.roll(range(a[0].ndim), n).tolist())),
    ),
    "repeat": (1, lambda xp, a, n: xp.repeat(a[0], n % 3, axis=axis_of(a[0], n))),
    "reshape": (1, lambda xp, a, n: xp.reshape(a[0], [(-1,), (3, -1), (1, 3), (2, 3)][n % 4])),
    "roll": (1, lambda xp, a, n: xp.roll(a[0], n % 5 - 2, axis=axis_of(a[0], n))),
    "sort": (1, lambda xp, a, n: xp.sort(a[0], axis=axis_of(a[0], n), descending=n % 2 == 0)),
    "squeeze": (1, lambda xp, a, n: xp.squeeze(a[0], axis=axis_of(a[0], n))),
    "stack": (2, lambda xp, a, n: xp.stack(a, axis=axis_of(a[0], n))),
    "T": (1, lambda _, a, __: a[0].T),
    "mT": (1, lambda _, a, __: a[0].mT),
    "take": (1, lambda xp, a, n: xp.take(a[0], xp.arange(n % 3), axis=axis_of(a[0], n))),
    "tensordot": (2, lambda xp, a, n: xp.tensordot(*a, axes=n % 3)),
    "tile": (1, lambda xp, a, n: xp.tile(a[0], (n % 3, 2))),
    "tril": (1, lambda xp, a, n: xp.tril(a[0], k=n % 3 - 1)),
    "triu": (1, lambda xp, a, n: xp.triu(a[0], k=n % 3 - 1)),
    "unique_all": (1, lambda xp, a, _: tuple(xp.unique_all(a[0]))),
    "unique_counts": (1, lambda xp, a, _: tuple(xp.unique_counts(a[0]))),
    "unstack": (1, lambda xp, a, n: xp.unstack(a[0], axis=axis_of(a[0], n))),
    "vecdot": (2, lambda xp, a, _: xp.vecdot(*a)),
    "where": (2, lambda xp, a, _: xp.where(a[0] == a[1], *a)),
    "fft": (1, lambda xp, a, n: xp.fft.fft(a[0], axis=axis_of(a[0], n))),
    "fftshift": (1, lambda xp, a, _: xp.fft.fftshift(a[0])),
    "rfft": (1, lambda xp, a, n: xp.fft.rfft(a[0], n=n % 5 + 1)),
    "cross": (2, lambda xp, a, _: xp.linalg.cross(*a)),
    "diagonal": (1, lambda xp, a, n: xp.linalg.diagonal(a[0], offset=n % 3 - 1)),
    "matrix_norm": (1, lambda xp, a, _: xp.linalg.matrix_norm(a[0])),
    "matrix_power": (1, lambda xp, a, n: xp.linalg.matrix_power(a[0], n % 3)),
    "outer": (2, lambda xp, a, _: xp.linalg.outer(*a)),
    "trace": (1, lambda xp, a, _: xp.linalg.trace(a[0])),
    "vector_norm": (1, lambda xp, a, n: xp.linalg.vector_norm(a[0], **ways(a[0], n))),
}
OPERATIONS = table()
# Operations that only one of the two libraries corrects for infinities and NaN.
CORRECTED = ("expm1", "tanh", "floor_divide", "floordiv", "pow", "sign")
# NumPy accepts an axis for operands that have none.
AXIS_NEEDED = {"argsort", "diff", "cumulative_prod", "cumulative_sum", "sort", "squeeze", "vecdot"}


@dataclass(frozen=True)
class Step:
    """An operation, the positions of its operands, and a number that chooses the rest."""

    name: str
    operands: tuple[int, int]
    number: int


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from([*OPERATIONS, *IN_PLACE, *IN_PLACE, "setitem", "setitem", "setitem"]),
        st.tuples(st.integers(0, 20), st.integers(0, 20)),
        st.integers(0, 999),
    ),
    min_size=1,
    max_size=8,
)
# Groups of dtypes that promote with each other. The last group has all dtypes.
PROMOTING = (
    "bool",
    "int8 int16 int32 int64 uint8 uint16 uint32",
    "uint8 uint64",
    "float32 float64",
    "float32 float64 complex64 complex128",
    " ".join(DTYPES),
)
starts = st.sampled_from([text.split() for text in PROMOTING]).flatmap(
    lambda dtypes: st.lists(
        st.tuples(st.sampled_from(dtypes), st.sampled_from(SHAPES), st.integers(0, 999)),
        min_size=2,
        max_size=4,
    )
)


def drawn(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Make an array of small numbers with a few special values."""
    generator = np.random.default_rng(seed)
    array = generator.integers(0, 5, shape).astype(dtype)
    if np.dtype(dtype).kind in "fc":
        special = generator.choice([0.5, -1.5, -0.0, np.inf, np.nan], shape)
        array = np.where(generator.random(shape) < 0.3, special, array).astype(dtype)
    return np.asarray(array)


class Twins:
    """Arrays of array-api-strict, and Blobs on each device that must equal them."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.expected = [strict.asarray(array.copy()) for array in arrays]
        self.blobs = {
            device: [syncblob.asarray(array.copy()).to_device(device) for array in arrays]
            for device in DEVICES
        }

    def run(self, step: Step) -> None:
        places = [place % len(self.expected) for place in step.operands]
        if step.name in IN_PLACE or step.name == "setitem":
            if not is_writable(self.expected[places[0]]):
                return
            count, function = 2, self.writer(step.name)
        else:
            count, function = OPERATIONS[step.name]
        operands = [self.expected[place] for place in places[:count]]
        note(f"{step.name}({', '.join(f'{x.dtype}{x.shape}' for x in operands)}) {step.number}")
        if is_corrected(step, operands):
            return
        expected = outcome(function, strict, operands, step.number)
        if isinstance(expected, (TypeError, OverflowError)) or left_open(step, operands):
            return
        results = {}
        for device, blobs in self.blobs.items():
            chosen = [blobs[place] for place in places[:count]]
            with use_device(device):
                results[device] = outcome(function, syncblob, chosen, step.number)
            if isinstance(expected, BaseException):
                assert isinstance(results[device], BaseException), f"not refused: {expected!r}"
                continue
            assert isinstance(results[device], list), f"refused: {results[device]!r}"
            assert len(results[device]) == len(expected)
            views = [any(made.memory is x.memory for x in chosen) for made in results[device]]
        if not isinstance(expected, BaseException):
            self.keep(expected, results, [is_view(x, operands) for x in expected], views)
        self.compare()

    def keep(
        self,
        expected: list[Any],
        results: dict[str, list[Blob]],
        views_there: list[bool],
        views_here: list[bool],
    ) -> None:
        """Keep the results. Copy a result that is a view of an operand in one library only."""
        for place, made in enumerate(expected):
            alike = views_there[place] == views_here[place]
            self.expected.append(made if alike else strict.asarray(made, copy=True))
            for device, blobs in self.blobs.items():
                result = results[device][place]
                blobs.append(result if alike else result.copy())

    def writer(self, name: str) -> Any:
        if name == "setitem":
            return write
        apply = getattr(operator, name)

        def inplace(_: Any, arrays: list[Any], number: int) -> None:
            value = SCALARS[number % len(SCALARS)] if number % 3 == 0 else arrays[1]
            assert apply(arrays[0], value) is arrays[0]

        return inplace

    def compare(self) -> None:
        for device, blobs in self.blobs.items():
            assert len(blobs) == len(self.expected)
            for blob, reference in zip(blobs, self.expected, strict=True):
                assert type(blob) is Blob
                assert blob.device == device
                array = reference._array
                assert (blob.dtype, blob.shape) == (array.dtype, array.shape)
                np.testing.assert_array_equal(np.asarray(blob), array)


def write(xp: Any, arrays: list[Any], number: int) -> None:
    value = SCALARS[number % len(SCALARS)] if number % 2 else arrays[1]
    key = keys_of(xp, arrays[0], number // 2)
    if isinstance(key, tuple):
        # The standard allows None and integer arrays in indices only for reading.
        key = tuple(... if hasattr(x, "shape") else x for x in key if x is not None)
    arrays[0][key] = value


def is_writable(x: Any) -> bool:
    with warnings.catch_warnings():
        # For results of broadcast_arrays, NumPy warns that the flag will change.
        warnings.simplefilter("ignore", FutureWarning)
        writable: bool = x._array.flags.writeable
    # These elements share memory. NumPy still writes them; of Blobs, such views are const.
    shared = any(not step and dim > 1 for dim, step in zip(x.shape, x._array.strides, strict=True))
    return writable and not shared


def is_view(x: Any, operands: list[Any]) -> bool:
    return any(np.may_share_memory(x._array, operand._array) for operand in operands)


def is_corrected(step: Step, operands: list[Any]) -> bool:
    if not any(name in step.name for name in CORRECTED):
        return False
    return not all(np.isfinite(x._array).all() for x in operands)


def left_open(step: Step, operands: list[Any]) -> bool:
    """Return whether the standard leaves the result open and the two libraries differ."""
    if step.name == "meshgrid":
        return operands[0].dtype != operands[1].dtype
    if step.name == "T":
        return operands[0].ndim != 2
    if step.name == "cross":
        # array-api-strict checks only the first size, and syncblob raises if one is not 3.
        return operands[1].shape[-1:] == (2,)
    return step.name in AXIS_NEEDED and not all(x.shape for x in operands)


def outcome(function: Any, xp: Any, operands: list[Any], number: int) -> Any:
    """Return the resulting arrays, or the error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = function(xp, operands, number)
        except (*REFUSALS, np.linalg.LinAlgError) as error:
            return error
    if result is None:
        return []
    return list(result) if isinstance(result, (tuple, list)) else [result]


@tiers.drawn(starts, steps, short=300, long=1500)
def test_programs_give_what_array_api_strict_gives(
    arrays: list[tuple[str, tuple[int, ...], int]], program: list[Step]
) -> None:
    twins = Twins([drawn(*start) for start in arrays])
    for step in program:
        if max(x.size for x in twins.expected) > 200 or len(twins.expected) > 20:
            return
        twins.run(step)
