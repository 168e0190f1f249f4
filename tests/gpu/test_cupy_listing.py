"""Every function that CuPy shares with NumPy, called with Blobs: the right result or an error.

CuPy has no protocol by which another library could compute for it. Each of its functions decides
for itself whether it converts objects that are not CuPy arrays.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy_calls import CALLS, B, J, M, listed

from syncblob import Blob, Head, StaleAliasWarning

pytestmark = pytest.mark.gpu

# Functions that treat any object except a CuPy array as a number, and return it unchanged.
MISTAKEN = {"broadcast_arrays"}
# The errors with which CuPy refuses.
REFUSALS = (TypeError, ValueError, AttributeError, NotImplementedError)

LISTED = {
    name.removeprefix("numpy."): function
    for name, function in listed().items()
    if not name.startswith("numpy.lib.") and "isnat" not in name
}
FUNCTIONS = sorted(name for name in LISTED if f"numpy.{name}" in CALLS and name not in MISTAKEN)
UFUNCS = sorted(name for name, function in LISTED.items() if isinstance(function, np.ufunc))


@pytest.fixture(autouse=True)
def _only_what_blobs_warn_of():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the functions about their values
        warnings.simplefilter("error", StaleAliasWarning)
        yield


@pytest.fixture
def find(cupy):
    """Find CuPy's function with the name of a NumPy function."""

    def find(name):
        found = cupy
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is None:
            pytest.skip(f"CuPy has no {name}")
        return found

    return find


class Made:
    """Makes Blobs of arrays. They were last written on the device and are synced."""

    def __init__(self, cupy):
        self.cupy = cupy
        self.blobs = []

    def __call__(self, array):
        blob = Blob(array.shape, array.dtype, device="cuda:0")
        blob.overwrite_gpu_data()[...] = self.cupy.asarray(array)
        blob.cpu_data()
        self.blobs.append(blob)
        return blob


def host(result):
    """Convert CuPy arrays and Blobs to NumPy arrays, also in nested sequences."""
    if isinstance(result, (list, tuple)):
        return [host(item) for item in result]
    if isinstance(result, Blob):
        return np.asarray(result)
    return result.get() if hasattr(result, "get") else result


def same(actual, expected):
    """Compare results of `host`."""
    if isinstance(expected, list):
        assert len(actual) == len(expected)
        for x, y in zip(actual, expected, strict=True):
            same(x, y)
    elif isinstance(expected, np.ndarray):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
    else:
        assert actual == expected


def check(cupy, function, call, *, may_refuse):
    """Call a function with Blobs and with CuPy arrays. Return whether it accepts the latter."""
    arrays, made = [], Made(cupy)

    def array_of(array):
        arrays.append(cupy.asarray(array))
        return arrays[-1]

    try:
        expected = host(call(function, array_of))
    except Exception:  # noqa: BLE001  # any error of a call that CuPy does not support
        return False
    try:
        actual = host(call(function, made))
    except REFUSALS:
        if not may_refuse:
            raise
        return True
    same(actual, expected)
    for blob, array in zip(made.blobs, arrays, strict=True):
        same(np.asarray(blob), array.get())
    return True


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_what_it_gives_for_cupys_arrays_or_refuses(cupy, find, name):
    function = find(name)
    for call in CALLS[f"numpy.{name}"]:
        check(cupy, function, call, may_refuse=True)


@pytest.mark.parametrize("name", UFUNCS)
def test_a_ufunc_gives_what_it_gives_for_cupys_arrays(cupy, find, name):
    function, operands = find(name), LISTED[name].nin
    shapes = [(J.T, J)] if name == "matmul" else [(x,) * operands for x in (M, J, B)]
    calls = [lambda f, b, arrays=arrays: f(*map(b, arrays)) for arrays in shapes]
    # A ufunc may lack a loop for some dtypes, but each has at least one loop.
    known = [check(cupy, function, call, may_refuse=name == "matmul") for call in calls]
    assert any(known)


def test_numpys_function_of_that_name_takes_what_cupys_mistakes(on_cuda):
    blob = on_cuda(Head.SYNCED)
    assert [part.shape for part in np.broadcast_arrays(blob, blob[:1])] == [(2, 3), (2, 3)]
