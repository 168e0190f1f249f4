"""PyTorch's ``state_dict`` in files of ``torch.save``. Loading runs no code from the file."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import warnings
import zipfile
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from syncblob.caffe import blob_values
from syncblob.caffe.convert.npz import open_archive
from syncblob.caffe.convert.weights import Entry, Weights
from syncblob.caffe.files.caffe_hdf5 import is_too_dense
from syncblob.caffe.messages.fields import Array, Write
from syncblob.caffe.messages.lazy_blobs import has_values
from syncblob.caffe.messages.open_file import OpenFile, stream_of
from syncblob.caffe.messages.values import CHUNK, Runs, StridedValues
from syncblob.errors import ModelFileError
from syncblob.formats import Blob, as_dtype, import_optional, is_bfloat16

# Torch's message for a class that it refuses to load.
_REFUSED = re.compile(r"Unsupported global: GLOBAL ([\w.]+)")


def read(path: str) -> Weights:
    """Open a file. Reads no values, except of files older than PyTorch 1.6 or with odd tensors."""
    torch = import_optional("torch")
    file = OpenFile(path)
    records = _records(file)
    _, found = _load(torch, file, in_place=bool(records))
    if any(tensor.is_conj() or tensor.is_neg() for tensor in found.tensors.values()):
        _, found = _load(torch, file, in_place=False)
    file.require_unchanged()
    tensors = {
        name: _entry(torch, file, name, each, records) for name, each in found.tensors.items()
    }
    return Weights.of_entries(path, "torch", tensors, file, others=found.others)


def _load(torch: ModuleType, file: OpenFile, *, in_place: bool) -> tuple[Any, Found]:
    """Load a file, and find the tensors of a net; in place, they only know where values are."""

    def load(device: str) -> Any:
        stream.seek(0)
        buffered = io.BufferedReader(stream, CHUNK)
        return torch.load(buffered, map_location=device, weights_only=True)

    def explain(error: Exception) -> ModelFileError:
        return ModelFileError(
            f"torch.load cannot read it as tensors ({_reason(error)}); copy it again, or save a "
            f"state_dict: torch.save(model.state_dict(), path)",
            path=file.path,
        )

    with stream_of(file, explain) as stream, warnings.catch_warnings():
        # If torch refuses the file, its error says why.
        warnings.simplefilter("ignore")
        try:
            loaded = load("meta" if in_place else "cpu")
        except NotImplementedError:  # there are no quantized tensors on "meta"
            loaded = load("cpu")
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


def _records(file: OpenFile) -> list[tuple[int, int]]:
    """Return where records begin, and their sizes, if values can be read in place; else none."""
    with contextlib.suppress(ModelFileError), open_archive(file) as archive:
        infos = archive.infolist()
        order = [each for each in archive.namelist() if each.endswith("/byteorder")]
        if all(info.compress_type == zipfile.ZIP_STORED for info in infos) and all(
            archive.read(each).decode() == sys.byteorder for each in order
        ):
            return sorted((info.header_offset, info.file_size) for info in infos)
    return []


def _reason(error: Exception) -> str:
    """Return torch's reason, without its advice to load the file unsafely."""
    refused = _REFUSED.search(str(error))
    if refused is not None:
        return f"it contains {refused[1]}, and objects other than tensors could run code"
    if isinstance(error, RuntimeError):
        return str(error).partition("\n")[0].partition(". ")[0]
    return "it is damaged, or was not written by torch.save"


def _entry(
    torch: ModuleType, file: OpenFile, name: str, tensor: Any, records: list[tuple[int, int]]
) -> Entry:
    storage: Any = tensor.untyped_storage() if tensor.layout is torch.strided else None
    nbytes = tensor.numel() * tensor.element_size()
    dtype, shape = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
    if storage is None:
        why = f"is {tensor.layout}, not dense"
    elif is_too_dense(nbytes, storage.nbytes()):
        why = f"claims {nbytes} bytes, of which {storage.nbytes()} are stored"
    elif not tensor.is_meta:
        return shape, dtype, partial(_values, tensor)
    else:
        offset = getattr(storage, "_checkpoint_offset", None)  # PyTorch documents this attribute
        if offset is None:
            why = "has no values (meta)"
        # On "meta", a storage grows to what its tensors claim.
        elif storage.nbytes() > min(
            records[bisect_right(records, (offset, 0)) - 1][1], len(file) - offset
        ):
            why = "is truncated"
        else:
            return shape, dtype, _in_file(dtype, tensor, offset)
    raise ModelFileError(f"tensor {name!r} {why}; save a dense tensor", path=file.path)


def _in_file(name: str, tensor: Any, offset: int) -> Any:
    """Return where the values of a tensor are, whose storage begins at an offset."""
    try:
        dtype = as_dtype(name)
    except TypeError:
        return 0  # `Weights.of_entries` refuses the dtype, and reads no values
    shape, strides = tuple(tensor.shape), tensor.stride()
    count = 1 + sum((dim - 1) * stride for dim, stride in zip(shape, strides, strict=True))
    begin = offset + tensor.storage_offset() * dtype.itemsize
    span = Runs.in_order(dtype, begin, count if tensor.numel() else 0)
    return StridedValues.of(span, shape, strides)


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
        loaded, found = _load(torch, source, in_place=False)
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
    nets = {}
    for name, value in loaded.items():
        with contextlib.suppress(TypeError, ValueError):
            if isinstance(value, Mapping) and (found := flatten(value, is_tensor)).tensors:
                nets[name] = found
    if not nets or _has_names_of_a_net(loose):
        # It is a state_dict; or this raises the error that names an entry.
        return flatten(loaded, is_tensor)
    only = _USUAL_KEY if _USUAL_KEY in nets else next(iter(nets))
    if only == _USUAL_KEY or (len(nets) == 1 and _has_names_of_a_net(loaded[only])):
        net = nets.pop(only)
        others = [f"the tensor {name!r}" for name in loose] + [f"the net {name!r}" for name in nets]
        return Found(net.tensors, (*net.others, *others))
    return flatten({name: loaded[name] for name in (*nets, *loose)}, is_tensor)


def _has_names_of_a_net(part: Iterable[Any]) -> bool:
    return any("." in str(name) for name in part)
