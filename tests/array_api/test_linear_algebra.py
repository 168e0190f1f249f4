"""Linear algebra functions: comparison with NumPy on every device, views and errors."""

from __future__ import annotations

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob, Head


def numbers(shape, dtype="f8"):
    """Draw small integers, whose products are exact."""
    values = np.random.default_rng(7).integers(-4, 5, (2, *shape))
    return (values[0] + 1j * values[1] if np.dtype(dtype).kind == "c" else values[0]).astype(dtype)


# Shapes of the operands and of the result.
PRODUCTS = {
    "matrices": ((2, 3), (3, 4), (2, 4)),
    "vectors": ((3,), (3,), ()),
    "a row": ((3,), (5, 3, 4), (5, 4)),
    "a column": ((5, 2, 3), (3,), (5, 2)),
    "stacks that broadcast": ((5, 1, 2, 3), (6, 3, 4), (5, 6, 2, 4)),
    "nothing to add up": ((2, 0), (0, 3), (2, 3)),
}


@pytest.mark.parametrize("dtype", ["i4", "f4", "c16"])
@pytest.mark.parametrize("shapes", PRODUCTS.values(), ids=PRODUCTS)
def test_matmul(on, device, shapes, dtype):
    a1, a2 = numbers(shapes[0], dtype), numbers(shapes[1], dtype)
    x1, x2 = on(a1), on(a2)
    with xp.no_transfers():
        product = xp.matmul(x1, x2)
    assert type(product) is Blob
    assert product.device == device
    assert product.shape == shapes[2]
    assert product.dtype == dtype
    np.testing.assert_array_equal(np.asarray(product), np.matmul(a1, a2))


@pytest.mark.parametrize(
    ("shape1", "shape2"),
    [((), (3,)), ((3,), ()), ((3,), (4,)), ((2, 3), (4, 5)), ((2, 2, 3), (3, 3, 4)), ((1,), (4,))],
)
def test_matmul_refuses_shapes_that_do_not_fit(on, shape1, shape2):
    x1, x2 = on(np.ones(shape1)), on(np.ones(shape2))
    # CuPy has messages of its own.
    with pytest.raises(ValueError, match=r"matmul|broadcast|dimension mismatch|Scalar operands"):
        xp.matmul(x1, x2)


def test_matrix_transpose_is_a_view(on):
    x = on(np.arange(24.0).reshape(2, 3, 4))
    with xp.no_transfers():
        transposed = xp.matrix_transpose(x)
        assert transposed.memory is x.memory
        transposed += 100
    assert transposed.shape == (2, 4, 3)
    expected = np.arange(24.0).reshape(2, 3, 4) + 100
    np.testing.assert_array_equal(np.asarray(x), expected)
    np.testing.assert_array_equal(np.asarray(transposed), expected.swapaxes(1, 2))


def test_matrix_transpose_reads_nothing(device):
    x = Blob((2, 3), device=device)
    assert xp.matrix_transpose(x).shape == (3, 2)
    assert x.head is Head.UNINITIALIZED


def test_matrix_transpose_refuses_a_vector(on):
    with pytest.raises(ValueError, match=r"at least two axes, got shape \(3,\)"):
        xp.matrix_transpose(on([1, 2, 3]))


@pytest.mark.parametrize(
    "axes", [0, 1, 2, ((0,), (2,)), ((-1, 0), (0, -1)), ((), ()), ((1, 2, 0), (1, 0, 2))]
)
def test_tensordot(on, device, axes):
    a1, a2 = numbers((3, 4, 3)), numbers((3, 4, 3)).transpose(2, 1, 0)
    if axes == 2:
        a1 = a1.transpose(1, 0, 2)[:, :3]
        a2 = a2[:, :3]
    x1, x2 = on(a1), on(a2)
    if axes == ((1, 2, 0), (1, 0, 2)):
        assert np.tensordot(a1, a2, axes).shape == ()
    with xp.no_transfers():
        result = xp.tensordot(x1, x2, axes=axes)
    expected = np.tensordot(a1, a2, axes)
    assert type(result) is Blob
    assert result.device == device
    assert result.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(result), expected)


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
        (((0,), (1,)), ValueError, "mismatch"),
    ],
)
def test_tensordot_refuses_axes(on, axes, error, message):
    x1, x2 = on(np.ones((3, 3))), on(np.ones((3, 4)))
    with pytest.raises(error, match=message):
        xp.tensordot(x1, x2, axes=axes)


@pytest.mark.parametrize("axis", [-1, -2])
def test_vecdot_conjugates_the_first_and_broadcasts(on, device, axis):
    a1, a2 = numbers((2, 1, 3, 3), "c16"), numbers((5, 3, 3), "c16")
    x1, x2 = on(a1), on(a2)
    with xp.no_transfers():
        result = xp.vecdot(x1, x2, axis=axis)
    assert result.device == device
    expected = (a1.conj() * a2).sum(axis)
    assert result.shape == expected.shape == (2, 5, 3)
    np.testing.assert_array_equal(np.asarray(result), expected)


def test_vecdot_of_vectors_is_a_blob_without_axes(on):
    result = xp.vecdot(on([1, 2, 3]), on([4, 5, 6]))
    assert type(result) is Blob
    assert result.shape == ()
    assert int(result) == 32


def test_vecdot_does_not_broadcast_its_axis(on):
    with pytest.raises(ValueError, match=r"size|dimension"):
        xp.vecdot(on([1, 2, 3]), on([4]))


FUNCTIONS = [xp.matmul, xp.tensordot, xp.vecdot]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_of_two_devices_the_accelerator_computes(accelerator, function):
    host = xp.asarray(np.ones((2, 2)), device="cpu")
    other = Blob((2, 2), "f8", device=accelerator)
    other.overwrite_gpu_data()[...] = 1
    with xp.record_transfers() as log:
        results = function(host, other), function(other, host)
    assert [result.device for result in results] == [accelerator, accelerator]
    assert {transfer.direction for transfer in log} == {"upload"}


@pytest.mark.parametrize("other", [np.full((2, 2), "x"), [[1.0, 1.0], [1.0, 1.0]], None, "x"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_others_than_arrays_are_refused(on, function, other):
    x = on(np.ones((2, 2)))
    for operands in ((x, other), (other, x)):
        with pytest.raises(TypeError):
            function(*operands)
    with pytest.raises(TypeError, match="expects a Blob"):
        xp.matrix_transpose(other)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_scalars_are_refused(on, function):
    with pytest.raises(TypeError, match="expects a Blob, got float"):
        function(on(np.ones((2, 2))), 2.0)
