"""NumPy's functions that are not in the standard, on each device."""

import numpy as np
import pytest

import syncblob as xp

ARRAY = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def blob(on):
    return on(ARRAY)


@pytest.mark.parametrize("subscripts", ["ij,kj->ik", "ij,ij->", "ij,ij->j"])
@pytest.mark.parametrize("optimize", [False, True])
def test_einsum(blob, subscripts, optimize):
    with xp.no_transfers():
        result = xp.einsum(subscripts, blob, blob, optimize=optimize)
    assert result.device == blob.device
    np.testing.assert_allclose(np.asarray(result), np.einsum(subscripts, ARRAY, ARRAY))


def test_einsum_that_computes_nothing_is_a_view(blob):
    diagonal = xp.einsum("ii->i", blob[:, :3])
    assert diagonal.memory is blob.memory
    np.testing.assert_array_equal(np.asarray(diagonal), np.diagonal(ARRAY))


@pytest.mark.parametrize(
    ("width", "mode", "options"),
    [
        (1, "constant", {}),
        ((2, 1), "constant", {"constant_values": -1}),
        (((0, 1), (2, 0)), "edge", {}),
        (2, "reflect", {"reflect_type": "odd"}),
    ],
)
def test_pad(blob, width, mode, options):
    with xp.no_transfers():
        result = xp.pad(blob, width, mode, **options)
    assert result.device == blob.device
    np.testing.assert_array_equal(np.asarray(result), np.pad(ARRAY, width, mode, **options))


@pytest.mark.parametrize("axes", [None, (1, 0), (0, 1), (-1, 0)])
def test_transpose_is_a_view(blob, axes):
    with xp.no_transfers():
        view = xp.transpose(blob, axes)
    assert view.memory is blob.memory
    np.testing.assert_array_equal(np.asarray(view), np.transpose(ARRAY, axes))


def test_what_is_no_blob_is_refused(blob):
    with pytest.raises(TypeError, match="asarray"):
        xp.einsum("ij,ij->", ARRAY, ARRAY)
    with pytest.raises(TypeError, match="asarray"):
        xp.einsum("ij,ij->", blob, ARRAY.tolist())
    with pytest.raises(TypeError, match="asarray"):
        xp.pad(ARRAY, 1)
    with pytest.raises(TypeError, match="asarray"):
        xp.transpose(ARRAY)


def test_subscripts_modes_and_axes_that_do_not_fit_are_refused(blob):
    with pytest.raises(ValueError, match="subscript"):
        xp.einsum("ijk->i", blob)
    with pytest.raises(ValueError, match="mode"):
        xp.pad(blob, 1, "no_such_mode")
    with pytest.raises(ValueError, match="axes"):
        xp.transpose(blob, (0,))
