"""Methods and keywords of ufuncs, and operands of several libraries."""

import numpy as np
import pytest
from call_texts import functions
from made_blobs import CPU, GPU, SYNCED

import syncblob
from syncblob import Blob

try:
    import torch
except ImportError:
    torch = None

A = np.array([[1.5, -2.0, 4.0], [0.5, 8.0, -3.0]])
MASK = np.array([[True, False, True], [False, True, True]])
DEVICES = ["cpu", "simulated:0"]


def blob_of(array, device):
    blob = Blob(array.shape, array.dtype, device=device)
    if device == "cpu":
        blob.memory.side_of(syncblob.simulated(0))
    blob[...] = array
    return blob


CALLS = functions(
    """
    np.add.reduce(b(A)); np.multiply.reduce(b(A), axis=1, keepdims=True);
    np.maximum.reduce(b(A), axis=None); np.add.reduce(b(A), axis=0, where=b(MASK), initial=2.0);
    np.add.reduce(b(A), dtype='f4'); np.add.accumulate(b(A), axis=1);
    np.subtract.outer(b(A), b(A[0])); np.subtract.outer(A[0], b(A));
    np.add.reduceat(b(A), [0, 2, 1], axis=1); np.add.reduceat(b(A), b(np.array([0, 1])), axis=1);
    np.divmod(b(A), 2.0); np.frexp(b(A)); np.add(b(A), [1, 2, 3]); np.add([[1], [2]], b(A));
    np.add(b(A), 1, dtype='f4', casting='same_kind'); np.add(b(A), 1, order='F');
    np.add(b(A), 1, out=b(A * 0), where=b(MASK));
    np.matmul(b(A), b(A), axes=[(0, 1), (1, 0), (0, 1)]); np.add(b(np.array(2.0)), np.array(3.0));
    np.add(b(A), np.longdouble(1)); np.add(b(A[:0]), 1); np.frompyfunc(lambda x: x + 1, 1, 1)(b(A))
    """,
    "b",
    globals(),
)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_methods_and_keywords(call, device):
    expected = call(lambda array: array)
    actual = call(lambda array: blob_of(array, device))
    several = isinstance(expected, tuple)
    assert isinstance(actual, tuple) == several
    for x, y in zip(actual, expected, strict=True) if several else [(actual, expected)]:
        # Results with a dtype that Blobs do not support stay arrays.
        assert isinstance(x, Blob) == (y.dtype.name in {"float64", "float32", "int32"})
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert x.tolist() == y.tolist()
        if isinstance(x, Blob):
            assert x.device == device


@pytest.mark.parametrize("device", DEVICES)
def test_at_writes_its_first_operand(device):
    blob, array = blob_of(A, device), A.copy()
    _ = blob.gpu_data() if device == "cpu" else blob.cpu_data()
    assert blob.head is SYNCED
    rows = blob_of(np.array([0, 0, 1]), device)
    assert np.add.at(blob, (rows, 1), [1.0, 2.0, 3.0]) is None
    np.add.at(array, ([0, 0, 1], 1), [1.0, 2.0, 3.0])
    assert blob.head is (CPU if device == "cpu" else GPU)
    assert blob.tolist() == array.tolist()
    with pytest.raises(ValueError, match="const"):
        np.negative.at(blob.const, 0)


def test_a_side_is_an_operand_as_an_ndarray_is():
    blob = blob_of(A, "simulated:0")
    assert type(blob + blob.cpu) is Blob
    assert np.add(A, blob.gpu.const).tolist() == (2 * A).tolist()
    with pytest.raises(TypeError, match="ArrayType"):
        np.add(A, A, out=blob.cpu)


# --- operands of several libraries ---------------------------------------------------------------

OTHERS = {
    "ndarray": A + 1,
    "ndarray, read-only": np.broadcast_to(A[0], A.shape),
    "ndarray, other byte order": A.astype(">f8"),
    "float32 scalar": np.float32(2),
    "int64 scalar": np.int64(3),
    "int": 3,
    "float": 0.5,
}
if torch is not None:
    OTHERS |= {"tensor": torch.from_numpy(A + 4), "tensor, no axes": torch.tensor(2.0)}


def is_tensor(x):
    return torch is not None and isinstance(x, torch.Tensor)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_ufuncs_with_others_give_blobs_both_ways_round(other, device):
    blob = blob_of(A, device)
    array = other.numpy() if is_tensor(other) else other
    assert np.hypot(blob, other).tolist() == np.hypot(A, array).tolist()
    result = np.hypot(other, blob)
    assert type(result) is Blob
    assert result.device == device


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "other", [np.longdouble(2), A.astype("g"), A.astype(object), np.timedelta64(3, "s")]
)
def test_operators_with_what_no_blob_holds_give_arrays_both_ways_round(other, device):
    numbers = np.array([[1, 2, 3], [4, 5, 6]])
    blob = blob_of(numbers, device)
    for actual, expected in [(blob * other, numbers * other), (other * blob, other * numbers)]:
        assert type(actual) is np.ndarray
        assert actual.dtype == expected.dtype
        assert actual.tolist() == expected.tolist()


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_matrices_keep_their_product():
    square = np.array([[1.0, 2.0], [3.0, 4.0]])
    blob = blob_of(square, "cpu")
    for product in (blob * np.matrix(square), np.matrix(square) * blob):
        assert product.tolist() == (square @ square).tolist()
    with pytest.raises(TypeError, match="multiply"):
        blob *= np.matrix(square)
    assert blob.tolist() == square.tolist()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (np.ma.masked_array(A, MASK), r"MaskedArray; convert it with numpy\.asarray"),
        (A.astype(object), r"ndarray of dtype object; cast it with astype"),
        (A.astype("M8[D]"), r"ndarray of dtype datetime64\[D\]; cast it with astype"),
        (np.longdouble(1), rf"longdouble of dtype {np.dtype('g')}; cast it with astype"),
    ],
    ids=type,
)
def test_an_in_place_operator_does_not_leave_the_blob_behind(other, said):
    blob = same = blob_of(A, "cpu")
    with pytest.raises(TypeError, match=f"cannot take {said}"):
        blob += other
    assert blob is same
    assert blob.tolist() == A.tolist()
