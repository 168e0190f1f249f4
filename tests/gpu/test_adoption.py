"""Read-only memory of CUDA devices, and results that are their operands."""

import numpy as np
import pytest
from made_blobs import values

import syncblob
from syncblob import Head
from syncblob.array_api import linalg

pytestmark = pytest.mark.gpu

GPU = Head.HEAD_AT_GPU
X = values()


class ReadOnly:
    """A read-only array of another library, with only one of the protocols."""

    def __init__(self, blob, protocol):
        self._blob = blob.const
        self._protocol = protocol

    def __getattr__(self, name):
        # An attribute that is missing means that the library lacks the protocol.
        if name.startswith(self._protocol):
            return getattr(self._blob, name)
        raise AttributeError(name)


@pytest.fixture(params=["__cuda_array_interface__", "__dlpack"])
def read_only(request, on_cuda):
    """Return a Blob, and a read-only array over its memory."""
    blob = on_cuda(GPU)
    return blob, ReadOnly(blob, request.param)


def test_what_must_not_be_written_is_copied_on_its_device(read_only):
    blob, foreign = read_only
    with syncblob.no_transfers():
        taken = syncblob.asarray(foreign)
        taken += np.float32(1)
    assert taken.device == "cuda:0"
    assert blob.tolist() == X.tolist()
    assert taken.tolist() == (X + 1).tolist()


def test_what_must_not_be_written_is_not_taken_without_a_copy(on_cuda, read_only):
    _, foreign = read_only
    with pytest.raises(ValueError, match="the array is read-only"):
        syncblob.asarray(foreign, copy=False)
    with pytest.raises(ValueError, match="the array is read-only"):
        on_cuda(GPU).set_gpu_data(foreign)


def test_a_result_that_is_its_operand_shares_its_memory(on_cuda):
    blob = on_cuda(GPU, (2, 2))
    same = linalg.matrix_power(blob, 1)
    assert same.memory is blob.memory
    same[0, 0] = 9
    assert blob.tolist() == [[9, 1], [2, 3]]
    blob.mutable_cpu_data()[1, 1] = 8
    assert same.tolist() == [[9, 1], [2, 8]]
