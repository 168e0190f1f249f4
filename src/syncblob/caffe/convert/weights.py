"""The common representation of all formats: layers whose blobs have names.

A tensor is ``<layer>.<part>``. The parts of a layer with at most two blobs are ``weight`` and
``bias``; those of a BatchNorm layer are ``mean``, ``variance`` and ``scale_factor``, and that of a
Bias layer is ``bias``. In any other layer they are numbers, from ``0`` on. If several layers with
blobs have the same name, the second one is named ``<layer>#2``, and so on.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from syncblob.caffe import Layer, NetParameter, squeezed_blobs
from syncblob.caffe.messages.fields import Array, DType, Shape
from syncblob.caffe.messages.lazy_blobs import lazy_blob
from syncblob.caffe.messages.open_file import FileReference, OpenFile
from syncblob.caffe.messages.read_blobproto import BlobIndex
from syncblob.caffe.messages.values import Runs, Values
from syncblob.errors import ModelFileError
from syncblob.formats import Blob, as_dtype, as_shape

Read = Callable[[], Array]
# A tensor, or the shape and the dtype of one and its values: their offset in the file, if they are
# in C's order, or where else they are, or a function that returns an array of this shape.
Entry = Blob | tuple[Iterable[int], DTypeLike, int | Values | Read]


class LayerWeights(NamedTuple):
    """A layer and the names of its blobs.

    Attributes
    ----------
    layer
        The layer, with the tensors as its blobs. Without type and settings if the file has none.
    names
        The names of the tensors, such as ``"conv1.weight"``, in the order of Caffe's blobs.
    """

    layer: Layer
    names: tuple[str, ...]

    @property
    def tensors(self) -> Mapping[str, Blob]:
        """The tensors by name."""
        found, expected = len(self.layer.blobs), len(self.names)
        if found != expected:
            raise ValueError(
                f"expected {expected} blobs in layer {self.layer.name!r}, named "
                f"{', '.join(self.names)}, got {found}"
            )
        return MappingProxyType(dict(zip(self.names, self.layer.blobs, strict=True)))

    @classmethod
    def of(cls, layer: Layer, tensors: Mapping[str, Blob]) -> Self:
        """Make a layer of tensors; `layer` has its name, type and settings, and no blobs."""
        layer.blobs.assign(tensors.values())
        return cls(layer, tuple(tensors))

    def with_blobs(self, blobs: Iterable[Blob]) -> Self:
        """Return the layer with other Blobs of the same names; itself if they are the same."""
        blobs = list(blobs)
        if all(map(operator.is_, blobs, self.layer.blobs)):
            return self
        layer = copy.copy(self.layer)
        for number, blob in enumerate(blobs):
            layer.replace_blob(number, blob, resize=True)
        return type(self)(layer, self.names)


@dataclass(eq=False, repr=False)
class Weights(AbstractContextManager["Weights"]):
    """The tensors of an open file, by name and by layer. Made by `open_weights`.

    The tensors are Blobs whose values are read on first access. As a context manager, it closes the
    file. Blobs that have not been accessed by then cannot be read. Write into the Blobs, or replace
    those in ``layer.blobs``, to edit the weights; `save_weights` writes the result.

    Attributes
    ----------
    path, kind
        The file and its format, such as ``"safetensors"``.
    layers
        The layers, in the order of the file.
    name
        The name of the net; ``""`` if the file does not contain it.
    settings
        The settings of the net, a message without name and layers.
    others
        What else the file has that is not converted, in words, such as ``"the link 'a'"``.
    metadata
        The metadata of a ``.safetensors`` file, which `save_weights` writes again.
    file
        Where the weights come from, for `save_weights`; None if that does not matter.
    """

    path: str
    kind: str
    layers: tuple[LayerWeights, ...]
    name: str = ""
    settings: NetParameter = field(default_factory=NetParameter)
    others: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    file: FileReference | None = None
    _held: OpenFile | None = field(default=None, init=False)

    @classmethod
    def of_entries(
        cls,
        path: str,
        kind: str,
        entries: Mapping[str, Entry],
        file: OpenFile | None = None,
        *,
        layers: Iterable[tuple[Layer, Iterable[str]]] | None = None,
        **facts: Any,
    ) -> Self:
        """Make weights of the tensors of a file, or of none, by name.

        `layers` have no blobs, and are given with the names of their tensors; by default, the names
        tell.
        """
        if layers is None:
            layers = [(Layer(name, type_), names) for name, type_, names in group_names(entries)]
        found = tuple(
            LayerWeights.of(
                layer, {name: _tensor(name, entries[name], path, file) for name in names}
            )
            for layer, names in layers
        )
        return cls(path, kind, found, file=None if file is None else file.reference, **facts)

    @property
    def tensors(self) -> Mapping[str, Blob]:
        """All tensors by name, layer by layer."""
        return MappingProxyType(
            {name: blob for each in self.layers for name, blob in each.tensors.items()}
        )

    @property
    def nbytes(self) -> int:
        """The size of all values, in bytes."""
        return sum(blob.nbytes for blob in self.tensors.values())

    def require_utf8(self) -> None:
        """Raise ValueError if the name of a tensor is not UTF-8, for formats that need it."""
        for each in self.layers:
            try:
                "".join(each.tensors).encode()
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"layer {each.layer.name!r}: expected a name in UTF-8, which {self.kind} "
                    f"needs; rename it (model.rename), or write .caffemodel, .h5 or .pt"
                ) from error

    def source_file(self) -> OpenFile | None:
        """Return the file whose other contents are written again; None if there is none."""
        file = None if self.file is None else self.file()
        if self.file is not None and file is None:
            raise ModelFileError(
                "the file was closed or has changed since it was opened; open it again",
                path=self.file.path,
            )
        return file

    def hold_file(self) -> None:
        """Keep the file open until `close`: saving may replace it, and be repeated."""
        self._held = None if self.file is None else self.file()

    def close(self) -> None:
        """Close the file. Blobs that have been accessed keep their values."""
        if self.file is not None:
            self.file.close()
        self._held = None

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        values = sum(blob.size for layer in self.layers for blob in layer.layer.blobs)
        return (
            f"<Weights {self.path!r}, {self.kind}: {len(self.layers)} layers, "
            f"{len(self.tensors)} tensors, {values} values>"
        )


def for_others(layers: Iterable[LayerWeights]) -> list[LayerWeights]:
    """Return layers for other libraries: squeezed, and inner products as (outputs, inputs)."""
    found = squeeze(layers)
    for at, each in enumerate(found):
        if has_transpose(each.layer):
            weight, *others = each.tensors.values()
            found[at] = each.with_blobs([weight.swapaxes(-1, -2), *others])
            found[at].layer.proto.inner_product_param.ClearField("transpose")
    return found


def has_transpose(layer: Layer) -> bool:
    """Return whether it is an inner product whose weights are (inputs, outputs)."""
    has_matrix = any(blob.ndim > 1 for blob in layer.blobs[:1])
    return has_matrix and layer.type == "InnerProduct" and layer.proto.inner_product_param.transpose


def squeeze(layers: Iterable[LayerWeights]) -> list[LayerWeights]:
    """Return layers without the axes of the older formats that their types do not have."""
    return [each.with_blobs(squeezed_blobs(each.layer)) for each in layers]


# --- Blobs whose values are read from a file on first access --------------------------------------


def _tensor(name: str, entry: Entry, path: str, file: Any) -> Blob:
    if not isinstance(entry, tuple):
        return entry
    dims, dtype, values = entry
    try:
        native = as_dtype(dtype.newbyteorder("=") if isinstance(dtype, np.dtype) else dtype)
    except TypeError as error:
        raise ModelFileError(
            f"tensor {name!r} has dtype {dtype}, which a Blob cannot hold; write it as float32, "
            f"for example, with the library that wrote the file",
            path=path,
        ) from error
    try:
        shape = as_shape(dims, native.itemsize)
        if isinstance(values, int):
            values = Runs.in_order(native, values, math.prod(shape))
        if not isinstance(values, Values):
            return blob_from(values, shape, native)
        index = BlobIndex(shape, legacy=False, data=values, diff=None, of_caffe=False)
        return lazy_blob(file, index)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"tensor {name!r}: {error}", path=path) from error


def blob_from(read: Read, shape: Shape, dtype: DType) -> Blob:
    """Make a Blob filled on first access by a function that returns an array of this shape."""

    def read_bytes() -> NDArray[np.uint8]:
        return np.ascontiguousarray(read(), dtype).reshape(-1).view(np.uint8)

    return Blob.from_source(shape, dtype, read_bytes)


# --- names of tensors -----------------------------------------------------------------------------

_BATCH_NORM = "BatchNorm"
_PARTS = {_BATCH_NORM: ("mean", "variance", "scale_factor"), "Bias": ("bias",)}
_USUAL_PARTS = ("weight", "bias")

_MOST_DIGITS = 7

# The order of parts in a layer. A name without a dot is the only tensor of its layer.
_ORDER = {part: place for place, part in enumerate(("", *_USUAL_PARTS, *_PARTS[_BATCH_NORM]))}


def name_tensors(layers: Iterable[tuple[str, str, int]]) -> list[list[str]]:
    """Return tensor names for layers, given the name, type and number of blobs of each."""
    found: list[list[str]] = []
    taken: set[str] = set()
    # For each layer name and its parts, the number to try first: all smaller ones are taken.
    numbers: dict[tuple[str, Sequence[str]], int] = {}
    for layer, kind, count in layers:
        parts = _PARTS.get(kind, _USUAL_PARTS)
        parts = parts[:count] if count <= len(parts) else tuple(map(str, range(count)))
        number = numbers.get((layer, parts), 1)
        while not taken.isdisjoint(
            names := [f"{name_with_number(layer, number)}.{part}" for part in parts]
        ):
            number += 1
        numbers[layer, parts] = number
        taken.update(names)
        found.append(names)
    return found


def name_with_number(name: str, number: int) -> str:
    """Return the name of the first, the second, … of several layers of one name."""
    return name if number == 1 else f"{name}#{number}"


def group_names(names: Iterable[str]) -> list[tuple[str, str, list[str]]]:
    """Group tensors into layers by their names."""
    groups: dict[str, list[str]] = {}
    for name in names:
        layer, dot, _ = name.rpartition(".")
        groups.setdefault(layer if dot else name, []).append(name)
    found = []
    for layer, members in groups.items():
        parts = {name: name[len(layer) + 1 :] for name in members}
        places = {name: _place(part) for name, part in parts.items()}
        kind = _BATCH_NORM if set(parts.values()) == set(_PARTS[_BATCH_NORM]) else ""
        found.append((layer, kind, sorted(members, key=places.__getitem__)))
    return found


def _place(part: str) -> tuple[int, int]:
    """Return the sort key of a part; unknown parts come last, in their own order."""
    if part in _ORDER:
        return 0, _ORDER[part]
    # int() also accepts other digits, and raises for very long numbers.
    if part.isascii() and part.isdigit() and len(part) <= _MOST_DIGITS:
        return 1, int(part)
    return 2, 0
