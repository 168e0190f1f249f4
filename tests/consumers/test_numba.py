"""Numba's compiled functions of Blobs."""

import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from call_texts import functions
from made_blobs import blob_in, values
from other_processes import run

import syncblob
from syncblob import Head

pytest.importorskip("numba")

from numba import njit, vectorize  # it may be missing
from numba.core.errors import NumbaError  # it may be missing

_, CPU, GPU, SYNCED, *_ = Head
VIEWS = functions("x; x.T; x[:, ::2]; x[::-1, ::-1]; x[1, 2, ...]; x[:0]", "x", globals())


@pytest.fixture(autouse=True, scope="module")
def registered():
    """Call the entry point for Numba, which an older installation may not have."""
    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["numba_extensions"]
    module, _, function = points["init"].partition(":")
    getattr(import_module(module), function)()


@njit
def total(x):
    result = x.dtype.type(0)
    for value in x.flat:
        result += value
    return result


@njit
def rows(x, y, which):
    chosen = x if which else y
    return chosen[1:] * 2


@njit
def double(x):
    for index in np.ndindex(x.shape):
        x[index] *= 2


@pytest.mark.parametrize("view", VIEWS)
def test_a_blob_is_read_on_the_host(view):
    blob = blob_in(GPU)
    assert total(VIEWS[view](blob)) == VIEWS[view](values()).sum()
    assert blob.head is not CPU
    assert total(VIEWS[view](blob.const)) == VIEWS[view](values()).sum()


def test_blobs_and_arrays_take_each_others_place():
    blob = blob_in(GPU)
    for x, y in ((blob, values()), (values(), blob), (blob, blob.cpu)):
        for which in (True, False):
            assert rows(x, y, which).tolist() == (2 * values()[1:]).tolist()


def test_a_side_is_written_and_the_alias_ends_with_the_call():
    blob = blob_in(SYNCED)
    double(blob.cpu)
    assert (blob.head, blob.gpu_data().tolist()) == (CPU, (2 * values()).tolist())
    double(blob.gpu)
    assert (blob.head, blob.tolist()) == (GPU, (4 * values()).tolist())
    assert not blob.memory.aliased


@pytest.mark.parametrize("lend", [lambda x: x, lambda x: x.const.cpu, lambda x: x.cpu.const])
def test_what_is_const_is_not_written(lend):
    blob = blob_in(SYNCED)
    with pytest.raises(NumbaError, match="readonly"):
        double(lend(blob))
    assert (blob.head, blob.tolist()) == (SYNCED, values().tolist())


def test_a_refusal_is_raised_as_it_is():
    blob = blob_in(GPU)
    with syncblob.no_transfers(), pytest.raises(syncblob.TransferGuardError, match="__array__"):
        total(blob)
    assert total(blob) == values().sum()
    with pytest.raises(TypeError, match="No matching definition"):
        njit("float32(float32[:,:])")(total.py_func)(blob.cpu)
    with pytest.raises(NumbaError, match="bfloat16"):
        total(blob_in(CPU, "bfloat16"))


def test_ufuncs_of_numbas_give_blobs():
    add = vectorize(lambda x, y: x + y)
    result = add(blob_in(GPU), blob_in(CPU))
    assert (result.tolist(), str(result.device)) == ((2 * values()).tolist(), "simulated:0")


@pytest.mark.parametrize("source", [blob_in(GPU), values()], ids=["blob", "ndarray"])
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[0, 0]], ids=["all", "no axes"])
def test_ufuncs_of_numbas_write_blobs(source, view):
    twice = vectorize(lambda x: x * 2)  # compiled by its first call, with the types of that
    twice(values())
    for call in (twice, lambda x, y: twice(x, out=y)):
        blob = blob_in(GPU, "float64")
        call(view(source), view(blob))
        twofold = view(2 * values()).tolist()
        assert view(blob).gpu_data().tolist() == view(blob).tolist() == twofold


def test_the_cuda_simulator_takes_the_array_of_a_side():
    program = """
import numpy as np
from numba import cuda
from syncblob import Blob

@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

blob = Blob(3, device="simulated")
blob[...] = [1, 2, 3]
double[1, 4](np.asarray(blob.gpu))
print(blob.head.name, blob.tolist())
try:
    double[1, 4](blob.gpu)
except AttributeError as error:
    print(error)
"""
    done = run(program, NUMBA_ENABLE_CUDASIM="1")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "HEAD_AT_GPU [2.0, 4.0, 6.0]"
    assert "no attribute 'size'" in second
    assert "np.asarray(blob.cpu)" in second
