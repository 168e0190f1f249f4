"""``cupyx.scipy`` on Blobs, compared with SciPy on the host."""

import numpy as np
import pytest
from made_blobs import values

import syncblob
from syncblob import Head

pytestmark = [
    pytest.mark.gpu,
    # Parts of cupyx use it, and the warning appears when they are imported.
    pytest.mark.filterwarnings("ignore:cupyx.jit.rawkernel is experimental:FutureWarning"),
]

_, CPU, GPU, SYNCED, *_ = Head
SHAPE = (8, 8)
X = values(shape=SHAPE)


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


@pytest.mark.parametrize("access", ["accessor", "alias"])
def test_ndimage_writes_into_a_blob(cupy, on_cuda, x, access):
    ours, theirs = module("cupyx.scipy.ndimage"), module("scipy.ndimage")
    y = on_cuda(CPU, SHAPE)
    with syncblob.no_transfers():
        output = y.overwrite_gpu_data() if access == "accessor" else cupy.asarray(y.gpu.overwrite)
        ours.uniform_filter(x.gpu_data(), 3, output=output)
    assert y.head is GPU
    np.testing.assert_allclose(y, theirs.uniform_filter(X, 3), rtol=1e-4, atol=1e-4)


# --- special --------------------------------------------------------------------------------------


def test_a_ufunc_of_scipys_is_computed_by_cupyx(x):
    # CuPy also looks for ufuncs in cupyx.scipy.special.
    ours, theirs = module("cupyx.scipy.special"), module("scipy.special")
    with syncblob.no_transfers():
        result, array = theirs.erf(x), ours.erf(x.const)
    assert result.device == "cuda:0"
    np.testing.assert_allclose(result, theirs.erf(X), rtol=1e-5)
    np.testing.assert_allclose(array.get(), theirs.erf(X), rtol=1e-5)
