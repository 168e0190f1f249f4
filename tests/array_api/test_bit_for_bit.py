"""Each function of the namespace gives the same result as NumPy, bit for bit, on every device.

`namespace_calls` has the table of calls. Each call runs with random arrays of every dtype that
NumPy accepts, including infinities, NaN, zeros of both signs and the limits of integers. Calls
that NumPy refuses must be refused.
"""

import math
import warnings
import zlib

import numpy as np
import pytest
import tiers
from namespace_calls import DTYPES, KINDS, MIXED, calls

import syncblob
from syncblob import Blob, no_transfers

TABLE = {}
for _call in calls():
    TABLE.setdefault(_call.name, []).append(_call)

# Names that take no arrays or have nothing to compare bit for bit. Other tests cover them.
OTHERS = {
    *DTYPES,
    *"__array_api_version__ __array_namespace_info__ broadcast_shapes can_cast e empty".split(),
    *"empty_like fft finfo iinfo inf isdtype linalg nan newaxis pi result_type".split(),
}


def test_the_table_has_every_function():
    names = set(syncblob.array_api.__all__) - OTHERS
    names |= {f"fft.{name}" for name in syncblob.fft.__all__}
    results = {name for name in syncblob.linalg.__all__ if name.endswith("Result")}
    names |= {f"linalg.{name}" for name in set(syncblob.linalg.__all__) - results}
    assert set(TABLE) == names


def random_array(generator, shape, dtype, values):
    """Draw an array. If `values` is "any", some of its elements are special values."""
    kind = KINDS[dtype]
    if kind == "b":
        return np.asarray(generator.integers(0, 2, shape)).astype(np.bool)
    if kind in "iu":
        limits = np.iinfo(dtype)
        low, high = (limits.min, limits.max) if values != "tame" else (1, 5)
        array = generator.integers(low, high, shape, dtype, endpoint=True)
        small = generator.integers(1, 5, shape).astype(dtype)
        return np.asarray(np.where(generator.random(shape) < 0.5, array, small), dtype)
    if kind == "c":
        part = "float32" if dtype == "complex64" else "float64"
        array = np.empty(shape, dtype)
        array.real = random_array(generator, shape, part, "tame" if values != "any" else values)
        array.imag = random_array(generator, shape, part, "tame" if values != "any" else values)
        return array
    array = generator.normal(scale=3, size=shape)
    if values == "any":
        special = generator.choice([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-7, 6e4, -1], shape)
        array = np.where(generator.random(shape) < 0.3, special, array)
    return np.asarray(array, dtype)


def inputs(call, rounds):
    """Draw the arrays of a call, several times for every dtype."""
    if not call.shapes:
        yield []
        return
    generator = np.random.default_rng(zlib.crc32(repr((call.name, call.shapes)).encode()))
    for _ in range(rounds):
        yield from drawn(generator, call)


def drawn(generator, call):
    dtypes = [(name,) * len(call.shapes) for name in DTYPES]
    dtypes += MIXED if call.promotes else []
    for combination in dtypes:
        if all(KINDS[name] in call.kinds for name in combination):
            yield [
                random_array(generator, shape, name, call.values)
                for shape, name in zip(call.shapes, combination, strict=True)
            ]


def outcome(function, arrays):
    """Return the result of a function, or the class of the error that it raises."""
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        try:
            return function(arrays)
        except (TypeError, np.linalg.LinAlgError) as error:
            return TypeError if isinstance(error, TypeError) else type(error)


@tiers.amount("rounds", 1, 4)
@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
@pytest.mark.parametrize("name", list(TABLE))
def test_results_are_those_of_numpy(name, device, rounds):
    syncblob.set_default_device(device)
    compared = 0
    for call in TABLE[name]:
        for arrays in inputs(call, rounds):
            expected = outcome(call.with_numpy, [array.copy() for array in arrays])
            blobs = [
                syncblob.asarray(array.copy(), device="cpu").to_device(device) for array in arrays
            ]
            with no_transfers():
                actual = outcome(call.with_blobs, blobs)
            where = f"{call} of {arrays}"
            if isinstance(expected, type):
                assert actual is expected, where
                continue
            assert not isinstance(actual, type), f"refused: {where}"
            compared += 1
            assert isinstance(actual, tuple) is isinstance(expected, (tuple, list)), where
            parts = actual if isinstance(actual, tuple) else (actual,)
            references = expected if isinstance(expected, (tuple, list)) else (expected,)
            assert len(parts) == len(references)
            for part, reference in zip(parts, references, strict=True):
                same(part, np.asarray(reference), device, where)
    assert compared


def same(part, reference, device, where):
    """Compare a Blob with an array, bit for bit."""
    assert type(part) is Blob, where
    assert part.device == device, where
    assert (part.dtype, part.shape) == (reference.dtype, reference.shape), where
    assert part.tobytes() == reference.tobytes(), f"{part.tolist()} {reference.tolist()} {where}"


# These take arrays of other libraries, too, or numbers.
TAKE_OTHERS = {"asarray", "astype", "from_dlpack", "where"}


@pytest.mark.parametrize(
    "other", [np.ones((3, 4)), [np.float64(1)], 1.0, None, np.longdouble(1), np.str_("a")], ids=type
)
@pytest.mark.parametrize("name", [x for x in TABLE if TABLE[x][0].shapes and x not in TAKE_OTHERS])
def test_other_than_blobs_are_refused(name, other):
    for call in TABLE[name]:
        # A call that is made here may have a Blob beside, which takes an array with it.
        if call.plain or not (isinstance(other, np.ndarray) or name.startswith("linalg")):
            with pytest.raises(TypeError, match="Blob"):
                call.with_blobs([other] * len(call.shapes))


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_blobs_have_the_shape_and_dtype_asked_for(dtype):
    made = [syncblob.empty((2, 3), dtype=dtype)]
    made += [syncblob.empty_like(made[0]), syncblob.empty_like(syncblob.ones((2, 3)), dtype=dtype)]
    for blob in made:
        assert (blob.shape, blob.dtype) == ((2, 3), np.dtype(dtype))


def test_functions_of_dtypes_and_shapes_are_numpys():
    assert syncblob.broadcast_shapes((3, 1), (4,)) == np.broadcast_shapes((3, 1), (4,))
    for first in DTYPES:
        for second in DTYPES:
            a, b = np.dtype(first), np.dtype(second)
            assert syncblob.result_type(a, b) == np.result_type(a, b)
            assert syncblob.can_cast(a, b) is np.can_cast(a, b)
            assert syncblob.isdtype(a, b) is np.isdtype(a, b)
