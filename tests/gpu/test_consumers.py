"""PyTorch's and JAX's cells of the table of consumers in docs/protocols.md, on a CUDA device.

For CuPy's see ``tests/interop/test_cuda.py``, and for Numba's ``test_numba.py``.
"""

import numpy as np
import pytest
from made_blobs import values

import syncblob
from syncblob import Head
from syncblob.devices import Side

pytestmark = pytest.mark.gpu

NONE, CPU, GPU, SYNCED, *_ = Head
X = values()
HEADS = pytest.mark.parametrize("head", [NONE, CPU, GPU, SYNCED])


def contents(head):
    return (X if head else X * 0).tolist()


def moved(head, *, to):
    """Return the number of transfers that an access of one side requires."""
    return int(head is (CPU if to is Side.ACCELERATOR else GPU))


@pytest.fixture
def torch():
    """Return PyTorch with CUDA."""
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    return module


@HEADS
@pytest.mark.parametrize("name", ["from_dlpack", "asarray", "as_tensor", "tensor"])
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_torch_makes_tensors_where_the_blob_computes(torch, on_cuda, head, name, device):
    blob = on_cuda(head).on(device)
    side = Side.HOST if device == "cpu" else Side.ACCELERATOR
    with syncblob.record_transfers() as log:
        tensor = getattr(torch, name)(blob)
    assert str(tensor.device) == device
    assert len(log) == moved(head, to=side)
    assert tensor.tolist() == contents(head)
    tensor += 1
    shared = name != "tensor"
    assert blob.tolist() == (np.array(contents(head)) + shared).tolist()


@HEADS
def test_jax_makes_arrays_where_the_blob_computes(on_cuda, head):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no CUDA")
    for device in ("cpu", "cuda:0"):
        blob = on_cuda(head).on(device)
        array = jax.numpy.from_dlpack(blob)
        assert (next(iter(array.devices())).platform == "cpu") == (device == "cpu")
        assert np.asarray(array).tolist() == contents(head)
