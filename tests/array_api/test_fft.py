"""The Fourier extension: sizes that NumPy takes in another way."""

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob, fft

TOLERANCE = {"f4": 1e-4, "f8": 1e-10, "c8": 1e-4, "c16": 1e-10}

COMPLEX = "fft ifft fftn ifftn irfft irfftn hfft".split()
REAL = "rfft ihfft rfftn".split()
OF_ONE_AXIS = "fft ifft rfft irfft hfft ihfft".split()


def signal(name, precision=8, shape=(3, 4, 5)):
    """Make an operand for a transform: real if it requires that, otherwise complex."""
    values = np.random.default_rng(13).standard_normal((2, *shape))
    if name in REAL:
        return values[0].astype(f"f{precision}")
    return (values[0] + 1j * values[1]).astype(f"c{2 * precision}")


def check(on, device, name, operand, expected=None, **keywords):
    """Compare with NumPy's function of the same name, or with a given result."""
    x = on(operand)
    with xp.no_transfers():
        result = getattr(fft, name)(x, **keywords)
    if expected is None:
        expected = getattr(np.fft, name)(operand, **keywords)
    assert type(result) is Blob
    assert result.device == device
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    tolerance = TOLERANCE[operand.dtype.str[1:]]
    np.testing.assert_allclose(np.asarray(result), expected, tolerance, tolerance)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn"])
def test_a_size_of_minus_1_takes_an_axis_as_it_is(on, device, name):
    operand = signal(name)
    expected = getattr(np.fft, name)(operand, s=(2, 5), axes=(0, 2))
    check(on, device, name, operand, expected, s=(2, -1), axes=(0, 2))


def test_a_size_of_minus_1_uses_all_elements_for_real_results_too(on, device):
    # The standard: -1 uses all elements of the axis. NumPy drops two of five here.
    operand = signal("irfftn")
    expected = np.fft.irfftn(operand, s=(3, 8), axes=(0, 2))
    check(on, device, "irfftn", operand, expected, s=(-1, -1), axes=(0, 2))


@pytest.mark.parametrize("name", [*COMPLEX, *REAL])
def test_an_empty_axis_is_padded_with_zeros(on, name):
    x = on(signal(name, shape=(2, 0)))
    size = {"n": 4} if name in OF_ONE_AXIS else {"s": (4,), "axes": (1,)}
    # NumPy's irfft would return what the freed array held.
    noise = np.full(8, 7.0)
    del noise
    result = np.asarray(getattr(fft, name)(x, **size))
    assert result.size >= 6
    assert not result.any()
