"""Statistical functions: dtypes of results, corrections and errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob

A = np.arange(1, 25, dtype="f4").reshape(2, 3, 4)
REDUCTIONS = {
    "max": np.max,
    "mean": np.mean,
    "min": np.min,
    "prod": np.prod,
    "std": np.std,
    "sum": np.sum,
    "var": np.var,
}
OTHERS = [np.ones(2), [1.0, 2.0], 1.0, None]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_are_numpys_and_blobs_of_the_device(name, axis, keepdims, on, device):
    x = on(A)
    with xp.no_transfers():
        result = getattr(xp, name)(x, axis=axis, keepdims=keepdims)
    assert isinstance(result, Blob)
    assert result.device == device
    expected = REDUCTIONS[name](A, axis=axis, keepdims=keepdims)
    # Accelerators add in a different order.
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-6)
    assert (result.shape, result.dtype) == (np.shape(expected), np.dtype("f4"))


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("i1", "i8"), ("i4", "i8"), ("u2", "u8"), ("u8", "u8"), ("f4", "f4"), ("c8", "c8")],
)
def test_sums_and_products_widen_integers(name, dtype, expected, on):
    """The standard: to the default integer dtype, or to the unsigned dtype of the same size."""
    assert getattr(xp, name)(on([1, 2], dtype)).dtype == np.dtype(expected)


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("dtype", ["int32", xp.float64, np.dtype("c16")])
def test_a_dtype_is_converted_to_first(name, dtype, on):
    result = getattr(xp, name)(on([2, 3], "i1"), dtype=dtype)
    assert result.dtype == np.dtype(dtype)
    with pytest.raises(TypeError, match="dtype"):
        getattr(xp, name)(on([2, 3]), dtype="no dtype")


def test_sums_and_products_of_nothing(on):
    """The standard: an empty sum is 0, an empty product is 1."""
    x = on([], "f4")
    assert (xp.sum(x).tolist(), xp.prod(x).tolist()) == (0, 1)


def test_nan_propagates(on):
    """The standard: if an element is NaN, so is the result."""
    x = on([1.0, np.nan, 2.0])
    for name in REDUCTIONS:
        assert np.isnan(float(getattr(xp, name)(x))), name


@pytest.mark.parametrize(
    ("values", "dtype", "axis", "correction"),
    [
        ([1.0, 3.0], "f4", None, 2),
        ([1.0, 3.0], "f8", 0, 2.5),
        ([[1.0, 3.0]], "f4", (0, 1), 3),
        ([[1, 2], [3, 4]], "i4", -1, 2),
        ([1j, 2.0], "c8", None, 2),
        (1.0, "f4", None, 1),
        ([], "f4", None, 0),
    ],
)
def test_without_degrees_of_freedom_they_are_nan(values, dtype, axis, correction, on):
    """The standard: NaN if M - correction is 0 or less. NumPy divides by zero, giving infinity."""
    x = on(values, dtype)
    for function, keepdims in itertools.product((xp.var, xp.std), (False, True)):
        result = function(x, axis=axis, correction=correction, keepdims=keepdims)
        assert result.shape == np.sum(np.ones(x.shape), axis=axis, keepdims=keepdims).shape
        assert result.dtype == ("f8" if dtype == "i4" else np.empty(0, dtype).real.dtype)
        assert np.isnan(np.asarray(result)).all()


def test_a_correction_is_subtracted_from_the_divisor(on):
    x = on([1.0, 2.0, 4.0])
    assert float(xp.var(x, correction=1)) == pytest.approx(np.var([1.0, 2.0, 4.0], correction=1))
    assert float(xp.std(x, correction=0.5)) == pytest.approx(
        np.std([1.0, 2.0, 4.0], correction=0.5)
    )


@pytest.mark.parametrize(("name", "initial"), [("cumulative_sum", 0), ("cumulative_prod", 1)])
class TestCumulative:
    def test_is_numpys(self, name, initial, on, device):
        x = on(A)
        for axis in (0, -2):
            with xp.no_transfers():
                result = getattr(xp, name)(x, axis=axis)
            assert result.device == device
            expected = getattr(np, name)(A, axis=axis)
            np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-6)
            longer = getattr(xp, name)(x, axis=axis, include_initial=True)
            first, *rest = xp.unstack(longer, axis=axis)
            assert {*np.asarray(first).flat} == {initial}
            np.testing.assert_array_equal(
                np.asarray(xp.stack(rest, axis=axis)), np.asarray(result), strict=True
            )

    def test_of_no_axes_counts_as_one(self, name, initial, on):
        assert getattr(xp, name)(on(5)).tolist() == [5]
        assert getattr(xp, name)(on(5), include_initial=True).tolist() == [initial, 5]

    def test_of_several_axes_wants_one(self, name, initial, on):
        """The standard: `axis` is required if x has more than one axis."""
        del initial
        with pytest.raises(ValueError, match="axis"):
            getattr(xp, name)(on(A))
        with pytest.raises(IndexError):
            getattr(xp, name)(on(A), axis=3)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: xp.sum(x, axis=3), IndexError),
        (lambda x: xp.mean(x, axis=(0, -4)), IndexError),
        (lambda x: xp.var(x, axis=3), IndexError),
        (lambda x: xp.std(x, axis=3, correction=100), IndexError),
        (lambda x: xp.prod(x, axis=(0, 0)), ValueError),
        (lambda _: xp.max(Blob(0)), ValueError),
        (lambda _: xp.min(Blob((2, 0)), axis=1), ValueError),
    ],
)
def test_refused(call, error, on):
    with pytest.raises(error):
        call(on(A))


@pytest.mark.parametrize("other", OTHERS, ids=repr)
@pytest.mark.parametrize("name", [*REDUCTIONS, "cumulative_sum", "cumulative_prod"])
def test_other_than_blobs_are_refused(name, other):
    with pytest.raises(TypeError, match=f"^{name} expects .*Blob"):
        getattr(xp, name)(other)


@pytest.mark.parametrize("name", ["std", "var"])
def test_numpys_name_of_the_correction(name, on):
    x = on(A)
    result = getattr(xp, name)(x, axis=1, ddof=2)
    np.testing.assert_allclose(np.asarray(result), getattr(np, name)(A, axis=1, ddof=2), rtol=1e-6)
    with pytest.raises(ValueError, match=rf"{name} got correction=1 and ddof=0.*give one"):
        getattr(xp, name)(x, correction=1, ddof=0)
