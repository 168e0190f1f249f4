"""PyTorch's ``state_dict`` in files of ``torch.save``. Loading runs no code from the file."""

from __future__ import annotations

import io
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from syncblob.caffe import blob_values
from syncblob.caffe.convert.weights import Entry, Weights
from syncblob.caffe.files.caffe_hdf5 import is_too_dense
from syncblob.caffe.messages.fields import Array, Write
from syncblob.caffe.messages.lazy_blobs import has_values
from syncblob.caffe.messages.open_file import OpenFile, stream_of
from syncblob.caffe.messages.values import CHUNK
from syncblob.errors import ModelFileError
from syncblob.formats import Blob, import_optional, is_bfloat16

# Torch's message for a class that it refuses to load.
_REFUSED = re.compile(r"Unsupported global: GLOBAL ([\w.]+)")


def read(path: str) -> Weights:
    """Open a file. PyTorch reads all of it; Blobs copy their values on first access."""
    torch = import_optional("torch")
    file = OpenFile(path)
    _, found = _load(torch, file)
    file.require_unchanged()
    tensors = {name: _entry(torch, name, each, path) for name, each in found.tensors.items()}
    return Weights.of_entries(path, "torch", tensors, file, others=found.others)


def _load(torch: ModuleType, file: OpenFile) -> tuple[Any, Found]:
    """Load a file, and find the tensors of a net."""

    def explain(error: Exception) -> ModelFileError:
        return ModelFileError(
            f"torch.load cannot read it as tensors ({_reason(error)}); copy it again, or save a "
            f"state_dict: torch.save(model.state_dict(), path)",
            path=file.path,
        )

    with stream_of(file, explain) as stream, warnings.catch_warnings():
        # If torch refuses the file, its error says why.
        warnings.simplefilter("ignore")
        buffered = io.BufferedReader(stream, CHUNK)
        loaded = torch.load(buffered, map_location="cpu", weights_only=True)
    expected = "expected a state_dict, a dictionary of tensors, or a checkpoint with one of them"
    if not isinstance(loaded, Mapping):
        raise ModelFileError(f"{expected}, got {type(loaded).__name__}", path=file.path)
    try:
        return loaded, find_net(loaded, lambda value: isinstance(value, torch.Tensor))
    except (TypeError, ValueError) as error:
        raise ModelFileError(
            f"{expected}, but {error}; save a state_dict: torch.save(model.state_dict(), path)",
            path=file.path,
        ) from error


def _reason(error: Exception) -> str:
    """Return torch's reason, without its advice to load the file unsafely."""
    refused = _REFUSED.search(str(error))
    if refused is not None:
        return f"it contains {refused[1]}, and objects other than tensors could run code"
    if isinstance(error, RuntimeError):
        return str(error).partition("\n")[0].partition(". ")[0]
    return "it is damaged, or was not written by torch.save"


def _entry(torch: ModuleType, name: str, tensor: Any, path: str) -> Entry:
    nbytes = tensor.numel() * tensor.element_size()
    if tensor.layout is not torch.strided:
        why = f"is {tensor.layout}, not dense"
    elif tensor.is_meta:
        why = "has no values (meta)"
    elif is_too_dense(nbytes, stored := tensor.untyped_storage().nbytes()):
        why = f"claims {nbytes} bytes, of which {stored} are stored"
    else:
        return tensor.shape, str(tensor.dtype).removeprefix("torch."), partial(_values, tensor)
    raise ModelFileError(f"tensor {name!r} {why}; save a dense tensor", path=path)


def _values(tensor: Any) -> Array:
    # Tensor.numpy() refuses bfloat16; a Blob does not.
    return np.asarray(Blob.asarray(tensor.detach().resolve_conj().resolve_neg(), device="cpu"))


def plan(weights: Weights) -> Write:
    """Plan a state_dict, or the file that was opened with new values."""
    torch = import_optional("torch")
    if len(weights.tensors) > _MOST_ENTRIES:
        raise ValueError(
            f"a state_dict that can be opened again has at most {_MOST_ENTRIES} tensors, got "
            f"{len(weights.tensors)}"
        )

    source = weights.source_file()

    def edit(source: OpenFile, path: Path) -> None:
        loaded, found = _load(torch, source)
        pairs = [(found.tensors[name], blob) for name, blob in weights.tensors.items()]
        # Compare all tensors before the first one is changed: they may share their values.
        edits = [(tensor, blob) for tensor, blob in pairs if not _has_values(tensor, blob)]
        for tensor, blob in edits:
            new = _tensor(torch, blob_values(blob))
            repeats = 0 in tensor.stride() and new.numel() > 1
            if new.shape == tensor.shape and not repeats:
                tensor.data.copy_(new)
            else:
                tensor.data = new
        with path.open("wb") as file:
            torch.save(loaded, file)

    def write(path: Path) -> None:
        state = OrderedDict()
        for name, blob in weights.tensors.items():  # torch.save needs all tensors at once
            state[name] = _tensor(torch, blob_values(blob))
        # Given a path, torch would store its name in the file, but the name is temporary.
        with path.open("wb") as file:
            torch.save(state, file)

    return write if source is None else partial(edit, source)


def _has_values(tensor: Any, blob: Blob) -> bool:
    """Tell whether a Blob has the values of a tensor. Raise ValueError for another dtype."""
    before = _values(tensor)
    if before.dtype != blob.dtype:
        raise ValueError(f"expected {before.dtype}, as in the file, got a Blob of {blob.dtype}")
    return has_values(blob, before)


def _tensor(torch: ModuleType, values: Array) -> Any:
    dense = np.asarray(values, order="C")
    narrow = is_bfloat16(dense.dtype)
    with warnings.catch_warnings():
        # The tensor is only read.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        tensor = torch.from_numpy(dense.view(np.int16) if narrow else dense)
    return tensor.view(torch.bfloat16) if narrow else tensor


# --- the tensors of a net in nested dictionaries --------------------------------------------------
#
# A dictionary in a dictionary is a part of a net, such as a layer with its ``weight``, or a whole
# net. The names of the tensors of a net contain dots, those of a layer do not.

# The usual key of the weights in a checkpoint.
_USUAL_KEY = "state_dict"
# The last part of the name of an entry with what a module keeps beside its tensors, of any type.
_EXTRA_STATE = "_extra_state"
# Limits for hostile files, whose dictionaries may contain themselves, or each other many times.
_MOST_LEVELS = 32
_MOST_ENTRIES = 1 << 20


class Found(NamedTuple):
    """Tensors by name, and in words what was left out."""

    tensors: dict[str, Any]
    others: tuple[str, ...] = ()


def flatten(nested: Mapping[Any, Any], is_tensor: Callable[[Any], bool]) -> Found:
    """Join the keys of nested dictionaries with dots; `is_tensor` tells what is a tensor."""
    tensors: dict[str, Any] = {}
    others = []
    for number, (name, value) in enumerate(_leaves(nested, "", _MOST_LEVELS)):
        if number == _MOST_ENTRIES:
            raise ValueError(f"it has more than {_MOST_ENTRIES} entries")
        if _is_extra_state(name):
            others.append(f"the extra state {name!r}")
        elif not is_tensor(value):
            raise TypeError(f"entry {name!r} is of type {type(value).__name__}, not a tensor")
        elif name in tensors:
            raise ValueError(f"two of its tensors are called {name!r}")
        else:
            tensors[name] = value
    return Found(tensors, tuple(others))


def _leaves(nested: Mapping[Any, Any], prefix: str, levels: int) -> Iterator[tuple[str, Any]]:
    if not levels:
        raise ValueError(f"dictionaries are nested more than {_MOST_LEVELS} deep")
    for key, value in nested.items():
        if not isinstance(key, str):
            raise TypeError(f"the name {key!r} of an entry is of type {type(key).__name__}")
        if isinstance(value, Mapping) and not _is_extra_state(key):
            yield from _leaves(value, f"{prefix}{key}.", levels - 1)
        else:
            yield prefix + key, value


def _is_extra_state(name: str) -> bool:
    return name.rpartition(".")[2] == _EXTRA_STATE


def find_net(loaded: Mapping[Any, Any], is_tensor: Callable[[Any], bool]) -> Found:
    """Return the tensors of the only net, or of that with the usual key; else all tensors."""
    loose = [name for name, value in loaded.items() if is_tensor(value)]
    nets, mixed = {}, []
    for name, value in loaded.items():
        if isinstance(value, Mapping):
            try:
                if (found := flatten(value, is_tensor)).tensors:
                    nets[name] = found
            except (TypeError, ValueError):
                if any(map(is_tensor, value.values())):
                    mixed.append(f"{name!r}, which has tensors and other entries")
    if not nets or _has_names_of_a_net(loose):
        # It is a state_dict; or this raises the error that names an entry.
        return flatten(loaded, is_tensor)
    only = _USUAL_KEY if _USUAL_KEY in nets else next(iter(nets))
    if only == _USUAL_KEY or (len(nets) == 1 and _has_names_of_a_net(loaded[only])):
        net = nets.pop(only)
        others = [f"the tensor {name!r}" for name in loose] + [f"the net {name!r}" for name in nets]
        return Found(net.tensors, (*net.others, *others, *mixed))
    found = flatten({name: loaded[name] for name in (*nets, *loose)}, is_tensor)
    return found._replace(others=(*found.others, *mixed))


def _has_names_of_a_net(part: Iterable[Any]) -> bool:
    return any("." in str(name) for name in part)
