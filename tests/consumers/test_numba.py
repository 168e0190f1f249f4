"""Ufuncs of Numba's, and its simulator of CUDA."""

import os
import subprocess
import sys

import pytest
from made_blobs import blob_in, values

from syncblob import Head

pytest.importorskip("numba")

from numba import vectorize  # it may be missing

_, CPU, GPU, *_ = Head


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
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ
        | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    first, second = done.stdout.splitlines()
    assert first == "HEAD_AT_GPU [2.0, 4.0, 6.0]"
    assert "no attribute 'size'" in second
    assert "np.asarray(blob.cpu)" in second
