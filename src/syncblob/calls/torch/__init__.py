"""PyTorch's functions called with Blobs; tensors and parameters over Blobs. Imports torch.

A function runs on the device of the tensors among its arguments: a CUDA device or the host. Without
tensors it runs on the Blobs' device; torch has no simulated device, so that counts as the host.
Inputs take the const path, written arguments the mutable path, and a fully overwritten `out` causes
no transfer.

| where | what |
| --- | --- |
| `plans.rule_of` | which arguments a function writes |
| `make_call._WRITE` | a call that writes what lies ready on the host; `_READ` writes nothing |
| `make_call.Call` | all other calls: `_written_tensor`, `_read_tensor` |
| `tensors.home_of_tensors` | on which device a call runs |
| `make_call.give` | what a call returns: tensors, or aliases of operands |
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
