"""Iterating over Blobs with one axis: NumPy scalars, read on the host all at once."""

import collections
import csv
import io
import statistics

import numpy as np
import pytest
from made_blobs import blob_in, values

import syncblob
from syncblob import Blob, Head

DTYPES = ["bool", "int8", "uint64", "float16", "bfloat16", "float32", "complex128"]


def on_device(numbers, dtype="f4"):
    blob = Blob(len(numbers), dtype, device="simulated")
    blob.overwrite_gpu_data()[...] = numbers
    return blob


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_are_numpys_scalars(dtype):
    for head in (Head.HEAD_AT_CPU, Head.HEAD_AT_GPU, Head.SYNCED):
        blob, array = blob_in(head, dtype, (7,)), values(dtype, (7,))
        for view in (slice(None), slice(None, None, -2), slice(0)):
            assert [(type(e), e) for e in blob[view]] == [(type(e), e) for e in array[view]]
        assert [*reversed(blob)] == [*array[::-1]]


def test_python_sees_numbers():
    blob = on_device([2, 1, 2])
    assert (sorted(blob), {*blob}, max(blob)) == ([1, 2, 2], {1, 2}, 2)
    assert collections.Counter(blob) == {2: 2, 1: 1}
    assert statistics.mean(blob) == np.float32(5 / 3)
    csv.writer(written := io.StringIO()).writerow(blob)
    assert written.getvalue() == "2.0,1.0,2.0\r\n"
    (_, one, _) = blob
    match one:
        case 1:
            return
    pytest.fail("no number")


def test_everything_comes_down_once():
    with syncblob.record_transfers() as log:
        assert max(on_device(range(2000))) == 1999
    assert [(t.nbytes, t.reason) for t in log] == [(8000, "__iter__")]
    blob = on_device(range(9))
    alias = np.asarray(blob.gpu)
    with syncblob.record_transfers() as log:
        assert [*blob[::2]] == [0, 2, 4, 6, 8]
    assert (len(log), blob.head) == (1, Head.HEAD_AT_GPU)
    del alias


def sieve(is_prime):
    is_prime[:2] = False
    for number, prime in enumerate(is_prime):
        if prime:
            yield number
            is_prime[number**2 :: number] = False


def test_later_writes_are_seen():
    ndarray = np.ones(60, bool)
    for device in ("cpu", "simulated"):
        blob = syncblob.ones(60, dtype=bool, device=device)
        assert [*sieve(blob)] == [*sieve(ndarray.copy())]
        rest = iter(blob)
        next(rest)
        blob.mutable_cpu_data()[1] = True
        assert next(rest)
        blob.on("simulated").mutable_gpu_data()[2:] = False
        assert not any(rest)


def test_later_writes_are_seen_after_an_alias_is_gone():
    for write in (False, True):
        blob = on_device([1, 2, 3, 4])
        alias = np.from_dlpack(blob.gpu)
        rest = iter(blob)
        assert next(rest) == 1
        del alias
        if write:
            # On the other side first, which changes the map, and changes it back.
            blob.mutable_cpu_data()[...] = 5
            assert next(rest) == 5
        blob[...] = 7
        assert next(rest) == 7


def test_a_resize_ends_it():
    blob = on_device([1, 2, 3, 4])
    rest = iter(blob)
    next(rest)
    blob.resize(2)
    assert [*rest] == [2]
    blob = Blob((2, 2))
    rows = iter(blob)
    blob.resize((1, 3))
    assert next(rows).shape == (3,)
    with pytest.raises(IndexError, match="out of bounds"):
        list(rows)


@pytest.mark.parametrize("function", [np.roots, np.poly, np.vstack, np.stack])
def test_numpys_functions_that_ask_the_items_give_arrays(function):
    numbers = np.array([1.0, 5.0, 6.0])
    result = function(on_device(numbers, "f8"))
    assert type(result) is np.ndarray
    assert result.tolist() == function(numbers).tolist()
