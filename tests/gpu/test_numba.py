"""Numba's CUDA kernels on Blobs.

Numba tries DLPack first, then the CUDA array interface. Through DLPack, a Blob exports the side of
its device, wherever its newest contents are. The side can also be given explicitly.
"""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest
from made_blobs import values

import syncblob
from syncblob import Head

pytestmark = [
    pytest.mark.gpu,
    # Such a small grid leaves most of the device idle, and Numba warns of this.
    pytest.mark.filterwarnings("ignore:.*under-utilization"),
]

_, CPU, GPU, SYNCED, *_ = Head
N = 6
X = values(shape=(N,))


@pytest.fixture
def cuda():
    """Return Numba's CUDA target."""
    try:
        with warnings.catch_warnings():
            # Of what NumPy has deprecated.
            warnings.simplefilter("ignore")
            from numba import cuda as module

            if not module.is_available():
                pytest.skip(
                    "Numba finds no CUDA device, or not the libraries that it compiles with"
                )
            # Its compiler is imported by the first kernel.
            module.jit(lambda: None)[1, 1]()
    except (ImportError, AttributeError) as error:
        # The second, if NumPy has removed something that Numba uses.
        pytest.skip(f"needs a numba-cuda for this NumPy: {error}")
    return module


@pytest.fixture
def scale(cuda):
    """Return a kernel that multiplies a vector."""

    @cuda.jit
    def scale(x, factor, y):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = factor * x[i]

    return scale


@pytest.mark.parametrize("head", [CPU, GPU, SYNCED])
def test_a_kernel_reads_a_const_side_and_overwrites_another(on_cuda, scale, head):
    x, y = on_cuda(head, (N,)), on_cuda(head, (N,))
    with syncblob.record_transfers() as log:
        scale[1, 32](x.gpu.const, 2, y.gpu.overwrite)
    assert (log.uploads, log.downloads) == (int(head is CPU), 0)
    assert (x.head, y.head) == (GPU if head is GPU else SYNCED, GPU)
    assert y.tolist() == (X * 2).tolist()
    assert y.head is SYNCED


def test_a_kernel_reads_and_writes_one_side(on_cuda, scale):
    x = on_cuda(CPU, (N,))
    scale[1, 32](x.gpu, 3, x.gpu)
    assert x.head is GPU
    assert x.tolist() == (X * 3).tolist()


@pytest.mark.parametrize("head", [CPU, GPU, SYNCED])
def test_a_kernel_takes_blobs_of_the_device_wherever_they_were_written(on_cuda, scale, head):
    x, y = on_cuda(head, (N,)), on_cuda(head, (N,))
    with syncblob.record_transfers() as log:
        scale[1, 32](x.const, 2, y)
    assert (log.uploads, log.downloads) == (2 * (head is CPU), 0)
    assert (x.head, y.head) == (GPU if head is GPU else SYNCED, GPU)
    assert y.tolist() == (X * 2).tolist()


def test_a_kernel_takes_a_view_of_a_blob_of_the_host_on_the_device(on_cuda, scale):
    x, y = on_cuda(CPU, (N,)).on("cpu"), on_cuda(CPU, (N,)).on("cpu")
    scale[1, 32](x.on("cuda:0").const, 2, y.on("cuda:0"))
    assert y.tolist() == (X * 2).tolist()


def test_a_kernel_that_writes_what_is_const_does_not_compile(on_cuda, scale):
    from numba.core.errors import TypingError

    x, y = on_cuda(SYNCED, (N,)), on_cuda(SYNCED, (N,))
    with pytest.raises(TypingError, match="readonly array"):
        scale[1, 32](x.gpu.const, 2, y.gpu.const)
    assert y.tolist() == X.tolist()


def test_a_kernel_knows_the_strides_of_views(cuda, on_cuda):
    @cuda.jit
    def negate(x, y):
        i, j = cuda.grid(2)
        if i < y.shape[0] and j < y.shape[1]:
            y[i, j] = -x[i, j]

    x, y = on_cuda(SYNCED, (4, 6)), on_cuda(GPU, (3, 4))
    negate[1, (8, 8)](x[:, ::2].T.gpu.const, y.gpu)
    assert y.tolist() == (-values(shape=(4, 6))[:, ::2].T).tolist()


def test_a_device_array_of_numbas_is_a_tracked_alias(cuda, on_cuda, scale):
    x, y = on_cuda(SYNCED, (N,)), on_cuda(GPU, (N,))
    array = cuda.as_cuda_array(y.gpu)
    for factor in (2, 3):
        scale[1, 32](x.gpu.const, factor, array)
        assert y.tolist() == (X * factor).tolist()
    assert y.head is GPU
    del array
    gc.collect()
    y.tolist()
    assert y.head is SYNCED


def test_a_device_array_of_numbas_becomes_a_blob_without_a_copy(cuda):
    array = cuda.to_device(X)
    blob = syncblob.asarray(array, copy=False)
    assert blob.device == "cuda:0"
    blob += np.float32(1)
    assert array.copy_to_host().tolist() == (X + 1).tolist()


def test_numba_and_cupy_share_a_stream(cuda, cupy, on_cuda, scale):
    x, y = on_cuda(CPU, (1 << 20,)), on_cuda(CPU, (1 << 20,))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        cupy.multiply(x.gpu, 2, out=x.gpu)
        scale[(1 << 20) // 256, 256, cuda.external_stream(stream.ptr)](x.gpu.const, 2, y.gpu)
        result = cupy.add(y.gpu.const, 1)
        expected = np.arange(1 << 20, dtype="float32") * 4 + 1
        np.testing.assert_array_equal(result.get(), expected)
    np.testing.assert_array_equal(y, expected - 1)
