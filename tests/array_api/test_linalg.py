"""Linear algebra, in the main namespace and in the extension, on every device.

Comparison with NumPy, differences from NumPy and CuPy, views and errors.
"""

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob, Head, linalg

TOLERANCE = {"f4": 1e-3, "f8": 1e-9, "c8": 1e-3, "c16": 1e-9}
INF = float("inf")


def numbers(shape, dtype="f8"):
    """Draw normally distributed numbers, complex ones for a complex dtype."""
    values = np.random.default_rng(17).standard_normal((2, *shape))
    return (values[0] + 1j * values[1] if np.dtype(dtype).kind == "c" else values[0]).astype(dtype)


def invertible(dtype="f8", shape=(2, 4, 4)):
    return (numbers(shape, dtype) + 5 * np.eye(shape[-1])).astype(dtype)


def hermitian(dtype="f8", shape=(2, 4, 4)):
    values = numbers(shape, dtype)
    return values + np.conj(values.swapaxes(-1, -2))


# --- functions of the main namespace -------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape1", "shape2"),
    [((), (3,)), ((3,), ()), ((3,), (4,)), ((2, 3), (4, 5)), ((2, 2, 3), (3, 3, 4)), ((1,), (4,))],
)
def test_matmul_refuses_shapes_that_do_not_fit(on, shape1, shape2):
    x1, x2 = on(np.ones(shape1)), on(np.ones(shape2))
    # CuPy and dpnp have messages of their own.
    messages = r"matmul|broadcast|dimension mismatch|Scalar operands|enough dimensions"
    with pytest.raises(ValueError, match=messages):
        xp.matmul(x1, x2)


def test_matrix_transpose_reads_nothing(device):
    x = Blob((2, 3), device=device)
    assert xp.matrix_transpose(x).shape == (3, 2)
    assert x.head is Head.UNINITIALIZED


def test_matrix_transpose_refuses_a_vector(on):
    with pytest.raises(ValueError, match=r"\(3,\)"):
        xp.matrix_transpose(on([1, 2, 3]))


@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        # The standard: a number must be non-negative. NumPy treats a negative one as zero.
        (-1, ValueError, "at least 0, got -1"),
        # The standard: each axis of a sequence must be unique.
        (((0, 0), (0, 1)), ValueError, "each axis once"),
        (((1, -1), (0, 1)), ValueError, "each axis once"),
        (((2,), (0,)), IndexError, "axis 2 is out of range"),
        (((0,), (-3,)), IndexError, "axis -3 is out of range"),
        (((0,), (0, 1)), ValueError, "mismatch"),
        (((0,), (1,)), ValueError, "mismatch|not similar"),
    ],
)
def test_tensordot_refuses_axes(on, axes, error, message):
    x1, x2 = on(np.ones((3, 3))), on(np.ones((3, 4)))
    with pytest.raises(error, match=message):
        xp.tensordot(x1, x2, axes=axes)


def test_vecdot_does_not_broadcast_its_axis(on):
    with pytest.raises(ValueError, match=r"size|dimension"):
        xp.vecdot(on([1, 2, 3]), on([4]))


FUNCTIONS = [xp.matmul, xp.tensordot, xp.vecdot]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_scalars_are_refused(on, function):
    with pytest.raises(TypeError, match=r"Blob.* float"):
        function(on(np.ones((2, 2))), 2.0)


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


# --- tolerances: matrix_rank, pinv ---------------------------------------------------------------


def test_matrix_rank_counts_what_is_above_the_tolerance(on, device):
    stack = on([np.diag([8.0, 4.0, 1.0]), np.diag([8.0, 0.0, 0.0]), np.zeros((3, 3))])
    with xp.no_transfers():
        ranks = linalg.matrix_rank(stack)
        half = linalg.matrix_rank(stack, rtol=0.5)
    assert ranks.device == device
    assert ranks.dtype == half.dtype == np.int64
    assert np.asarray(ranks).tolist() == [3, 1, 0]
    # The standard: "less than or equal to rtol * largest_singular_value".
    assert np.asarray(half).tolist() == [1, 1, 0]


def test_a_tolerance_may_be_a_blob_that_broadcasts_with_the_stack(on):
    stack = on([np.diag([8.0, 4.0, 1.0])] * 2)
    rtol = on([0.0, 0.3])
    with xp.no_transfers():
        ranks = linalg.matrix_rank(stack, rtol=rtol)
        inverses = linalg.pinv(stack, rtol=rtol)
    assert np.asarray(ranks).tolist() == [3, 2]
    expected = [np.diag([0.125, 0.25, 1.0]), np.diag([0.125, 0.25, 0.0])]
    np.testing.assert_allclose(np.asarray(inverses), expected, atol=1e-12)
    for function in (linalg.matrix_rank, linalg.pinv):
        with pytest.raises(TypeError, match=r"Blob.* float"):
            function(1.0, rtol=rtol)
    one = linalg.matrix_rank(stack, rtol=on(0.3))
    assert np.asarray(one).tolist() == [2, 2]


def test_the_default_tolerance_takes_account_of_shape_and_precision(on):
    # max(M, N) * eps is 4.8e-7 for float32. The defaults of NumPy's and CuPy's pinv are 1e-15.
    operand = np.diag(np.array([1, 1, 1, 3e-7], "f4"))
    assert int(linalg.matrix_rank(on(operand))) == 3
    np.testing.assert_allclose(
        np.asarray(linalg.pinv(on(operand))), np.diag([1, 1, 1, 0]), atol=1e-6
    )
    assert np.linalg.pinv(operand).max() > 1e6


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3), (0, 2, 2)])
def test_matrices_without_elements_have_rank_0(on, shape):
    x = on(np.ones(shape))
    ranks = linalg.matrix_rank(x)
    assert ranks.shape == shape[:-2]
    assert not np.asarray(ranks).any()
    assert linalg.pinv(x).shape == (*shape[:-2], shape[-1], shape[-2])


def test_pinv_takes_integers_as_float64(on):
    result = linalg.pinv(on([[2, 0], [0, 4]]))
    assert result.dtype == np.float64
    np.testing.assert_allclose(np.asarray(result), [[0.5, 0], [0, 0.25]], atol=1e-12)


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


def test_solve_refuses_shapes_that_do_not_fit(on):
    for shape1, shape2 in [((3, 3), (4,)), ((2, 3, 3), (3, 3, 3)), ((3,), (3,)), ((2, 3), (2,))]:
        x1, x2 = on(np.ones(shape1)), on(np.ones(shape2))
        with pytest.raises(ValueError, match=r"."):
            linalg.solve(x1, x2)


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


def test_diagonal_of_a_const_view_stays_const(on):
    x = on(np.ones((2, 2)))
    diagonal = linalg.diagonal(x.const)
    with pytest.raises(ValueError, match="const"):
        diagonal += 1


def test_diagonal_of_a_blob_nobody_wrote_yet(device):
    x = Blob((3, 4), device=device)
    diagonal = linalg.diagonal(x, offset=1)
    diagonal += 1
    assert float(x[1, 2]) == 1.0


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("i1", "i8"), ("i8", "i8"), ("u1", "u8"), ("f4", "f4"), ("f8", "f8"), ("c8", "c8")],
)
def test_trace_adds_small_integers_up_in_the_default_ones(on, dtype, expected):
    x = on(np.full((3, 3), 100, dtype))
    assert linalg.trace(x).dtype == expected
    assert complex(linalg.trace(x)) == 300


def test_trace_converts_before_it_adds(on):
    assert int(linalg.trace(on(np.full((3, 3), 100, "i1")), dtype=xp.uint16)) == 300
    assert linalg.trace(on(np.ones((2, 2), "f4")), dtype="float64").dtype == np.float64
    assert float(linalg.trace(on(np.ones((2, 2))), offset=7)) == 0


# --- vectors -------------------------------------------------------------------------------------


def test_cross_broadcasts(on):
    a1, a2 = numbers((3, 5, 1)), numbers((2, 3, 5, 4))
    result = linalg.cross(on(a1), on(a2), axis=-3)
    assert result.shape == (2, 3, 5, 4)
    np.testing.assert_allclose(np.asarray(result), np.cross(a1, a2, axis=-3), atol=1e-12)


@pytest.mark.parametrize(
    ("shape1", "shape2", "axis", "error"),
    [
        # The standard: an error if the axis does not have size 3 before broadcasting.
        ((2,), (2,), -1, ValueError),
        ((3,), (1,), -1, ValueError),
        ((3, 4), (3, 4), -1, ValueError),
        ((3,), (3,), -2, IndexError),
    ],
)
def test_cross_refuses_other_sizes_than_3(on, shape1, shape2, axis, error):
    x1, x2 = on(np.ones(shape1)), on(np.ones(shape2))
    with pytest.raises(error, match="axis"):
        linalg.cross(x1, x2, axis=axis)


def test_outer_does_not_conjugate(on):
    a1, a2 = numbers((3,), "c16"), numbers((4,), "c16")
    result = linalg.outer(on(a1), on(a2))
    assert result.shape == (3, 4)
    np.testing.assert_allclose(np.asarray(result), a1[:, None] * a2, rtol=1e-12)


@pytest.mark.parametrize("shapes", [((2, 2), (2,)), ((2,), (2, 2)), ((), (2,))])
def test_outer_refuses_others_than_vectors(on, shapes):
    x1, x2 = (on(np.ones(shape)) for shape in shapes)
    with pytest.raises(ValueError, match="axis"):
        linalg.outer(x1, x2)
