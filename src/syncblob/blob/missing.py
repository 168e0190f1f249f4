"""Names of other libraries that Blobs and the namespace lack, and what to use instead."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

OF_BLOB = {
    "backward": "blob.diff is the gradient, and blob.as_parameter() a parameter of PyTorch's",
    "clone": "blob.copy() copies it",
    "cuda": 'blob.to_device("cuda") is a copy there',
    "detach": "a Blob records no graph; blob.copy() copies it, and blob.const is read-only",
    "dim": "blob.ndim is the number of axes; modules that ask for it take blob.to_torch(), or a "
    "Blob after syncblob.integrations.torch.accept_blobs_in_modules()",
    "float": 'blob.astype("float32") converts',
    "get": "np.asarray(blob) reads it on the host",
    "grad": "blob.diff is the gradient",
    "numpy": "np.asarray(blob) reads it on the host, np.asarray(blob.cpu) may write",
    "permute": "blob.transpose(axes) permutes the axes",
    "requires_grad": "blob.as_parameter() is a parameter of PyTorch's, whose gradient is blob.diff",
    "to": "blob.to_device(device) copies to a device, blob.astype(dtype) converts",
    "unsqueeze": "blob[None] and syncblob.expand_dims(blob, axis=axis) add an axis",
}

OF_MODULE = {
    **dict.fromkeys(
        ("array", "as_tensor", "from_numpy", "tensor"), "asarray(x) makes a Blob of an array"
    ),
    "device": "Device(name) is the class",
    "load": "open_model and read_blob read Caffe's files, asarray(numpy.load(path)) other arrays",
    "Net": "open_model(path) opens a model, ModelFile.from_net makes one of a definition; 'Running "
    "nets' in the documentation runs it",
    **dict.fromkeys(("rand", "randn", "random"), "asarray(numpy.random.random(shape)) has them"),
}


def add_missing(owner: type) -> None:
    """Add properties whose error says what to use. Type checkers do not see them."""
    for name, advice in OF_BLOB.items():
        message = f"a Blob has no attribute {name!r}; {advice}"
        setattr(owner, name, property(partial(_raise, message)))


def _raise(message: str, _blob: object) -> NoReturn:
    raise AttributeError(message)
