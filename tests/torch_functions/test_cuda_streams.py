"""PyTorch's functions on CUDA devices run after CuPy's work and before CuPy's next work.

The tests use the model of CUDA. `TorchCuda` replaces the parts of `torch.cuda` that syncblob uses,
and treats the model's streams as PyTorch treats CUDA's. The tensors are PyTorch's own, over the
model's memory.
"""

from __future__ import annotations

import cupy_model
import pytest
from cupy_model import launch

from syncblob import Blob

torch = pytest.importorskip("torch")

from syncblob.dispatch.torch.calls import call  # noqa: E402  # it needs torch

pytestmark = pytest.mark.parametrize("machine", ["lazy"], indirect=True)


class TorchStream:
    """A stream with PyTorch's attributes, identified by its handle."""

    def __init__(self, handle):
        self.cuda_stream = handle

    def wait_stream(self, other):
        from cupy.cuda import Event, runtime

        event = Event()
        runtime.eventRecord(event.ptr, other.cuda_stream)
        runtime.streamWaitEvent(self.cuda_stream, event.ptr)


class TorchCuda:
    """Parts of `torch.cuda`. The handle of the default stream is 0."""

    def __init__(self, current):
        self._current = current
        self.waited = []

    def is_available(self):
        return True

    def current_stream(self, device=None):
        del device
        return TorchStream(self._current)

    def get_stream_from_external(self, data_ptr, device=None):
        del device
        return TorchStream(data_ptr)

    def ExternalStream(self, stream_ptr, device=None):  # noqa: N802  # PyTorch's name
        """A handle of 0 makes another stream: https://github.com/pytorch/pytorch/issues/182960."""
        from cupy.cuda import runtime

        del device
        return TorchStream(stream_ptr or runtime.streamCreateWithPriority(1, 0))


def taken(capsule, from_dlpack=torch._C._from_dlpack):
    """Make a tensor over the model's memory, which is ordinary memory."""
    cupy_model._set_device(capsule, *Blob(()).__dlpack_device__())
    return from_dlpack(capsule)


@pytest.fixture
def streams(machine, monkeypatch, request):
    """Return the current streams of CuPy and PyTorch. Each may be the default stream."""
    del machine
    import cupy

    of_cupy, of_torch = (
        cupy.cuda.Stream.null if each == "default" else cupy.cuda.Stream(non_blocking=True)
        for each in request.param
    )
    monkeypatch.setattr(torch, "cuda", TorchCuda(of_torch.ptr))
    monkeypatch.setattr(torch._C, "_from_dlpack", taken)
    with of_cupy:
        yield of_cupy, of_torch


@pytest.mark.parametrize(
    "streams",
    [("default", "side"), ("side", "default"), ("side", "side"), ("default", "default")],
    indirect=True,
    ids="-".join,
)
@pytest.mark.parametrize("fails", [False, True])
def test_cupys_stream_and_pytorchs_are_ordered_also_where_the_function_fails(streams, fails):
    of_cupy, of_torch = streams
    blob, seen = Blob(3, device="cuda:0"), []
    array = blob.overwrite_gpu_data()
    launch(lambda a: a.fill(1), array)

    def function(x):
        launch(lambda a: seen.append(a.tolist()), array, stream=of_torch)
        if fails:
            raise MemoryError("the kernel before this is queued")
        return x + 0

    try:
        call(function, (blob,), {})
    except MemoryError:
        assert fails
    launch(lambda a: a.fill(2), blob.mutable_gpu_data())
    of_cupy.synchronize()
    assert blob.tolist() == [2] * 3
    assert seen == [[1] * 3]
