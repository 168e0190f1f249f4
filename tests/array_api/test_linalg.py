"""Linear algebra, in the main namespace and in the extension, on every device.

Decompositions, solutions and diagonals. `test_corrected` has the results that are exact.
"""

import numpy as np
import pytest

import syncblob as xp
from syncblob import linalg

TOLERANCE = {"f4": 1e-3, "f8": 1e-9, "c8": 1e-3, "c16": 1e-9}


def numbers(shape, dtype="f8"):
    """Draw normally distributed numbers, complex ones for a complex dtype."""
    values = np.random.default_rng(17).standard_normal((2, *shape))
    return (values[0] + 1j * values[1] if np.dtype(dtype).kind == "c" else values[0]).astype(dtype)


def invertible(dtype="f8", shape=(2, 4, 4)):
    return (numbers(shape, dtype) + 5 * np.eye(shape[-1])).astype(dtype)


def hermitian(dtype="f8", shape=(2, 4, 4)):
    values = numbers(shape, dtype)
    return values + np.conj(values.swapaxes(-1, -2))


def test_the_functions_of_both_chapters_are_the_same():
    for name in ("matmul", "matrix_transpose", "tensordot", "vecdot"):
        assert getattr(linalg, name) is getattr(xp, name)


# --- always complex: eig, eigvals ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("make", [hermitian, invertible], ids=["real values", "any values"])
def test_eig_is_complex_even_where_no_value_has_an_imaginary_part(on, make, dtype):
    operand = make(dtype)
    x = on(operand)
    with xp.no_transfers():
        result = linalg.eig(x)
        alone = linalg.eigvals(x)
    assert result._fields == ("eigenvalues", "eigenvectors")
    complex_dtype = np.result_type(dtype, "c8")
    assert {part.dtype for part in (*result, alone)} == {complex_dtype}
    values, vectors = (np.asarray(part) for part in result)
    np.testing.assert_allclose(operand @ vectors, vectors * values[:, None], atol=TOLERANCE[dtype])
    np.testing.assert_allclose(
        np.sort_complex(np.asarray(alone)), np.sort_complex(values), atol=TOLERANCE[dtype]
    )


# --- tolerances: pinv ----------------------------------------------------------------------------


def test_the_tolerance_takes_account_of_shape_and_precision_or_is_given(on):
    # max(M, N) * eps is 4.8e-7 for float32. The defaults of NumPy's and CuPy's pinv are 1e-15.
    operand = np.diag(np.array([1, 1, 1, 3e-7], "f4"))
    np.testing.assert_allclose(
        np.asarray(linalg.pinv(on(operand))), np.diag([1, 1, 1, 0]), atol=1e-6
    )
    assert np.linalg.pinv(operand).max() > 1e6
    inverses = linalg.pinv(on([np.diag([8, 4, 1])] * 2), rtol=on([0.0, 0.3]))
    assert inverses.dtype == np.float64
    expected = [np.diag([0.125, 0.25, 1.0]), np.diag([0.125, 0.25, 0.0])]
    np.testing.assert_allclose(np.asarray(inverses), expected, atol=1e-12)


# --- systems of equations ------------------------------------------------------------------------

# Shapes of the operands and of the result. (M,) is a vector, any other shape a stack of matrices.
SYSTEMS = {
    "a vector": ((3, 3), (3,), (3,)),
    "a vector for a stack": ((2, 3, 3), (3,), (2, 3)),
    "a matrix": ((3, 3), (3, 4), (3, 4)),
    # Older rules treated the second operand as vectors.
    "a matrix for a stack": ((3, 3, 3), (3, 3), (3, 3, 3)),
    "stacks that broadcast": ((5, 1, 3, 3), (2, 3, 4), (5, 2, 3, 4)),
    "a stack for a matrix": ((3, 3), (2, 3, 4), (2, 3, 4)),
    "nothing": ((0, 0), (0,), (0,)),
}


@pytest.mark.parametrize("shapes", SYSTEMS.values(), ids=SYSTEMS)
def test_solve(on, device, shapes):
    a1, a2 = invertible("f8", shapes[0]), numbers(shapes[1])
    x1, x2 = on(a1), on(a2)
    with xp.no_transfers():
        result = linalg.solve(x1, x2)
    assert result.device == device
    assert result.shape == shapes[2]
    columns = (lambda a: a[..., None]) if len(shapes[1]) == 1 else (lambda a: a)
    again = a1 @ columns(np.asarray(result))
    np.testing.assert_allclose(again, np.broadcast_to(columns(a2), again.shape), atol=1e-9)


# --- diagonals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-5, -1, 0, 2, 5])
def test_diagonal_is_a_view_that_can_be_written(on, offset):
    operand = np.arange(24.0).reshape(2, 3, 4)
    x = on(operand)
    with xp.no_transfers():
        diagonal = linalg.diagonal(x, offset=offset)
        assert diagonal.memory is x.memory
        diagonal += 100
    assert diagonal.shape == operand.diagonal(offset, -2, -1).shape
    expected = operand + 100 * np.eye(3, 4, offset)
    np.testing.assert_array_equal(np.asarray(x), expected)
