"""The user's own kernels on Blobs. docs/cupy.md has more of them, which is tested, too."""

import numpy as np
import pytest
from made_blobs import values

import syncblob
from syncblob import Head

pytestmark = pytest.mark.gpu

_, CPU, GPU, SYNCED, *_ = Head
X = values()
N = X.size

SCALE = r"""
extern "C" __global__ void scale(const float* x, float factor, float* y, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) { y[i] = factor * x[i]; }
}
"""


# --- raw kernels: pointers ------------------------------------------------------------------------


@pytest.mark.parametrize("head", [CPU, GPU, SYNCED])
@pytest.mark.parametrize("access", ["mutable_gpu_data", "overwrite_gpu_data"])
def test_a_raw_kernel_takes_what_the_accessors_give(cupy, on_cuda, access, head):
    x, y = on_cuda(SYNCED), on_cuda(head)
    scale = cupy.RawKernel(SCALE, "scale")
    with syncblob.record_transfers() as log:
        output = getattr(y, access)()
        scale((1,), (N,), (x.gpu_data(), np.float32(2), output, np.int32(N)))
    assert len(log) == int(head is CPU and access == "mutable_gpu_data")
    assert (x.head, y.head) == (SYNCED, GPU)
    assert y.tolist() == (X * 2).tolist()
    assert y.head is SYNCED


@pytest.mark.parametrize("what", [lambda x: x, lambda x: x.gpu, lambda x: x.const])
def test_a_raw_kernel_refuses_what_is_not_cupys_and_nothing_moves(cupy, on_cuda, what):
    x = on_cuda(CPU)
    scale = cupy.RawKernel(SCALE, "scale")
    with pytest.raises(TypeError, match="Unsupported type"), syncblob.no_transfers():
        scale((1,), (N,), (what(x), np.float32(2), what(x), np.int32(N)))
    assert x.head is CPU


# --- elementwise kernels: Blobs -------------------------------------------------------------------


@pytest.fixture
def saxpy(cupy):
    return cupy.ElementwiseKernel("T a, T x", "T y", "y += a * x", "saxpy_of_blobs")


@pytest.mark.parametrize("head", [CPU, GPU, SYNCED])
def test_an_elementwise_kernel_reads_and_writes_blobs(cupy, on_cuda, saxpy, head):
    x, y = on_cuda(head), on_cuda(head)
    result = saxpy(2, x.const, y)
    assert isinstance(result, cupy.ndarray)
    assert result.data.ptr == y.gpu_data().data.ptr
    assert (x.head, y.head) == (GPU if head is GPU else SYNCED, GPU)
    assert y.tolist() == (X * 3).tolist()


def test_an_elementwise_kernel_knows_the_strides_of_views(on_cuda, saxpy):
    x, y = on_cuda(GPU), on_cuda(GPU)
    saxpy(1, x[::-1].const, y)
    saxpy(1, x.T.const, y.T)
    assert y.tolist() == (X + X[::-1] + X).tolist()


# --- kernels written in Python --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:cupyx.jit.rawkernel is experimental:FutureWarning")
def test_a_jit_kernel_takes_what_the_accessors_give_and_no_blob(on_cuda):
    from cupyx import jit

    @jit.rawkernel()
    def scale(x, factor, y, n):
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        if i < n:
            y[i] = factor * x[i]

    x, y = on_cuda(SYNCED, (N,)), on_cuda(CPU, (N,))
    with syncblob.no_transfers():
        scale((1,), (N,), (x.gpu_data(), np.float32(3), y.overwrite_gpu_data(), np.int32(N)))
    assert (x.head, y.head) == (SYNCED, GPU)
    assert y.tolist() == (X.ravel() * 3).tolist()
    with pytest.raises(TypeError, match="not supported"):
        scale((1,), (N,), (x, np.float32(3), y, np.int32(N)))


def test_a_fused_function_is_fused_for_cupy_arrays_and_mixes_with_no_blob(cupy, on_cuda):
    @cupy.fuse(kernel_name="distance_of_blobs")
    def distance(x, y):
        return cupy.sqrt(x * x + y * y)

    x = on_cuda(SYNCED)
    expected = np.hypot(X, X)
    with syncblob.no_transfers():
        array = distance(x.gpu_data(), x.gpu_data())
        unfused = distance(x.const, x.const)
    np.testing.assert_allclose(array.get(), expected, rtol=1e-6)
    np.testing.assert_allclose(cupy.asnumpy(unfused), expected, rtol=1e-6)
    with pytest.raises(TypeError, match="Invalid argument type"):
        distance(x.gpu_data(), x)
