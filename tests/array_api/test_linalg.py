"""The linear algebra extension: comparison with NumPy on every device, decompositions, errors."""

from __future__ import annotations

import numpy as np
import pytest
import tiers

import syncblob as xp
from syncblob import Blob, linalg

TOLERANCE = {"f4": 1e-3, "f8": 1e-9, "c8": 1e-3, "c16": 1e-9}
KINDS = {"f4": "real numbers", "c16": "complex numbers"}
INF = float("inf")


def numbers(shape, dtype="f8"):
    """Draw normally distributed numbers, complex ones for a complex dtype."""
    values = np.random.default_rng(11).standard_normal((2, *shape))
    return (values[0] + 1j * values[1] if np.dtype(dtype).kind == "c" else values[0]).astype(dtype)


def invertible(dtype="f8", shape=(2, 4, 4)):
    return (numbers(shape, dtype) + 5 * np.eye(shape[-1])).astype(dtype)


def hermitian(dtype="f8", shape=(2, 4, 4)):
    values = numbers(shape, dtype)
    return values + np.conj(values.swapaxes(-1, -2))


def positive(dtype="f8", shape=(2, 4, 4)):
    values = invertible(dtype, shape)
    return values @ np.conj(values.swapaxes(-1, -2))


def adjoint(x):
    return np.conj(x.swapaxes(-1, -2))


# --- comparison with NumPy -----------------------------------------------------------------------

# The operand, the function, and NumPy's counterpart.
COMPARED = {
    "cholesky": (positive, linalg.cholesky, np.linalg.cholesky),
    "cholesky, upper": (
        positive,
        lambda x: linalg.cholesky(x, upper=True),
        lambda a: adjoint(np.linalg.cholesky(a)),
    ),
    "det": (invertible, linalg.det, np.linalg.det),
    "eigvalsh": (hermitian, linalg.eigvalsh, np.linalg.eigvalsh),
    "inv": (invertible, linalg.inv, np.linalg.inv),
    "matrix_power, 0": (
        invertible,
        lambda x: linalg.matrix_power(x, 0),
        lambda a: np.linalg.matrix_power(a, 0),
    ),
    "matrix_power, 5": (
        invertible,
        lambda x: linalg.matrix_power(x, 5),
        lambda a: np.linalg.matrix_power(a, 5),
    ),
    "matrix_power, -2": (
        invertible,
        lambda x: linalg.matrix_power(x, -2),
        lambda a: np.linalg.matrix_power(a, -2),
    ),
    "pinv": (lambda dtype: numbers((2, 3, 4), dtype), linalg.pinv, np.linalg.pinv),
    "svdvals": (lambda dtype: numbers((2, 3, 4), dtype), linalg.svdvals, np.linalg.svdvals),
    "trace": (
        lambda dtype: numbers((2, 3, 4), dtype),
        lambda x: linalg.trace(x, offset=1),
        lambda a: a.trace(1, -2, -1),
    ),
    "diagonal": (
        lambda dtype: numbers((2, 3, 4), dtype),
        lambda x: linalg.diagonal(x, offset=-1),
        lambda a: a.diagonal(-1, -2, -1),
    ),
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("case", COMPARED.values(), ids=COMPARED)
def test_against_numpy(on, device, case, dtype):
    make, function, counterpart = case
    operand = make(dtype)
    x = on(operand)
    with xp.no_transfers():
        result = function(x)
    expected = counterpart(operand)
    assert type(result) is Blob
    assert result.device == device
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(result), expected, rtol=TOLERANCE[dtype], atol=1e-5)


@pytest.mark.parametrize("dtype", tiers.representatives(TOLERANCE, KINDS))
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("norm", ["fro", "nuc", None, 1, -1, 2, -2, INF, -INF])
def test_matrix_norm(on, norm, keepdims, dtype):
    operand = numbers((2, 3, 4), dtype)
    x = on(operand)
    with xp.no_transfers():
        result = linalg.matrix_norm(x, ord=norm, keepdims=keepdims)
    expected = np.linalg.norm(operand, norm, (-2, -1), keepdims)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(result), expected, rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", tiers.representatives(TOLERANCE, KINDS))
@pytest.mark.parametrize("axis", [None, -1, 0, (0, 2), (-1, 0)])
@pytest.mark.parametrize("norm", [0, 1, 2, 3, 0.5, -1, -2, INF, -INF])
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


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_eigh(on, dtype):
    operand = hermitian(dtype)
    x = on(operand)
    with xp.no_transfers():
        result = linalg.eigh(x)
    values, vectors = (np.asarray(part) for part in result)
    assert result._fields == ("eigenvalues", "eigenvectors")
    assert result.eigenvalues.dtype == np.zeros(1, dtype).real.dtype
    assert result.eigenvectors.dtype == dtype
    again = vectors * values[..., None, :] @ adjoint(vectors)
    np.testing.assert_allclose(again, operand, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_qr(on, dtype, shape, mode):
    operand = numbers(shape, dtype)
    x = on(operand)
    with xp.no_transfers():
        result = linalg.qr(x, mode=mode)
    assert result._fields == ("Q", "R")
    between = shape[-2] if mode == "complete" else min(shape[-2:])
    assert result.Q.shape == (*shape[:-1], between)
    assert result.R.shape == (*shape[:-2], between, shape[-1])
    assert {part.dtype for part in result} == {np.dtype(dtype)}
    q, r = (np.asarray(part) for part in result)
    np.testing.assert_array_equal(r, np.triu(r))
    np.testing.assert_allclose(q @ r, operand, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_svd(on, dtype, full):
    operand = numbers((2, 5, 3), dtype)
    x = on(operand)
    with xp.no_transfers():
        result = linalg.svd(x, full_matrices=full)
    assert result._fields == ("U", "S", "Vh")
    assert [part.shape for part in result] == [(2, 5, 5 if full else 3), (2, 3), (2, 3, 3)]
    u, s, vh = (np.asarray(part) for part in result)
    assert s.dtype == operand.real.dtype
    np.testing.assert_allclose(u[..., :3] * s[:, None] @ vh, operand, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_slogdet(on, dtype):
    operand = invertible(dtype)
    result = linalg.slogdet(on(operand))
    assert result._fields == ("sign", "logabsdet")
    assert result.sign.dtype == dtype
    assert result.logabsdet.dtype == operand.real.dtype
    sign, logarithm = (np.asarray(part) for part in result)
    np.testing.assert_allclose(
        sign * np.exp(logarithm), np.linalg.det(operand), rtol=TOLERANCE[dtype]
    )


def test_slogdet_of_a_singular_matrix(on):
    sign, logarithm = linalg.slogdet(on(np.zeros((2, 2))))
    assert (float(sign), float(logarithm)) == (0.0, -INF)


# --- names and errors ----------------------------------------------------------------------------


def test_the_functions_of_both_chapters_are_the_same():
    for name in ("matmul", "matrix_transpose", "tensordot", "vecdot"):
        assert getattr(linalg, name) is getattr(xp, name)


def test_matrix_power_1_is_a_view(on):
    x = on(np.eye(2))
    assert linalg.matrix_power(x, 1).memory is x.memory


OF_ONE = """
    cholesky det diagonal eig eigh eigvals eigvalsh inv matrix_norm matrix_rank pinv qr slogdet svd
    svdvals trace
""".split()


@pytest.mark.parametrize("name", OF_ONE)
def test_of_one_operand_refuses_vectors_and_others_than_blobs(on, name):
    function = getattr(linalg, name)
    with pytest.raises((ValueError, IndexError)):
        function(on([1.0, 2.0]))
    for other in (np.eye(2), [[1.0]], 1.0, None):
        with pytest.raises(TypeError, match=r"expects (a|at least one) Blob"):
            function(other)


@pytest.mark.parametrize("name", ["cross", "outer", "solve"])
def test_of_two_operands_refuses_others_than_arrays(on, name):
    function = getattr(linalg, name)
    x = on(np.eye(3))
    for other in ([1.0], 1.0, None):
        for operands in ((x, other), (other, x)):
            with pytest.raises(TypeError, match="expects a Blob"):
                function(*operands)


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
