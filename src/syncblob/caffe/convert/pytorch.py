"""PyTorch's ``state_dict`` in files of ``torch.save``. Loading runs no code from the file."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.caffe import blob_values
from syncblob.caffe.convert.checkpoint import Found, find_net
from syncblob.caffe.convert.weights import Weights
from syncblob.errors import ModelFileError
from syncblob.formats import Blob, import_optional, is_bfloat16

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from syncblob.caffe.convert.weights import Entry


# Torch's message for a class that it refuses to load.
_REFUSED = re.compile(r"Unsupported global: GLOBAL ([\w.]+)")


def read(path: str) -> Weights:
    """Open a file. Its tensors are memory-mapped, except those of files older than PyTorch 1.6."""
    torch = import_optional("torch")
    try:
        with warnings.catch_warnings():
            # If torch refuses the file, the error below says why.
            warnings.simplefilter("ignore")
            archive = zipfile.is_zipfile(path)
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=archive)
    except Exception as error:  # torch raises nearly any exception for a damaged file
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise ModelFileError(
            f"torch.load cannot read it as tensors ({_reason(error)}); copy it again, or save a "
            f"state_dict: torch.save(model.state_dict(), path)",
            path=path,
        ) from error
    found = _find_state(torch, loaded, path)
    tensors = {name: _entry(torch, name, tensor, path) for name, tensor in found.tensors.items()}
    return Weights.of_names(path, "torch", tensors, others=found.others)


def _reason(error: Exception) -> str:
    """Return torch's reason, without its advice to load the file unsafely."""
    refused = _REFUSED.search(str(error))
    if refused is not None:
        return f"it contains {refused[1]}, and objects other than tensors could run code"
    if isinstance(error, RuntimeError):
        return str(error).partition("\n")[0].partition(". ")[0]
    return "it is damaged, or was not written by torch.save"


def _find_state(torch: ModuleType, loaded: Any, path: str) -> Found:
    """Return the tensors of a state_dict, or of that in a checkpoint."""
    expected = "expected a state_dict, a dictionary of tensors, or a checkpoint with one of them"
    if not isinstance(loaded, Mapping):
        raise ModelFileError(f"{expected}, got {type(loaded).__name__}", path=path)
    try:
        return find_net(loaded, lambda value: isinstance(value, torch.Tensor))
    except (TypeError, ValueError) as error:
        raise ModelFileError(
            f"{expected}, but {error}; save a state_dict: torch.save(model.state_dict(), path)",
            path=path,
        ) from error


def _entry(torch: ModuleType, name: str, tensor: Tensor, path: str) -> Entry:
    if tensor.layout is not torch.strided or tensor.is_meta:
        kind = "has no values (meta)" if tensor.is_meta else f"is {tensor.layout}, not dense"
        return ModelFileError(f"tensor {name!r} {kind}; save a dense tensor", path=path)
    return tensor.shape, str(tensor.dtype).removeprefix("torch."), partial(_values, tensor)


def _values(tensor: Tensor) -> NDArray[np.generic]:
    # NumPy has no bfloat16 of torch's, and a Blob has it.
    return np.asarray(Blob.asarray(tensor.detach().resolve_conj().resolve_neg(), device="cpu"))


def plan(weights: Weights) -> Callable[[Path], None]:
    """Plan a state_dict."""
    torch = import_optional("torch")

    def write(path: Path) -> None:
        with warnings.catch_warnings():
            # These tensors are only read. torch needs all of them at once.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            state = OrderedDict(
                (name, _tensor(torch, blob_values(blob))) for name, blob in weights.tensors.items()
            )
        # Given a path, torch would store its name in the file, but the name is temporary.
        with path.open("wb") as file:
            torch.save(state, file)

    return write


def _tensor(torch: ModuleType, values: NDArray[np.generic]) -> Any:
    dense = np.asarray(values, order="C")
    if is_bfloat16(dense.dtype):
        return torch.from_numpy(dense.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(dense)
