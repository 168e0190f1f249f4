"""Numba's CUDA kernels on Blobs.

Numba tries DLPack first, then the CUDA array interface. Through DLPack, a Blob exports the side of
its device, wherever its newest contents are. The side can also be given explicitly.
"""

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


@pytest.mark.parametrize("head", [CPU, GPU, SYNCED])
def test_a_kernel_takes_blobs_of_the_device_wherever_they_were_written(on_cuda, scale, head):
    x, y = on_cuda(head, (N,)), on_cuda(head, (N,))
    with syncblob.record_transfers() as log:
        scale[1, 32](x.const, 2, y)
    assert (log.uploads, log.downloads) == (2 * (head is CPU), 0)
    assert (x.head, y.head) == (GPU if head is GPU else SYNCED, GPU)
    assert y.tolist() == (X * 2).tolist()


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
