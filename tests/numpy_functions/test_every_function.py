"""Every public NumPy function that takes an array, called with Blobs and with arrays."""

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
import tiers
from numpy_calls import CALLS, CANNOT, DESCRIBE, FUNCTION, TAKE_NO_ARRAY, B, C, I, J, M, V, listed

import syncblob
from syncblob import Blob, Head

LISTED = listed()
FUNCTIONS = sorted({*CALLS} & {*LISTED})
UFUNCS = sorted(
    name
    for name, function in LISTED.items()
    if isinstance(function, np.ufunc) and "isnat" not in name
)
# The functions of the short tier, and the case that each represents.
SHORT = {
    "numpy.array2string": "a text",
    "numpy.broadcast_to": "a view in which elements are one in memory",
    "numpy.clip": "an `out` that may be written in part",
    "numpy.concatenate": "a sequence of operands, and no signature",
    "numpy.diag": "a view or a copy",
    "numpy.einsum": "operands after a text",
    "numpy.mean": "a method of arrays, with an `out`",
    "numpy.nan_to_num": "an argument that is written without an option",
    "numpy.place": "an argument that is written in part",
    "numpy.reshape": "an array that is no operand",
    "numpy.shape": "a question for no element",
    "numpy.sort": "a new array",
    "numpy.transpose": "a view",
    "numpy.unique": "several results",
    "numpy.zeros_like": "a shape",
}
SHORT_UFUNCS = {
    "numpy.add": "two operands",
    "numpy.divmod": "two results",
    "numpy.isfinite": "a result of another dtype",
    "numpy.matmul": "axes that are no elements",
}
ALL = tiers.representatives(FUNCTIONS, SHORT)
# Operands of ufuncs that do not accept the usual shapes.
MATRICES = {"matmul": (J.T, J), "matvec": (J, J[0]), "vecmat": (J[:, 0], J), "vecdot": (J, J[0])}
DEVICES = ["cpu", "simulated:0"]
ROOT = Path(__file__).parents[2]
# Functions that return one answer, a Python bool.
COMPARISONS = {"numpy.allclose", "numpy.array_equal", "numpy.array_equiv"}


class Made:
    """Makes synced Blobs of a device, written there and bound to simulated:0."""

    def __init__(self, device):
        self.device = device
        self.blobs = []

    def __call__(self, array):
        blob = Blob(array.shape, array.dtype, device=self.device)
        blob.memory.side_of(syncblob.simulated(0))
        if self.device == "cpu":
            blob.overwrite_cpu_data()[...] = array
            blob.gpu_data()
        else:
            blob.overwrite_gpu_data()[...] = array
            blob.cpu_data()
        self.blobs.append(blob)
        return blob


class Fresh(Made):
    """Makes results of computations. Each is on one side only."""

    def __call__(self, array):
        blob = Blob(array.shape, array.dtype, device=self.device)
        blob[...] = array
        self.blobs.append(np.copy(blob))
        return self.blobs[-1]


class Kept:
    """Returns copies of arrays, and keeps their original contents."""

    def __init__(self):
        self.arrays = []

    def __call__(self, array):
        array = array.copy()
        self.arrays.append((array, array.copy()))
        return array


def same(actual, expected):
    """Compare results bit for bit. Blobs correspond to arrays and NumPy scalars."""
    if isinstance(expected, (list, tuple)):
        assert type(actual) is type(expected)
        assert len(actual) == len(expected)
        for x, y in zip(actual, expected, strict=True):
            same(x, y)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert isinstance(actual, Blob)
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        assert actual.tobytes() == expected.tobytes()
    else:
        assert type(actual) is type(expected)
        assert actual == expected


def test_nothing_in_numpys_listing_is_left_out():
    ufuncs = {name for name, function in LISTED.items() if isinstance(function, np.ufunc)}
    others = {f"numpy.{name}" for name in (*DESCRIBE, *TAKE_NO_ARRAY)}
    assert set(LISTED) - ufuncs <= {*CALLS, *CANNOT, *others}
    assert not {*CALLS} & {*CANNOT, *others}
    dispatched = {name for name, function in LISTED.items() if isinstance(function, FUNCTION)}
    assert not dispatched & others
    # Of the functions that NumPy dispatches, only dates and deprecated functions are not called.
    assert len(dispatched - set(CALLS)) <= 6
    assert len(FUNCTIONS) > 200


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ALL)
def test_functions_give_what_they_give_for_arrays_and_move_only_what_they_write(name, device):
    here = Head.HEAD_AT_CPU if device == "cpu" else Head.HEAD_AT_GPU
    for call in CALLS[name]:
        made, kept = Made(device), Kept()
        expected = call(LISTED[name], kept)
        with syncblob.record_transfers() as log:
            actual = call(LISTED[name], made)
        # Each Blob was synced when it was made. Arrays are uploaded; only an answer is downloaded.
        answers = device != "cpu" and name in COMPARISONS
        assert (log.uploads if device == "cpu" else log.downloads) == len(made.blobs) + answers
        heads = [blob.head for blob in made.blobs]
        same(actual, expected)
        for blob, head, (after, before) in zip(made.blobs, heads, kept.arrays, strict=True):
            written = after.tobytes() != before.tobytes()
            assert head is (here if written else Head.SYNCED)
            assert blob.tobytes() == after.tobytes()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ALL)
def test_functions_of_results_of_computations(name, device):
    for call in CALLS[name]:
        made, kept = Fresh(device), Kept()
        expected = call(LISTED[name], kept)
        actual = call(LISTED[name], made)
        same(actual, expected)
        for blob, (after, _) in zip(made.blobs, kept.arrays, strict=True):
            assert blob.tobytes() == after.tobytes()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", tiers.representatives(UFUNCS, SHORT_UFUNCS))
def test_ufuncs_give_what_they_give_for_arrays(name, device):
    ufunc = LISTED[name]
    checked = 0
    for array in (M, J, B, C, V, I):
        operands = MATRICES.get(ufunc.__name__) or (array,) * ufunc.nin
        made = Made(device)
        blobs = [made(operand) for operand in operands]
        with np.errstate(all="ignore"):
            try:
                expected = ufunc(*operands)
            except TypeError:
                with pytest.raises(TypeError):
                    ufunc(*blobs)
                continue
            with syncblob.no_transfers():
                actual = ufunc(*blobs)
        same(actual, expected)
        assert {blob.head for blob in made.blobs} == {Head.SYNCED}
        checked += 1
    assert checked


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", DESCRIBE)
def test_functions_that_describe_their_argument(name, device):
    function = getattr(np, name)
    for array in (M, V, np.zeros(())):
        assert function(Made(device)(array)) == function(array)
        assert function(Made(device)(array).T) == function(array.T)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
def test_the_page_names_the_functions_without_a_protocol_that_return_an_ndarray():
    blob = Made("simulated:0")(M)
    found, staying = {"np.matrix"}, set()
    for name in (known.partition(".")[2] for known in LISTED):
        function = getattr(np, name, None)
        if isinstance(function, (np.ufunc, FUNCTION, type(None))) or name in TAKE_NO_ARRAY:
            continue
        with contextlib.suppress(TypeError, ValueError):
            if isinstance(function(blob), np.ndarray):
                found.add(f"np.{name}")
            with syncblob.no_transfers():
                if isinstance(function(blob, like=blob), Blob):
                    staying.add(f"np.{name}")
    page = (ROOT / "docs" / "numpy.md").read_text(encoding="utf-8")
    lines = page.split("## Functions that run on the host")[1].split("\n- ")
    named = [{*re.findall(r"`(np\.\w+)`", line)} for line in lines if "return an ndarray" in line]
    assert named == [staying, found - staying]
