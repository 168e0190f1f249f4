"""The Fourier extension: comparison with NumPy on every device, precision, sizes and errors."""

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob, fft

TOLERANCE = {"f4": 1e-4, "f8": 1e-10, "c8": 1e-4, "c16": 1e-10}

COMPLEX = "fft ifft fftn ifftn irfft irfftn hfft".split()
REAL = "rfft ihfft rfftn".split()
OF_ONE_AXIS = "fft ifft rfft irfft hfft ihfft".split()
OF_SEVERAL = "fftn ifftn rfftn irfftn".split()


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


# --- sizes ---------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", OF_SEVERAL)
def test_sizes_come_with_axes(on, name):
    x = on(signal(name))
    # The standard: axes must not be None if s is given.
    with pytest.raises(ValueError, match=r"axes.* s=\(2, 2\)"):
        getattr(fft, name)(x, s=(2, 2))
    with pytest.raises(ValueError, match=r"s=\(2, 2\) .*axes=\(0,\)"):
        getattr(fft, name)(x, s=(2, 2), axes=(0,))
    for size in (0, -2):
        with pytest.raises(ValueError, match=f"{size}"):
            getattr(fft, name)(x, s=(size,), axes=(0,))


@pytest.mark.parametrize("name", OF_ONE_AXIS)
def test_a_size_is_at_least_1(on, name):
    x = on(signal(name))
    for n in (0, -1, -3):
        with pytest.raises(ValueError, match=f"{n}"):
            getattr(fft, name)(x, n=n)


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


@pytest.mark.parametrize("name", [*COMPLEX, *REAL])
def test_refused_keywords(on, name):
    x = on(signal(name))
    with pytest.raises(ValueError, match="norm"):
        getattr(fft, name)(x, norm="sideways")
    one_axis = name in OF_ONE_AXIS
    for keywords in ({"axis": 3},) if one_axis else ({"axes": (3,)}, {"axes": (3,), "s": (-1,)}):
        with pytest.raises(IndexError, match="axis 3"):
            getattr(fft, name)(x, **keywords)


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_an_axis_to_shift_that_is_out_of_range_is_named(on, name):
    for axes in (3, (0, 3)):
        with pytest.raises(IndexError, match="axis 3"):
            getattr(fft, name)(on([1.0, 2.0]), axes=axes)


def test_no_axes_leave_a_view(on):
    x = on(signal("fftn"))
    assert fft.fftn(x, axes=()).memory is x.memory


# --- kinds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REAL)
def test_real_transforms_refuse_complex_numbers(on, name):
    with pytest.raises(TypeError, match=rf"^{name} .*complex128"):
        getattr(fft, name)(on(signal("fft")))


@pytest.mark.parametrize("name", OF_SEVERAL)
def test_others_than_blobs_are_refused_with_sizes(name):
    with pytest.raises(TypeError, match=r"Blob.* ndarray"):
        getattr(fft, name)(signal(name), s=(-1,), axes=(0,))


# --- frequencies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize(
    ("n", "keywords", "error", "message"),
    [
        (0, {}, ValueError, "at least one element, got n=0"),
        (-2, {}, ValueError, "at least one element, got n=-2"),
        (2.5, {}, TypeError, "integer"),
        (4, {"dtype": "int32"}, TypeError, "real floating-point dtype, got int32"),
        (4, {"dtype": xp.complex64}, TypeError, "real floating-point dtype, got complex64"),
        (4, {"device": "tpu"}, ValueError, "a device is"),
    ],
)
def test_frequencies_refused(name, n, keywords, error, message):
    with pytest.raises(error, match=message):
        getattr(fft, name)(n, **keywords)
