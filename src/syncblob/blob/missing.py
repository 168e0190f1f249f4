"""Names of other libraries that Blobs and the namespace lack, and what to use instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from syncblob._formatting import extend

_OF_BLOB = {
    "_blk_dtypes": "pandas takes np.asarray(blob) as a mask of a DataFrame",
    "backward": "blob.diff is the gradient, and blob.as_parameter() a parameter of PyTorch's",
    "clone": "blob.copy() copies it",
    "contiguous": 'blob.astype(blob.dtype, order="C", copy=False) copies only if that is needed',
    "copy_": "blob[...] = values writes it, and blob.copy_from(other) copies a Blob",
    "cuda": 'blob.to_device("cuda") is a copy there',
    "data_ptr": "blob.cpu and blob.gpu give other libraries each side; see 'Protocols'",
    "detach": "a Blob records no graph; blob.copy() copies it, and blob.const is read-only",
    "dim": "blob.ndim is the number of axes; modules that ask for it take blob.to_torch(), or a "
    "Blob after syncblob.integrations.torch.accept_blobs_in_modules()",
    "element_size": "blob.itemsize is the size of an element",
    "expand": "syncblob.broadcast_to(blob, shape) is a view of that shape",
    "fill_": "blob.fill(value) fills it",
    "get": "np.asarray(blob) reads it on the host",
    "grad": "blob.diff is the gradient",
    "is_cuda": "blob.device.type is the kind of device",
    "mm": "blob @ other is the product",
    "mul": "blob * other is the product",
    "norm": "syncblob.linalg.vector_norm(blob) and syncblob.linalg.matrix_norm(blob) compute it",
    "numel": "blob.size is the number of elements",
    "numpy": "np.asarray(blob) reads it on the host, np.asarray(blob.cpu) may write",
    "permute": "blob.transpose(axes) permutes the axes",
    "requires_grad": "blob.as_parameter() is a parameter of PyTorch's, whose gradient is blob.diff",
    "setflags": "blob.flags.writeable = False makes it const",
    "synchronize": "each access waits for what it needs; blob.cpu_data() waits for the device",
    "to": "blob.to_device(device) copies to a device, blob.astype(dtype) converts",
    "unsqueeze": "blob[None] and syncblob.expand_dims(blob, axis=axis) add an axis",
    "zero_": "blob.fill(0) fills it with zeros",
}
_DTYPES = {"double": "float64", "float": "float32", "half": "float16", "long": "int64"}

# Functions of the namespace that users know as methods of arrays, or of their class.
_FUNCTIONS = """
    abs arange ceil concat cos empty exp expand_dims eye flip floor full isnan linspace log matmul
    maximum minimum ones permute_dims pow sin sqrt stack tan tanh tensordot tril triu where zeros
    """.split()  # noqa: SIM905  # reads best as words

OF_MODULE = {
    **dict.fromkeys(("Array", "Tensor"), "Blob is the class"),
    **dict.fromkeys(
        ("array", "as_tensor", "from_numpy", "tensor"), "asarray(x) makes a Blob of an array"
    ),
    "cat": "concat(blobs) joins them",
    "clone": "blob.copy() copies a Blob",
    **dict.fromkeys(("cuda", "gpu"), 'Blob(shape, device="cuda") and use_device("cuda") select it'),
    "detach": "a Blob records no graph; blob.copy() copies it",
    "device": "Device(name) is the class",
    "load": "open_model and read_blob read Caffe's files, asarray(numpy.load(path)) other arrays",
    "Net": "open_model(path) opens a model, ModelFile.from_net makes one of a definition; 'Running "
    "nets' in the documentation runs it",
    "norm": "linalg.vector_norm(blob) and linalg.matrix_norm(blob) compute it",
    "permute": "permute_dims(blob, axes) permutes the axes",
    **dict.fromkeys(("rand", "randn", "random"), "asarray(numpy.random.random(shape)) has them"),
    "synchronize": "each access waits for what it needs; blob.cpu_data() waits for the device",
    "unsqueeze": "expand_dims(blob, axis=axis) adds an axis",
}


# Parameters of PyTorch's functions, and what NumPy calls them.
_KEYWORDS = {"dim": "axis", "keepdim": "keepdims", "unbiased": "ddof"}


def explain_keywords(error: TypeError, keywords: Iterable[str]) -> None:
    """Add to the error for an unknown keyword of PyTorch's what the parameter is called."""
    known = [name for name in keywords if name in _KEYWORDS]
    if known and "keyword argument" in str(error):
        names = ", ".join(f"{_KEYWORDS[name]!r} for {name!r}" for name in known)
        extend(error, f"the names of parameters are NumPy's: {names}")


class Missing:
    """Descriptor for an attribute that Blobs lack; its error says what to use instead."""

    __slots__ = ("_advice", "_name")

    def __init__(self, name: str, advice: str) -> None:
        self._name = name
        self._advice = advice

    def __str__(self) -> str:
        """Return the advice."""
        return self._advice

    def __get__(self, blob: Any, owner: type | None = None) -> NoReturn:
        """Raise AttributeError, with the advice."""
        raise AttributeError(f"a Blob has no attribute {self._name!r}; {self._advice}")


def add_missing(owner: type) -> None:
    """Add the attributes that a class lacks. Type checkers do not see them."""
    advised = {name: f"syncblob.{name} is a function" for name in _FUNCTIONS}
    advised |= {name: f'blob.astype("{dtype}") converts' for name, dtype in _DTYPES.items()}
    for name, advice in (advised | _OF_BLOB).items():
        setattr(owner, name, Missing(name, advice))
