"""PyTorch's functions called with Blobs; tensors and parameters over Blobs. Imports torch.

A function runs on the device of the tensors among its arguments: a CUDA device or the host. Without
tensors it runs on the Blobs' device; torch has no simulated device, so that counts as the host.
Inputs take the const path, written arguments the mutable path, and a fully overwritten `out` causes
no transfer.
"""

from syncblob.calls.torch.blob_parameters import BlobParameter, parameter_over, put_over
from syncblob.calls.torch.make_call import call_untraced, functions
from syncblob.calls.torch.tensors import tensor_over

__all__ = [
    "BlobParameter",
    "call_untraced",
    "functions",
    "parameter_over",
    "put_over",
    "tensor_over",
]
