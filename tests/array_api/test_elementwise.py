"""Elementwise functions that correct NumPy, tested against the rules of the standard.

https://data-apis.org/array-api/2025.12/API_specification/elementwise_functions.html
"""

import itertools
import math

import numpy as np
import pytest
from call_texts import texts

import syncblob as xp
from syncblob import no_transfers

INF, NAN = math.inf, math.nan
FLOATS = ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]


@pytest.fixture(autouse=True, params=["cpu", "simulated:0"])
def device(request):
    """Run each test on the host and on an accelerator."""
    with xp.use_device(request.param):
        yield request.param


def made(values, dtype, device):
    return xp.asarray(np.array(values, dtype), device="cpu").to_device(device)


def exactly(blob, values, dtype):
    """Compare dtypes, shapes and values, including NaN and the signs of zeros."""
    expected = np.array(values, dtype)
    actual = np.asarray(blob)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    for part in ("real", "imag"):
        ours, theirs = getattr(actual, part), getattr(expected, part)
        np.testing.assert_array_equal(ours, theirs)
        known = ~np.isnan(theirs) if theirs.dtype.kind == "f" else np.ones(theirs.shape, bool)
        assert np.array_equal(np.signbit(ours)[known], np.signbit(theirs)[known]) or (
            theirs.dtype.kind != "f"
        )


# --- floor_divide --------------------------------------------------------------------------------

# If an operand is infinite, the standard rounds the quotient down: a finite number divided by an
# infinity is a zero with the sign of the quotient, not -1.
QUOTIENTS = [
    tuple(map(float, row.split()))
    for row in texts(
        """
        inf 2 inf; inf -2 -inf; -inf 2 -inf; -inf -2 inf; inf inf nan; -inf inf nan; 3 inf 0.0;
        3 -inf -0.0; -3 inf -0.0; -3 -inf 0.0; 0.0 inf 0.0; 0.0 -inf -0.0; -0.0 inf -0.0; 7 2 3;
        -7 2 -4
        """
    )
]


@pytest.mark.parametrize("dtype", FLOATS)
def test_floor_divide_of_infinities(dtype, device):
    x1, x2, expected = zip(*QUOTIENTS, strict=True)
    a, b = made(x1, dtype, device), made(x2, dtype, device)
    with np.errstate(all="ignore"):
        exactly(xp.floor_divide(a, b), expected, dtype)
        exactly(a // b, expected, dtype)
        for left, right, quotient in QUOTIENTS:
            exactly(made(left, dtype, device) // right, quotient, dtype)
            exactly(left // made(right, dtype, device), quotient, dtype)
        a //= b
    exactly(a, expected, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floor_divide_takes_integers_of_more_than_64_bits(dtype, device):
    values, number = [-1.5, 0.0, 3.0], -(2**70)
    with np.errstate(all="ignore"):
        blob = made(values, dtype, device)
        expected = [0.0, -0.0, -0.0 if dtype == "float16" else -1.0]
        exactly(blob // number, expected, dtype)
        quotients = np.floor(np.divide(number, np.array(values, dtype)))
        exactly(number // blob, quotients, dtype)
        blob //= number
    exactly(blob, expected, dtype)


# --- pow -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_pow_with_one_half_gives_no_sign(dtype, device):
    """For x2_i > 0 that is not an odd integer, -infinity gives +infinity and -0 gives +0."""
    bases = [-0.0, 0.0, -INF, INF, 4, 2.25]
    expected = [0.0, 0.0, INF, INF, 2, 1.5]
    blob = made(bases, dtype, device)
    with np.errstate(invalid="ignore"):
        exactly(xp.pow(blob, 0.5), expected, dtype)
        exactly(xp.pow(blob, made([0.5] * 6, dtype, device)), expected, dtype)
        exactly(blob**0.5, expected, dtype)
        for base, power in zip(bases, expected, strict=True):
            exactly(made(base, dtype, device) ** 0.5, power, dtype)
            exactly(base ** made(0.5, dtype, device), power, dtype)
        blob **= 0.5
        exactly(made([-4], dtype, device) ** 0.5, [NAN], dtype)
    exactly(blob, expected, dtype)


def test_powers_of_bfloat16_have_numpys_dtype(device):
    pytest.importorskip("ml_dtypes")
    base = np.array([1, 4], xp.zeros(0, dtype="bfloat16").dtype)
    blob = xp.asarray(base, device=device)
    for exponents in (0.5, 1.5, np.array([0.5, 2], "f2"), np.array([1.5, 2], "f2")):
        result = blob**exponents
        assert result.dtype == (base**exponents).dtype
        assert result.tolist() == (base**exponents).tolist()


# --- expm1 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", COMPLEX)
def test_expm1_of_special_complex_numbers_is_exp_minus_one(dtype, device):
    special = [0.0, -0.0, 1.0, INF, -INF, NAN]
    values = [complex(a, b) for a, b in itertools.product(special, special)]
    values = [z for z in values if not z or not np.isfinite(z)]
    with np.errstate(all="ignore"):
        expected = np.exp(np.array(values, dtype)) - np.array(1, dtype)
        exactly(xp.expm1(made(values, dtype, device)), expected, dtype)
        for value, result in zip(values, expected, strict=True):
            exactly(xp.expm1(made(value, dtype, device)), result, dtype)
    # The standard: "If a is -infinity and b is finite, the result is 0 * cis(b) - 1.0".
    exactly(xp.expm1(made([complex(-INF, 0)], dtype, device)), [-1 + 0j], dtype)
    tiny = made([1e-12], dtype, device)
    assert abs(complex(xp.expm1(tiny)[0]) - 1e-12) < 1e-18


# --- tanh ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", COMPLEX)
def test_tanh_at_infinity_is_one_with_the_sign_of_the_imaginary_part(dtype, device):
    """If a is +infinity and b is finite, tanh is 1 + 0j. It is odd and commutes with conj."""
    for a, b in itertools.product((INF, -INF), (0.0, -0.0, 2.0, -2.0)):
        value = complex(a, b)
        expected = complex(math.copysign(1, a), math.copysign(0, b))
        exactly(xp.tanh(made(value, dtype, device)), expected, dtype)
        exactly(xp.tanh(made([value, 0], dtype, device)), [expected, 0], dtype)
    ordinary = np.array([1 + 1j, -0.5 + 2j], dtype)
    exactly(xp.tanh(made(ordinary, dtype, device)), np.tanh(ordinary), dtype)
    square = np.array([[1, 2], [3, 4]], dtype)
    exactly(xp.tanh(made(square, dtype, device).T), np.tanh(square.T), dtype)


# --- sign ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_sign_of_both_zeros_is_plus_zero(dtype, device):
    """If x_i is -0 or +0, the result is 0. If x_i is NaN, the result is NaN."""
    blob = made([-0.0, 0.0, 3, -3, NAN, -INF], dtype, device)
    exactly(xp.sign(blob), [0.0, 0.0, 1, -1, NAN, -1], dtype)
    exactly(xp.sign(made(-0.0, dtype, device)), 0.0, dtype)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_sign_of_complex_numbers_is_on_the_unit_circle(dtype, device):
    """If x_i is 0 + 0j with any signs, the result is 0. Otherwise it is x / abs(x)."""
    blob = made([complex(-0.0, -0.0), 3 + 4j, -2j], dtype, device)
    np.testing.assert_allclose(np.asarray(xp.sign(blob)), [0, 0.6 + 0.8j, -1j], rtol=1e-6)
    assert not np.signbit(np.asarray(xp.sign(blob)).real[0])


# --- rounding ------------------------------------------------------------------------------------


def test_round_takes_halves_to_the_even_number(device):
    blob = made([0.5, 1.5, 2.5, -0.5, -1.5, NAN, INF], "float64", device)
    exactly(xp.round(blob), [0.0, 2, 2, -0.0, -2, NAN, INF], "float64")


# --- clip ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "float64"])
def test_clip_keeps_the_dtype_and_the_bounds(dtype, device):
    """The result has the dtype of x, whatever the dtype of the bounds. The bounds do not change."""
    blob = made([0, 5, 9], dtype, device)
    lower, upper = made([1, 1, 1], dtype, device), made([[4], [7]], dtype, device)
    exactly(xp.clip(blob, lower, upper), [[1, 4, 4], [1, 5, 7]], dtype)
    exactly(lower, [1, 1, 1], dtype)
    exactly(upper, [[4], [7]], dtype)
    exactly(xp.clip(blob, min=2), [2, 5, 9], dtype)
    exactly(xp.clip(blob, max=6), [0, 5, 6], dtype)
    exactly(xp.clip(blob, 2, upper[0, 0]), [2, 4, 4], dtype)
    exactly(xp.clip(made(3, dtype, device), 4), 4, dtype)
    wide = {"float32": "float64", "int8": "int64"}.get(dtype, dtype)
    exactly(xp.clip(blob, made(1, wide, device), made(7, wide, device)), [1, 5, 7], dtype)


def test_clip_gives_nan_where_a_bound_is_nan(device):
    blob = made([1, NAN, 3], "float64", device)
    exactly(xp.clip(blob, made([NAN, 0, 0], "float64", device), 2), [NAN, NAN, 2], "float64")


# --- real and imag -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", COMPLEX)
def test_real_and_imag_are_views(dtype, device):
    blob = made([[1 + 2j, 3 + 4j]], dtype, device)
    with no_transfers():
        real, imag = xp.real(blob), xp.imag(blob)
    part = "float32" if dtype == "complex64" else "float64"
    exactly(real, [[1, 3]], part)
    exactly(imag, [[2, 4]], part)
    assert real.memory is imag.memory is blob.memory
    real += 1
    imag[...] = 0
    exactly(blob, [[2, 4]], dtype)
    exactly(xp.imag(blob.T)[1:], [[0]], part)


# --- errors --------------------------------------------------------------------------------------

FUNCTIONS = [xp.add, xp.pow, xp.floor_divide, xp.logical_and, xp.clip, xp.equal]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("other", [np.ma.ones(2), np.array("1"), [1.0, 2.0], "1", object()])
def test_functions_refuse_what_no_blob_holds(function, other, device):
    blob = made([1, 2], "float64", device)
    with pytest.raises(TypeError, match="asarray"):
        function(blob, other)
    with pytest.raises(TypeError, match=r"asarray|Blob"):
        function(other, blob)
    with pytest.raises(TypeError):
        function(1, 2)
