"""The linear algebra extension: comparison with NumPy on every device, decompositions, errors."""

from __future__ import annotations

import numpy as np
import pytest

import syncblob as xp
from syncblob import linalg

TOLERANCE = {"f4": 1e-3, "f8": 1e-9, "c8": 1e-3, "c16": 1e-9}
INF = float("inf")


def numbers(shape, dtype="f8"):
    """Draw normally distributed numbers, complex ones for a complex dtype."""
    values = np.random.default_rng(11).standard_normal((2, *shape))
    return (values[0] + 1j * values[1] if np.dtype(dtype).kind == "c" else values[0]).astype(dtype)


# --- comparison with NumPy -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize("axis", [None, -1, 0, (0, 2), (-1, 0)])
@pytest.mark.parametrize("norm", [0, 2, 0.5, -INF])
def test_vector_norm(on, norm, axis, dtype):
    operand = numbers((2, 3, 4), dtype)
    x = on(operand)
    with xp.no_transfers():
        kept = linalg.vector_norm(x, axis=axis, ord=norm, keepdims=True)
        result = linalg.vector_norm(x, axis=axis, ord=norm)
    axes = {None: (0, 1, 2), -1: (2,), 0: (0,), (0, 2): (0, 2), (-1, 0): (0, 2)}[axis]
    rest = tuple(a for a in range(3) if a not in axes)
    flat = operand.transpose(*rest, *axes).reshape(*(operand.shape[a] for a in rest), -1)
    expected = np.linalg.norm(flat, norm, -1)
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    assert kept.shape == tuple(1 if a in axes else operand.shape[a] for a in range(3))
    np.testing.assert_allclose(np.asarray(result), expected, rtol=TOLERANCE[dtype])


# --- decompositions with factors that are not unique ---------------------------------------------


@pytest.mark.parametrize(
    ("function", "fields"),
    [
        (linalg.eigh, ("eigenvalues", "eigenvectors")),
        (linalg.qr, ("Q", "R")),
        (linalg.svd, ("U", "S", "Vh")),
        (linalg.slogdet, ("sign", "logabsdet")),
    ],
)
def test_the_parts_of_a_decomposition_have_names(on, function, fields):
    assert function(on(np.eye(2)))._fields == fields


def test_slogdet_of_a_singular_matrix(on):
    sign, logarithm = linalg.slogdet(on(np.zeros((2, 2))))
    assert (float(sign), float(logarithm)) == (0.0, -INF)


# --- names and errors ----------------------------------------------------------------------------


def test_the_functions_of_both_chapters_are_the_same():
    for name in ("matmul", "matrix_transpose", "tensordot", "vecdot"):
        assert getattr(linalg, name) is getattr(xp, name)


OF_ONE = """
    cholesky det diagonal eig eigh eigvals eigvalsh inv matrix_norm matrix_rank pinv qr slogdet svd
    svdvals trace
""".split()


@pytest.mark.parametrize("name", OF_ONE)
def test_of_one_operand_refuses_vectors(on, name):
    function = getattr(linalg, name)
    with pytest.raises((ValueError, IndexError)):
        function(on([1.0, 2.0]))


@pytest.mark.parametrize("name", "cholesky det eig eigh eigvals eigvalsh inv slogdet".split())
def test_matrices_must_be_square(on, name):
    with pytest.raises(ValueError, match="square"):
        getattr(linalg, name)(on(np.ones((2, 3))))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: linalg.qr(x, mode="r"), ValueError, 'expected mode "reduced" or "complete"'),
        (lambda x: linalg.matrix_power(x, 0.5), TypeError, "integer"),
        (lambda x: linalg.matrix_norm(x, ord="max"), ValueError, "norm"),
        (lambda x: linalg.trace(x, dtype="M8[s]"), TypeError, "numbers and booleans"),
    ],
)
def test_refused_keywords(on, call, error, message):
    with pytest.raises(error, match=message):
        call(on(np.eye(2)))


def test_a_singular_matrix_is_refused_where_values_are_looked_at():
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        linalg.inv(xp.zeros((2, 2)))
