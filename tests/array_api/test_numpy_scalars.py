"""NumPy scalars in place of 0-d Blobs. Iterating over a Blob gives such scalars."""

import inspect

import numpy as np
import pytest
from call_texts import functions, texts

import syncblob as xp
from syncblob import array_api

SCALARS = [np.float64(2.5), np.float32(-2), np.int64(3), np.uint8(1), np.True_]
SCALARS += [np.complex64(1 + 2j)]

# Functions that take no array, or make an array of any object.
WITHOUT = """
    arange asarray empty eye from_dlpack full linspace ones zeros broadcast_shapes isdtype
    __array_namespace_info__ fft.fftfreq fft.rfftfreq
""".split()
FUNCTIONS = {
    f"{prefix}{name}": getattr(module, name)
    for prefix, module in (("", array_api), ("linalg.", xp.linalg), ("fft.", xp.fft))
    for name in module.__all__
    if inspect.isfunction(getattr(module, name)) and f"{prefix}{name}" not in WITHOUT
}

# How to call functions that take further arguments, or arrays in a sequence.
CALLS = {}
for _text in texts(
    """
    full_like(x, 7); broadcast_arrays(x, x); broadcast_to(x, (2, 3)); can_cast(x, 'int16');
    can_cast(x, 'float64'); result_type(x); result_type(x, 1); result_type(xp.int16, x);
    astype(x, 'complex128'); clip(x, 0, 2); clip(x); empty_like(x).dtype; empty_like(x).shape;
    concat([x, x], axis=None); stack([x, x]); expand_dims(x, 0); moveaxis(x, (), ());
    permute_dims(x, ()); squeeze(x, ()); repeat(x, 2); repeat(x, xp.asarray([2]));
    repeat(xp.arange(3), x); reshape(x, (1, 1)); roll(x, 1); tile(x, (2, 2));
    searchsorted(xp.arange(5.0), x); tensordot(x, x, axes=0);
    take_along_axis(xp.arange(5.0), xp.reshape(x, (1,)));
    take(xp.arange(5.0), xp.reshape(x, (1,))); where(x, x, x); where(x, 1, x); where(x, x, 1);
    where(x, xp.arange(3), 1); isin(x, x); isin(x, 3); isin(3, x); isin(x, xp.arange(5));
    isin(xp.arange(5), x); linalg.matrix_rank(xp.eye(3), rtol=x);
    linalg.matrix_rank(xp.eye(3) * x); linalg.pinv(xp.eye(3), rtol=x); linalg.pinv(xp.eye(3) * x);
    linalg.matrix_power(x, 2); linalg.tensordot(x, x, axes=0); fft.fftshift(x, axes=());
    fft.ifftshift(x, axes=()); fft.fftn(x, s=(), axes=())
    """
):
    CALLS.setdefault(_text.partition("(")[0], []).append(_text)


def outcome(text, x):
    """Return the types, dtypes and values that a call returns, or its error."""
    with np.errstate(all="ignore"):
        try:
            return described(eval(text, {**vars(xp), "xp": xp, "x": x}))  # noqa: S307  # of the table
        except (TypeError, ValueError, IndexError) as error:
            return type(error), str(error)


def described(result):
    if isinstance(result, (tuple, list)):
        return [described(part) for part in result]
    if isinstance(result, xp.Blob):
        return result.dtype, result.shape, result.tobytes()
    return type(result), repr(result)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_blobs_without_axes(name):
    function = FUNCTIONS[name]
    arrays = [p for p in inspect.signature(function).parameters if p in {"x", "x1", "x2", "type"}]
    for text in CALLS.get(name, [f"{name}({', '.join(['x'] * len(arrays))})"]):
        found = [outcome(text, x) for x in SCALARS]
        assert found == [outcome(text, xp.asarray(x)) for x in SCALARS], text


BESIDE = functions(
    """
    xp.add(x, s); xp.add(s, x); xp.where(x > 1, s, s); xp.where(s > 1, s, x);
    xp.searchsorted(x, s, sorter=xp.argsort(x)); xp.isin(s, x); xp.stack([s, x[0]]);
    xp.broadcast_arrays(s, x)[0]; xp.repeat(x, s); xp.tensordot(s, x, axes=0); xp.clip(s, x, x);
    xp.clip(x, s, 9)
    """,
    "x, s",
    globals(),
)


@pytest.mark.parametrize("call", BESIDE.values(), ids=BESIDE)
def test_they_go_where_the_blobs_are(on, device, call):
    with xp.use_device("cpu"):
        result = call(on([1, 2, 3]), np.int64(2))
    assert result.device == xp.Device(device)
    np.testing.assert_array_equal(result, call(xp.arange(1, 4), xp.asarray(2)))


def test_without_a_blob_they_go_to_the_default_device():
    scalar = np.float32(0.5)
    for device in ("cpu", "simulated:0"):
        with xp.use_device(device):
            results = [xp.sin(scalar), xp.add(1, scalar), xp.stack([scalar] * 2), xp.flip(scalar)]
        assert {result.device for result in results} == {xp.Device(device)}
        assert {result.dtype for result in results} == {scalar.dtype}


def test_those_of_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    scalar = ml_dtypes.bfloat16(2)
    results = [xp.add(scalar, scalar), xp.add(1, scalar), xp.add(scalar, 1), xp.sqrt(scalar)]
    results += [xp.add(xp.asarray(scalar), scalar), xp.where(np.True_, scalar, 1), xp.sum(scalar)]
    assert [str(result.dtype) for result in results] == ["bfloat16"] * 7
    assert [float(result) for result in results[:3]] == [4, 3, 3]
    assert xp.add(np.float32(1), scalar).dtype == xp.result_type(scalar, xp.float32) == xp.float32


def test_errors_have_no_other_error_for_context():
    calls = [xp.bitwise_invert, lambda x: xp.bitwise_and(x, x)]
    for call in [*calls, lambda x: xp.bitwise_and(x, 1), lambda x: xp.bitwise_and(1, x)]:
        with pytest.raises(TypeError, match="not supported for the input types") as error:
            call(np.float64(1))
        assert error.value.__context__ is None
