"""``cupyx.scipy`` on Blobs, compared with SciPy on the host."""

from __future__ import annotations

import numpy as np
import pytest
from made_blobs import values

import syncblob
from syncblob import Blob, Head

pytestmark = [
    pytest.mark.gpu,
    # Parts of cupyx use it, and the warning appears when they are imported.
    pytest.mark.filterwarnings("ignore:cupyx.jit.rawkernel is experimental:FutureWarning"),
]

_, CPU, GPU, SYNCED, _ = Head
SHAPE = (8, 8)
X = values(shape=SHAPE)
KERNEL = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], "float32")


def module(name):
    """Return a module of SciPy or cupyx. It may need a CUDA library that is missing."""
    return pytest.importorskip(name, reason=f"needs {name}", exc_type=ImportError)


@pytest.fixture
def x(on_cuda):
    """Return a synced Blob. It must still be synced after the test's reads."""
    blob = on_cuda(SYNCED, SHAPE)
    yield blob
    assert blob.head is SYNCED


# --- ndimage and signal ---------------------------------------------------------------------------

FILTERS = {
    "gaussian_filter": lambda nd, x, _: nd.gaussian_filter(x, 1.5),
    "convolve": lambda nd, x, kernel: nd.convolve(x, kernel, mode="nearest"),
    "median_filter": lambda nd, x, _: nd.median_filter(x, 3),
    "sobel": lambda nd, x, _: nd.sobel(x, axis=0),
    "zoom": lambda nd, x, _: nd.zoom(x, 2, order=1),
}


@pytest.mark.parametrize("call", FILTERS.values(), ids=FILTERS)
def test_ndimage_reads_what_the_accessor_gives(cupy, x, call):
    ours, theirs = module("cupyx.scipy.ndimage"), module("scipy.ndimage")
    with syncblob.no_transfers():
        result = call(ours, x.gpu_data(), cupy.asarray(KERNEL))
    assert isinstance(result, cupy.ndarray)
    np.testing.assert_allclose(result.get(), call(theirs, X, KERNEL), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("access", ["accessor", "alias"])
def test_ndimage_writes_into_a_blob(cupy, on_cuda, x, access):
    ours, theirs = module("cupyx.scipy.ndimage"), module("scipy.ndimage")
    y = on_cuda(CPU, SHAPE)
    with syncblob.no_transfers():
        output = y.overwrite_gpu_data() if access == "accessor" else cupy.asarray(y.gpu.overwrite)
        ours.uniform_filter(x.gpu_data(), 3, output=output)
    assert y.head is GPU
    np.testing.assert_allclose(y, theirs.uniform_filter(X, 3), rtol=1e-4, atol=1e-4)


def test_ndimage_refuses_a_blob_itself(on_cuda):
    ours = module("cupyx.scipy.ndimage")
    with pytest.raises(TypeError, match="Blob"):
        ours.gaussian_filter(on_cuda(GPU, SHAPE), 1.5)


def test_signal_takes_const_blobs_and_what_the_accessor_gives(cupy, x):
    ours, theirs = module("cupyx.scipy.signal"), module("scipy.signal")
    expected = theirs.convolve2d(X, KERNEL, mode="same")
    with syncblob.no_transfers():
        results = [
            ours.convolve2d(taken, cupy.asarray(KERNEL), mode="same")
            for taken in (x.const, x.gpu_data())
        ]
    for result in results:
        np.testing.assert_allclose(result.get(), expected, rtol=1e-4, atol=1e-4)


# --- special --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["erf", "expit", "gammaln", "j0", "log1p"])
def test_special_functions_take_const_blobs(cupy, x, name):
    ours = getattr(module("cupyx.scipy.special"), name)
    theirs = getattr(module("scipy.special"), name)
    with syncblob.no_transfers():
        result = ours(x.const)
    assert isinstance(result, cupy.ndarray)
    np.testing.assert_allclose(result.get(), theirs(X), rtol=1e-4, atol=1e-5)


def test_special_functions_write_into_a_blob(on_cuda, x):
    ours, theirs = module("cupyx.scipy.special"), module("scipy.special")
    y = on_cuda(CPU, SHAPE)
    with syncblob.no_transfers():
        ours.erf(x.const, out=y.gpu.overwrite)
    assert y.head is GPU
    np.testing.assert_allclose(y, theirs.erf(X), rtol=1e-5)


def test_a_ufunc_of_scipys_is_computed_by_cupyx(x):
    # CuPy also looks for ufuncs in cupyx.scipy.special.
    theirs = module("scipy.special")
    with syncblob.no_transfers():
        result = theirs.erf(x)
    assert isinstance(result, Blob)
    assert result.device == "cuda:0"
    np.testing.assert_allclose(result, theirs.erf(X), rtol=1e-5)


# --- functions that need cuFFT, cuSPARSE, cuSOLVER and cuBLAS -------------------------------------


def test_fft(cupy, x):
    module("cupy.cuda.cufft")
    ours = module("cupyx.scipy.fft")
    expected = np.fft.rfft2(X)
    with syncblob.no_transfers():
        result = ours.rfft2(x.gpu_data())
        blob = np.fft.rfft2(x)
    assert isinstance(result, cupy.ndarray)
    assert isinstance(blob, Blob)
    np.testing.assert_allclose(result.get(), expected, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(blob, expected, rtol=1e-4, atol=1e-3)


def test_sparse_matrices_multiply_blobs(cupy, on_cuda):
    module("cupy_backends.cuda.libs.cusparse")
    ours, theirs = module("cupyx.scipy.sparse"), module("scipy.sparse")
    vector = on_cuda(SYNCED, (8,))
    dense = np.where(X % 3 == 0, X, 0).astype("float32")
    matrix = ours.csr_matrix(theirs.csr_matrix(dense))
    with syncblob.no_transfers():
        result = matrix @ vector.gpu_data()
    assert isinstance(result, cupy.ndarray)
    assert vector.head is SYNCED
    np.testing.assert_allclose(result.get(), dense @ values(shape=(8,)), rtol=1e-5)


def test_a_sparse_matrix_is_made_of_blobs(on_cuda):
    module("cupy_backends.cuda.libs.cusparse")
    ours = module("cupyx.scipy.sparse")
    data = on_cuda(GPU, (3,))
    indices, pointers = (Blob((n,), "int32", device="cuda:0") for n in (3, 4))
    indices[...] = np.arange(3, dtype="int32")
    pointers[...] = np.arange(4, dtype="int32")
    parts = (data.gpu_data(), indices.gpu_data(), pointers.gpu_data())
    matrix = ours.csr_matrix(parts, shape=(3, 3))
    assert matrix.toarray().get().tolist() == np.diag([0.0, 1.0, 2.0]).tolist()


def test_linear_systems_are_solved(cupy, on_cuda):
    module("cupy_backends.cuda.libs.cusolver")
    ours = module("cupyx.scipy.linalg")
    matrix, right = on_cuda(SYNCED, SHAPE), on_cuda(SYNCED, (8,))
    matrix += np.float32(10) * np.eye(8, dtype="float32")
    a, b = np.asarray(matrix), np.asarray(right)
    expected = np.linalg.solve(a, b)
    with syncblob.no_transfers():
        factors = ours.lu_factor(matrix.gpu_data())
        result = ours.lu_solve(factors, right.gpu_data())
        triangular = ours.solve_triangular(matrix.gpu_data(), right.gpu_data(), lower=True)
    assert (matrix.head, right.head) == (SYNCED, SYNCED)
    np.testing.assert_allclose(result.get(), expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(np.tril(a) @ cupy.asnumpy(triangular), b, rtol=1e-3, atol=1e-3)


# --- other functions of CuPy ----------------------------------------------------------------------


def test_rsqrt_and_a_scattered_sum(cupy, on_cuda, x):
    import cupyx

    with syncblob.no_transfers():
        result = cupyx.rsqrt(cupy.add(x.const, 1))
    np.testing.assert_allclose(result.get(), 1 / np.sqrt(X + 1), rtol=1e-5)
    y = on_cuda(GPU, (4,))
    cupy.add.at(y.mutable_gpu_data(), cupy.array([1, 1, 3]), cupy.float32(10))
    assert y.tolist() == [0, 21, 2, 13]
