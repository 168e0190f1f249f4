"""PyTorch's CUDA streams on the model of CUDA: the parts that syncblob asks about.

PyTorch without CUDA has no tensors on a device. Here its tensors lie over the model's memory as
tensors of the host, so its functions compute at once, in no order of streams: use an eager machine
for them. Work on PyTorch's streams is launched with `cupy_model.launch`.
"""

import types
from contextlib import contextmanager

import pytest
import torch
from cuda_model import _streams

from syncblob.arrays import dlpack_capsules
from syncblob.calls.torch import tensors


class Stream:
    """One of PyTorch's own streams, which CuPy has no object of, and which are never destroyed."""

    stream_id = 3

    def __init__(self, machine):
        self._machine = machine
        self.ptr = machine.streamCreateWithPriority(1, 0)

    def is_capturing(self):
        """Return whether a graph is being captured on it."""
        return bool(self._machine.streamIsCapturing(self.ptr))


class Streams:
    """PyTorch's current streams.

    `current`: the one of each device, by its index, if it is not the default stream.
    `exports`: the number of tensors made over the model's memory.
    `cached`: the bytes that PyTorch's allocator keeps.
    """

    def __init__(self):
        self.current = {}
        self.exports = 0
        self.cached = 0

    @contextmanager
    def stream(self, stream):
        """Make a stream of the model PyTorch's current one, as `torch.cuda.stream` does."""
        known = _streams.get(0 if stream is None else stream.ptr)
        index = 0 if known is None else known.device
        before, self.current = self.current, {**self.current, index: stream}
        try:
            yield
        finally:
            self.current = before

    @contextmanager
    def graph(self, stream, mode):
        """Capture a graph on a stream, as `torch.cuda.graph` does; yield a list for the graph."""
        made = []
        with self.stream(stream):
            stream.begin_capture(mode)
            try:
                yield made
            finally:
                made.append(stream.end_capture())

    def current_stream(self, index):
        """Return the current stream. The number of one that is not PyTorch's is its address."""
        current = self.current.get(index)
        own = isinstance(current, Stream)
        return current if own else types.SimpleNamespace(stream_id=self.pointer(index))

    def pointer(self, index):
        """Return the pointer of the current stream of a device."""
        current = self.current.get(index)
        return 0 if current is None else int(current.ptr)


@contextmanager
def installed():
    """Make PyTorch use CUDA devices, as far as syncblob can tell."""
    streams = Streams()
    imported = tensors._of_capsule

    def of_capsule(capsule):
        streams.exports += 1
        return imported(dlpack_capsules.edit(capsule, device=(1, 0)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        patch.setattr(torch.cuda, "init", lambda: None)
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch._C, "_cuda_getCurrentRawStream", streams.pointer, raising=False)
        patch.setattr(torch.cuda, "current_stream", streams.current_stream)
        patch.setattr(torch.cuda, "memory_reserved", lambda _: 1000 + streams.cached)
        patch.setattr(torch.cuda, "empty_cache", lambda: setattr(streams, "cached", 0))
        patch.setattr(tensors, "_of_capsule", of_capsule)
        patch.setattr(tensors, "_reached", set())
        yield streams
