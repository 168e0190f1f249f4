"""Model files and mean files as Blobs whose values stay in the file until they are touched.

Opening a file maps it and walks over its fields: names and shapes are read, weights are not. Every
Blob carries a source that knows where its values lie, and is filled by its first access.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from syncblob.blob import Blob
from syncblob.caffe._blob_index import index_blob
from syncblob.caffe._lookalikes import holds_model, refuse_other_formats
from syncblob.caffe._mapped_file import MappedFile
from syncblob.caffe._model_index import index_model
from syncblob.caffe._wire import WireReader

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from typing import Self

    from numpy.typing import NDArray

    from syncblob.caffe._blob_index import BlobIndex, Values

__all__ = ["Layer", "ModelFile", "open_model", "read_blob"]


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One layer of a net, as its file describes it.

    Parameters
    ----------
    name
        The name; ``""`` where the file has none.
    type
        The type, as ``"Convolution"``. V1 files number the types; the numbers are translated, and
        a number that Caffe does not know gives ``""``.
    bottoms, tops
        Names of the inputs and the outputs.
    blobs
        The weights: for a convolution the kernels, then the bias.
    """

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    blobs: tuple[Blob, ...]

    def __repr__(self) -> str:
        """Show name, type and the shapes of the blobs."""
        shapes = ", ".join(str(blob.shape) for blob in self.blobs)
        return f"<Layer {self.name!r} {self.type or 'of no type'}, blobs: {shapes or 'none'}>"


class ModelFile(Mapping[str, Layer]):
    """The layers of an open ``.caffemodel`` file, by name. Made by `open_model`.

    Where several layers have one name, the mapping has the first, as Caffe does; `layers` has all
    of them. Names that are not UTF-8 are decoded with ``errors="surrogateescape"``, as file names
    are in Python, so that ``name.encode(errors="surrogateescape")`` gives the bytes back.

    The file stays mapped as long as the ModelFile, or a Blob that has not read its values yet,
    needs it. On Windows a mapped file cannot be replaced or deleted; `close` ends that earlier.

    Parameters
    ----------
    file
        The mapped file.
    name
        The name of the net.
    version
        2 for the current format of layers, 1 for the one before.
    layers
        The layers in file order.
    """

    __slots__ = ("_by_name", "_file", "layers", "name", "version")

    layers: tuple[Layer, ...]
    name: str
    version: int

    def __init__(
        self, file: MappedFile, *, name: str, version: int, layers: tuple[Layer, ...]
    ) -> None:
        self._file = file
        self.name = name
        self.version = version
        self.layers = layers
        self._by_name: dict[str, Layer] = {}
        for layer in layers:
            self._by_name.setdefault(layer.name, layer)

    @property
    def path(self) -> str:
        """The path that the file was opened by."""
        return self._file.path

    def close(self) -> None:
        """Unmap the file.

        Blobs that have read their values keep them. Touching one that has not raises ValueError.
        Closing twice does nothing.
        """
        self._file.close()

    def __enter__(self) -> Self:
        """Return the model; it is closed at the end of the ``with`` block."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the file."""
        self.close()

    def __getitem__(self, name: str) -> Layer:
        """Return the first layer of a name."""
        try:
            return self._by_name[name]
        except KeyError:
            raise KeyError(
                f"{self.path} has no layer {name!r}; list(model) gives the names"
            ) from None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in file order."""
        return iter(self._by_name)

    def __len__(self) -> int:
        """Return the number of different names."""
        return len(self._by_name)

    def __repr__(self) -> str:
        """Show the path, the name of the net and how much it holds."""
        blobs = [blob for layer in self.layers for blob in layer.blobs]
        return (
            f"<ModelFile {self.path!r}, net {self.name!r}, format V{self.version}: "
            f"{len(self.layers)} layers, {len(blobs)} blobs, "
            f"{sum(blob.size for blob in blobs)} values>"
        )


def open_model(path: str | os.PathLike[str]) -> ModelFile:
    """Open a ``.caffemodel`` file of the current (V2) or the previous (V1) format of layers.

    The file is mapped and indexed. The values of a Blob are not read until it is touched: until
    then its head is UNINITIALIZED. The blobs are float32, and float64 where the file has double
    precision; a gradient in the file is in ``blob.diff``.

    Parameters
    ----------
    path
        The file. An empty file is an empty net.

    Raises
    ------
    ModelFileError
        If it is not such a file, is damaged, or has layers of the first format (V0) or of both
        formats at once.
    OSError
        If it cannot be opened.
    """
    file = MappedFile(path)
    reader = WireReader(file.array(), path=file.path)
    refuse_other_formats(reader)
    model = index_model(reader)
    layers = tuple(
        Layer(
            layer.name,
            layer.type,
            layer.bottoms,
            layer.tops,
            tuple(_lazy_blob(file, blob) for blob in layer.blobs),
        )
        for layer in model.layers
    )
    return ModelFile(file, name=model.name, version=model.version, layers=layers)


def read_blob(path: str | os.PathLike[str]) -> Blob:
    """Open a ``.binaryproto`` file, which holds one array, such as the mean of a data set.

    The file is mapped; the values are not read until the Blob is touched. Its dtype is float32, and
    float64 where the file has double precision; a gradient in the file is in ``blob.diff``.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ModelFileError
        If it is not such a file, or is damaged.
    OSError
        If it cannot be opened.
    """
    file = MappedFile(path)
    reader = WireReader(file.array(), path=file.path)
    size = len(reader.buffer)
    if size == 0:
        raise reader.error("expected a .binaryproto file, got an empty file", 0)
    refuse_other_formats(reader)
    if holds_model({(field.number, field.wire_type) for field in reader.fields(0, size)}):
        raise reader.error("this is a whole model, not one blob; use open_model", 0)
    return _lazy_blob(file, index_blob(reader, 0, size))


def _lazy_blob(file: MappedFile, index: BlobIndex) -> Blob:
    return Blob.from_source(
        index.shape,
        index.dtype,
        partial(_read_bytes, file, index.data, index.dtype),
        diff_source=(
            None if index.diff is None else partial(_read_bytes, file, index.diff, index.dtype)
        ),
    )


def _read_bytes(file: MappedFile, values: Values, dtype: np.dtype[np.generic]) -> NDArray[np.uint8]:
    """Return the bytes of the values: a view of the file where they lie there as needed."""
    return values.read(file.array(), dtype).view(np.uint8)
