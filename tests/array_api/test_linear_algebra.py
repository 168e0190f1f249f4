"""Linear algebra functions: comparison with NumPy on every device, views and errors."""

from __future__ import annotations

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob, Head


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
