"""PyTorch's ``state_dict`` in files of ``torch.save``. Loading runs no code from the file."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.caffe import blob_values
from syncblob.caffe.convert.checkpoint import MOST_ENTRIES, Found, find_net
from syncblob.caffe.convert.weights import Weights
from syncblob.caffe.messages.open_file import OpenFile, Stream
from syncblob.caffe.messages.pieces import on_progress
from syncblob.caffe.messages.values import CHUNK, StridedValues, Values
from syncblob.errors import ModelFileError
from syncblob.formats import Blob, as_dtype, import_optional, is_bfloat16

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from syncblob.caffe.convert.weights import Entry


# Torch's message for a class that it refuses to load.
_REFUSED = re.compile(r"Unsupported global: GLOBAL ([\w.]+)")


def read(path: str) -> Weights:
    """Open a file. Reads no values, except those of files older than PyTorch 1.6."""
    torch = import_optional("torch")
    file = OpenFile(path)
    stream = _Stream(file)
    try:
        loaded = _load(torch, stream)
    except Exception as error:  # torch raises nearly any exception for a damaged file
        file.require_unchanged()
        stream.raise_failure()
        raise ModelFileError(
            f"torch.load cannot read it as tensors ({_reason(error)}); copy it again, or save a "
            f"state_dict: torch.save(model.state_dict(), path)",
            path=path,
        ) from error
    file.require_unchanged()
    found = _find_state(torch, loaded, path)
    tensors = {name: _entry(torch, file, name, each) for name, each in found.tensors.items()}
    return Weights.of_names(path, "torch", tensors, file, others=found.others)


class _Stream(Stream):
    """A stream that keeps the system's error, in place of which torch raises one of its own."""

    def __init__(self, file: OpenFile) -> None:
        super().__init__(file)
        self._failure: OSError | None = None

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer up to the end of the file."""
        try:
            return super().readinto(buffer)
        except OSError as error:
            self._failure = error
            raise

    def raise_failure(self) -> None:
        """Raise the error, and forget it: its traceback refers to this object."""
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure from None
        finally:
            del failure


def _load(torch: ModuleType, stream: Stream) -> Any:
    """Load the contents of a file. Tensors on "meta" only know where their values are."""
    with warnings.catch_warnings():
        # If torch refuses the file, its error says why.
        warnings.simplefilter("ignore")
        # There are no quantized tensors on "meta".
        with contextlib.suppress(NotImplementedError):
            if _has_plain_records(stream):
                return torch.load(_buffered(stream), map_location="meta", weights_only=True)
        return torch.load(_buffered(stream), map_location="cpu", weights_only=True)


def _buffered(stream: Stream) -> io.BufferedReader:
    stream.seek(0)
    return io.BufferedReader(stream, CHUNK)


def _has_plain_records(stream: Stream) -> bool:
    """Tell whether a file is an archive whose values can be read at their offsets."""
    try:
        with zipfile.ZipFile(stream) as archive:
            infos = archive.infolist()
            orders = [archive.read(each) for each in infos if each.filename.endswith("/byteorder")]
    except zipfile.BadZipFile as error:
        if isinstance(error.__context__, OSError):
            raise  # a failure of the system
        return False
    stored = all(info.compress_type == zipfile.ZIP_STORED for info in infos)
    return stored and all(order.decode() == sys.byteorder for order in orders)


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


def _entry(torch: ModuleType, file: OpenFile, name: str, tensor: Tensor) -> Entry:
    if tensor.layout is not torch.strided:
        why = f"is {tensor.layout}, not dense"
    elif not tensor.is_meta:
        return tensor.shape, _name_of(tensor), partial(_values, tensor)
    else:
        storage: Any = tensor.untyped_storage()
        offset = getattr(storage, "_checkpoint_offset", None)  # PyTorch documents this attribute
        if offset is None:
            why = "has no values (meta)"
        elif offset + storage.nbytes() > len(file):
            why = "is truncated"
        else:
            return tensor.shape, _name_of(tensor), _in_file(file, tensor, offset)
    return ModelFileError(f"tensor {name!r} {why}; save a dense tensor", path=file.path)


def _name_of(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _in_file(file: OpenFile, tensor: Tensor, offset: int) -> Any:
    """Return where the values of a tensor are, or the function that reads them."""
    try:
        dtype = as_dtype(_name_of(tensor))
    except TypeError:
        return 0  # is refused for its dtype
    storage = Values.packed(dtype, offset, tensor.untyped_storage().nbytes() // dtype.itemsize)
    begin = int(tensor.storage_offset())
    shape, strides = tuple(tensor.shape), tensor.stride()
    values = StridedValues.of(storage.part(begin, storage.count), shape, strides)
    if not tensor.is_conj() and not tensor.is_neg():
        return values

    def read() -> NDArray[np.generic]:
        array: NDArray[Any] = np.empty(shape, dtype)
        values.read_into(file, array.reshape(-1))
        array = array.conj() if tensor.is_conj() else array
        return -array if tensor.is_neg() else array

    return read


def _values(tensor: Tensor) -> NDArray[np.generic]:
    # NumPy has no bfloat16 of torch's, and a Blob has it.
    return np.asarray(Blob.asarray(tensor.detach().resolve_conj().resolve_neg(), device="cpu"))


def plan(weights: Weights) -> Callable[[Path], None]:
    """Plan a state_dict, or the file that was opened with new values."""
    torch = import_optional("torch")
    if len(weights.tensors) > MOST_ENTRIES:
        raise ValueError(
            f"a state_dict that can be opened again has at most {MOST_ENTRIES} tensors, got "
            f"{len(weights.tensors)}"
        )

    source = weights.opened_file()

    def edit(source: OpenFile, path: Path) -> None:
        loaded = torch.load(_buffered(Stream(source)), map_location="cpu", weights_only=True)
        tensors = _find_state(torch, loaded, str(path)).tensors
        # Found before the first is written, because tensors may share their values.
        edits = [
            (tensors[name], values)
            for name, blob in weights.tensors.items()
            if (values := _edited(tensors[name], blob)) is not None
        ]
        for tensor, values in edits:
            new = _tensor(torch, values)
            if new.shape == tensor.shape:
                tensor.data.copy_(new)
            else:
                tensor.data = new
        with path.open("wb") as file:
            torch.save(loaded, file)

    def write(path: Path) -> None:
        state = OrderedDict()
        for name, blob in weights.tensors.items():  # torch needs all of them at once
            state[name] = _tensor(torch, blob_values(blob))
            on_progress.get()(blob.nbytes)
        # Given a path, torch would store its name in the file, but the name is temporary.
        with path.open("wb") as file:
            torch.save(state, file)

    return write if source is None else partial(edit, source)


def _edited(tensor: Tensor, blob: Blob) -> NDArray[np.generic] | None:
    """Return the values of a Blob if they differ from those of a tensor, bit for bit."""
    before, values = _values(tensor), np.ascontiguousarray(blob_values(blob))
    if before.dtype != values.dtype:
        raise ValueError(f"expected {before.dtype}, as in the file, got a Blob of {values.dtype}")
    same = before.shape == values.shape and before.tobytes() == values.tobytes()
    return None if same else values.reshape(blob.shape)


def _tensor(torch: ModuleType, values: NDArray[np.generic]) -> Any:
    dense = np.asarray(values, order="C")
    narrow = is_bfloat16(dense.dtype)
    with warnings.catch_warnings():
        # The tensor is only read.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        tensor = torch.from_numpy(dense.view(np.int16) if narrow else dense)
    return tensor.view(torch.bfloat16) if narrow else tensor
