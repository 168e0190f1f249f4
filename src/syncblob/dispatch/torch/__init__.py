"""PyTorch's functions called with Blobs; tensors and parameters over Blobs. Imports torch."""

from __future__ import annotations

from syncblob.dispatch.torch.calls import call
from syncblob.dispatch.torch.parameters import BlobParameter, parameter_over, put_over
from syncblob.dispatch.torch.tensors import tensor_over

__all__ = ["BlobParameter", "call", "parameter_over", "put_over", "tensor_over"]
