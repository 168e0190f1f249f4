"""The common representation of all formats: layers whose blobs have names."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from syncblob.caffe import Layer, NetParameter, squeezed_blobs
from syncblob.caffe.convert.naming import group_names
from syncblob.errors import ModelFileError
from syncblob.formats import NAMES, Blob, as_dtype

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    Read = Callable[[], NDArray[np.generic]]

Entry = Blob | ModelFileError
"""A tensor, or the error of one that a Blob cannot hold."""

ALL_DTYPES = frozenset((*NAMES, "bfloat16"))
# The name of a tensor from a format without names.
_MEAN = "mean"


class Tensors(UserDict[str, Any]):
    """Tensors by name, of which a Blob cannot hold some: accessing one of these raises its error.

    So the others can be read, and a loop over all of them does not miss any in silence.
    """

    def __getitem__(self, name: str) -> Blob:
        """Return a tensor."""
        entry: Entry = self.data[name]
        if isinstance(entry, ModelFileError):
            raise ModelFileError(entry.message, path=entry.path)
        return entry


def _entries(tensors: Mapping[str, Blob]) -> Mapping[str, Entry]:
    return tensors.data if isinstance(tensors, Tensors) else tensors


class LayerWeights(NamedTuple):
    """A layer and the names of its blobs.

    Attributes
    ----------
    layer
        The layer, with the readable tensors as its blobs. Its type is ``""``, and it has no
        settings, if the file does not contain them.
    tensors
        The tensors by name, such as ``"conv1.weight"``, in the order of Caffe's blobs. Accessing
        one that a Blob cannot hold, such as one of float8, raises ModelFileError.
    """

    layer: Layer
    tensors: Mapping[str, Blob]

    @classmethod
    def of(cls, layer: Layer, entries: Mapping[str, Entry]) -> Self:
        """Make a layer of tensors; `layer` has its name, type and settings, and no blobs."""
        layer.blobs.assign(entry for entry in entries.values() if isinstance(entry, Blob))
        return cls(layer, Tensors(entries))

    def with_blobs(self, blobs: Iterable[Blob]) -> Self:
        """Return the layer with other Blobs of the same names."""
        layer, blobs = copy.copy(self.layer), list(blobs)
        for number, blob in enumerate(blobs):
            layer.replace_blob(number, blob, resize=True)
        return type(self)(layer, Tensors(zip(self.tensors, blobs, strict=True)))

    @property
    def unreadable(self) -> dict[str, str]:
        """The names of the tensors that a Blob cannot hold, and why."""
        entries = _entries(self.tensors).items()
        return {name: each.message for name, each in entries if isinstance(each, ModelFileError)}


class Weights(AbstractContextManager["Weights"]):
    """The tensors of an open file, by name and by layer. Made by `open_weights`.

    The tensors are Blobs whose values are read on first access. As a context manager, it closes the
    file. Blobs that have not been accessed by then cannot be read.

    Parameters
    ----------
    path
        The file.
    kind
        Its format, such as ``"safetensors"``.
    layers
        The layers, in the order of the file.
    close
        The function that closes the file.
    name
        The name of the net; ``""`` if the file does not contain it.
    settings
        The settings of the net, a message without name and layers.
    others
        What else the file has that is not converted, in words, such as ``"the link 'a'"``.
    """

    __slots__ = ("_close", "kind", "layers", "name", "others", "path", "settings")

    path: str
    kind: str
    layers: tuple[LayerWeights, ...]
    name: str
    settings: NetParameter
    others: tuple[str, ...]

    def __init__(  # noqa: PLR0913  # what a file contains
        self,
        path: str,
        kind: str,
        layers: Iterable[LayerWeights],
        close: Callable[[], object] = lambda: None,
        *,
        name: str = "",
        settings: NetParameter | None = None,
        others: Iterable[str] = (),
    ) -> None:
        self.path = path
        self.kind = kind
        self.layers = tuple(layers)
        self._close = close
        self.name = name
        self.settings = NetParameter() if settings is None else settings
        self.others = tuple(others)

    @classmethod
    def of_one(cls, path: str, kind: str, blob: Blob) -> Self:
        """Make weights from a single Blob without a name, usually the mean of a data set."""
        return cls(path, kind, [LayerWeights.of(Layer(_MEAN), {_MEAN: blob})])

    @classmethod
    def of_names(
        cls,
        path: str,
        kind: str,
        entries: Mapping[str, Entry],
        close: Callable[[], object] = lambda: None,
        *,
        others: Iterable[str] = (),
    ) -> Self:
        """Group the tensors of a file into layers by their names.

        Raises
        ------
        ModelFileError
            If a Blob can hold none of the tensors.
        """
        require_readable(entries)
        layers = (
            LayerWeights.of(Layer(name, kind), {key: entries[key] for key in names})
            for name, kind, names in group_names(entries)
        )
        return cls(path, kind, layers, close, others=others)

    @property
    def tensors(self) -> Mapping[str, Blob]:
        """All tensors by name, layer by layer.

        Accessing one that a Blob cannot hold, such as one of float8, raises ModelFileError.
        """
        return Tensors(each for layer in self.layers for each in _entries(layer.tensors).items())

    @property
    def unreadable(self) -> dict[str, str]:
        """The names of the tensors that a Blob cannot hold, and why."""
        return {name: why for layer in self.layers for name, why in layer.unreadable.items()}

    @property
    def nbytes(self) -> int:
        """The size of all values, in bytes."""
        return sum(blob.nbytes for blob in self.tensors.values())

    def only(self) -> Blob:
        """Return the only tensor.

        Raises
        ------
        ValueError
            If there is not exactly one.
        """
        blobs = list(self.tensors.values())
        if len(blobs) != 1:
            raise ValueError(
                f"{self.kind} holds one array, got {len(blobs)}; choose a layer with one blob with "
                f"--layers (layers=), or write a format of several, such as .npz"
            )
        return blobs[0]

    def close(self) -> None:
        """Close the file. Blobs that have been accessed keep their values."""
        self._close()

    def __exit__(self, *_exception: object) -> None:
        """Close the file."""
        self.close()

    def __repr__(self) -> str:
        """Return the path, the format and the sizes."""
        values = sum(blob.size for layer in self.layers for blob in layer.layer.blobs)
        return (
            f"<Weights {self.path!r}, {self.kind}: {len(self.layers)} layers, "
            f"{len(self.tensors)} tensors, {values} values>"
        )


def squeezed(layers: Iterable[LayerWeights]) -> list[LayerWeights]:
    """Return layers without the axes of the older formats that their types do not have."""
    return [each.with_blobs(squeezed_blobs(each.layer)) for each in layers]


def require_readable(entries: Mapping[str, Entry]) -> None:
    """Raise the first error if a Blob can hold none of the tensors."""
    errors = [entry for entry in entries.values() if isinstance(entry, ModelFileError)]
    if errors and len(errors) == len(entries):
        raise errors[0]


# --- Blobs whose values are read from a file on first access --------------------------------------


def lazy_entry(  # what is known of it
    shape: Iterable[int],
    dtype: DTypeLike,
    read: Read,
    *,
    name: str,
    path: str,
) -> Entry:
    """Make a Blob filled on first access by a function that returns an array of this shape.

    A dtype in the other byte order is converted.

    Returns
    -------
    Blob or ModelFileError
        The error if Blobs do not support the shape or the dtype.

    Raises
    ------
    ModuleNotFoundError
        If the dtype is bfloat16, and ml_dtypes is not installed.
    """
    try:
        native = as_dtype(dtype.newbyteorder("=") if isinstance(dtype, np.dtype) else dtype)
    except TypeError:
        return ModelFileError(
            f"tensor {name!r} has dtype {dtype}, which a Blob cannot hold; convert it to float32, "
            f"for example, with the library that wrote the file",
            path=path,
        )
    try:
        return lazy_blob(tuple(shape), native, read)
    except (TypeError, ValueError) as error:
        return ModelFileError(f"tensor {name!r}: {error}", path=path)


def lazy_blob(shape: tuple[int, ...], dtype: np.dtype[np.generic], read: Read) -> Blob:
    """Make a Blob filled on first access by a function that returns an array of this shape."""

    def read_bytes() -> NDArray[np.uint8]:
        return np.ascontiguousarray(read(), dtype).reshape(-1).view(np.uint8)

    return Blob.from_source(shape, dtype, read_bytes)
