"""Opening and writing Caffe's files.

Opening a file maps it and walks over its fields: names and shapes are read, weights are not. Every
Blob carries a source that knows where its values lie, and is filled by its first access. Writing
takes what is unchanged from the file that was opened, and never has two copies of a blob in memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from syncblob.blob import Blob
from syncblob.caffe._atomic import replacing
from syncblob.caffe._blob_index import index_blob, require_few
from syncblob.caffe._definition import LayerRecord
from syncblob.caffe._extensions import HDF5_EXTENSIONS, require_blob_path, require_model_path
from syncblob.caffe._fields import ROW_OF_BLOBS
from syncblob.caffe._layer import Layer
from syncblob.caffe._lazy import lazy_blob
from syncblob.caffe._lookalikes import EMPTY, is_hdf5, refuse_other_formats, refuse_other_messages
from syncblob.caffe._mapped_file import MappedFile
from syncblob.caffe._model_index import index_model
from syncblob.caffe._pieces import buffers, size_of
from syncblob.caffe._wire import WireReader
from syncblob.caffe._write_blob import blob_pieces
from syncblob.caffe._write_model import model_pieces
from syncblob.caffe.model import ModelFile

if TYPE_CHECKING:
    from syncblob.caffe._pieces import Piece

__all__ = ["open_model", "read_blob", "read_blobs", "save_model", "write_blob"]

# A name of no characters, without which the file of an empty net would be empty.
_NO_NAME = b"\x0a\x00"


def open_model(path: str | os.PathLike[str]) -> ModelFile:
    """Open a ``.caffemodel`` file of any format of layers (V2, V1, V0), or a ``.caffemodel.h5``.

    Which of them it is, is seen from its contents. Layers of the older formats appear as Caffe
    upgrades them; HDF5 files have names and blobs only, and their layers come ordered by name.

    The file is mapped and indexed. The values of a Blob are not read until it is touched: until
    then its head is UNINITIALIZED. The blobs have the precision that the file has: float32 mostly,
    float64 or, from NVCaffe, float16; a gradient in the file is in ``blob.diff``.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ModelFileError
        If it is not such a file, is empty, is damaged, or has layers of V1 and V2 at once.
    ModuleNotFoundError
        If it is HDF5 and h5py is not installed (``pip install 'syncblob[hdf5]'``).
    OSError
        If it cannot be opened.
    """
    file = MappedFile(path)
    reader = WireReader(file.array(), path=file.path)
    if is_hdf5(reader):
        from syncblob.caffe._read_hdf5 import HDF5Source, read_layers  # needs h5py

        found = read_layers(file)
        source = HDF5Source(file, tuple(found))
        made = [Layer(layer.name, blobs=layer.blobs) for layer in found]
        return ModelFile._opened(source, name="", version=2, layers=made)
    if len(reader.buffer) == 0:
        raise reader.error(EMPTY, 0)
    refuse_other_formats(reader)
    model = index_model(reader)
    layers = [
        Layer._of_file(
            LayerRecord(file, layer, len(model.layers) - 1 - position),
            [lazy_blob(file, blob) for blob in layer.blobs],
        )
        for position, layer in enumerate(model.layers)
    ]
    return ModelFile._opened(file, name=model.name, version=model.version, layers=layers)


def save_model(
    model: ModelFile,
    path: str | os.PathLike[str],
    *,
    write_diff: bool | None = None,
    upgrade: bool = False,
) -> None:
    """Write a model to a file, which is replaced as a whole or not at all.

    Layers and blobs that are as they were in the file that was opened are copied as they are, with
    fields that syncblob does not know: saving an unchanged model gives the same bytes. Everything
    is checked before the first byte is written, values are written piece by piece, and `path` may
    be the file that was opened.

    Parameters
    ----------
    model
        The model. Blobs whose newest values are on an accelerator are read on the host.
    path
        The file. With the extension ``.h5`` or ``.hdf5`` it becomes Caffe's HDF5 format, for which
        h5py is needed (``pip install 'syncblob[hdf5]'``); with any other, or none, a
        ``.caffemodel``, but extensions of other formats are refused.
        HDF5 has no room for anything but the names of layers and their blobs.
    write_diff
        Whether to write the gradients too; None writes those that were in the file.
    upgrade
        Whether layers of an older format are written in the current one. They are anyway if the
        older format cannot hold what has changed: an added layer, other settings, a type that is
        newer than the format, or in V0 anything.

    Raises
    ------
    TypeError
        If a blob is neither float32, float64, float16 nor bfloat16; the latter two are widened. If
        `model` is no ModelFile.
    ValueError
        If a Blob of the model was resized, or the ``proto`` of a layer got another name or blobs.
        If the format cannot hold the model: 2 GiB in a ``.caffemodel``; in HDF5 two layers of one
        name, or a name that is empty, ``.``, or has a ``/``. If the extension is that of a format
        that `save_model` does not write, as ``.npz``; ``syncblob.convert`` does.
    OSError
        If the file cannot be written.
    """
    if not isinstance(model, ModelFile):
        raise TypeError(
            f"expected a ModelFile, got {type(model).__name__}; write_blob(blob, path) writes one "
            f"blob, save_model(model, path) a model"
        )
    require_model_path(path)
    for layer in model.layers:
        layer._require_savable()
    if os.fspath(path).lower().endswith(HDF5_EXTENSIONS):
        from syncblob.caffe._write_hdf5 import write_hdf5  # needs h5py

        write_hdf5(model, path, write_diff=write_diff)
    else:
        pieces = model_pieces(model, write_diff=write_diff, upgrade=upgrade)
        _write(path, pieces if size_of(pieces) else [_NO_NAME])


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
        raise reader.error(EMPTY, 0)
    refuse_other_formats(reader)
    refuse_other_messages(reader, reader.kinds(), "blob")
    return lazy_blob(file, index_blob(reader, 0, size))


def read_blobs(path: str | os.PathLike[str]) -> tuple[Blob, ...]:
    """Open a file with a BlobProtoVector: a row of arrays.

    As with `read_blob`, values are not read until a Blob is touched.

    Parameters
    ----------
    path
        The file. An empty file is an empty row.

    Raises
    ------
    ModelFileError
        If it is not such a file, or is damaged.
    OSError
        If it cannot be opened.
    """
    file = MappedFile(path)
    reader = WireReader(file.array(), path=file.path)
    refuse_other_formats(reader)
    refuse_other_messages(reader, reader.kinds(), "blobs")
    blobs = [
        field
        for field in reader.fields(0, len(reader.buffer))
        if (field.number, field.wire_type) == ROW_OF_BLOBS
    ]
    require_few(reader, len(blobs))
    indexes = [index_blob(reader, blob.start, blob.stop, depth=1) for blob in blobs]
    return tuple(lazy_blob(file, index) for index in indexes)


def write_blob(blob: Any, path: str | os.PathLike[str], *, write_diff: bool | None = None) -> None:
    """Write a Blob to a ``.binaryproto`` file, which is replaced as a whole or not at all.

    A Blob that is as it was in the file that it was read from gives the same bytes. Caffe expects
    the mean of a data set in shape (1, channels, height, width).

    Parameters
    ----------
    blob
        The Blob, or an array of any library. A Blob whose newest values are on an accelerator is
        read on the host.
    path
        The file, as a rule with the extension ``.binaryproto``; those of other formats are refused.
    write_diff
        Whether to write the gradient too; None writes it if it was in the file.

    Raises
    ------
    TypeError
        If it is neither float32, float64, float16 nor bfloat16. The latter two are widened. If it
        is no array, but a model, a layer or a path.
    ValueError
        If the extension is that of another format, if the message would have 2 GiB or more, or if
        there are more than 32 axes.
    OSError
        If the file cannot be written.
    """
    _require_array(blob)
    require_blob_path(path)
    _write(path, blob_pieces(Blob.asarray(blob), write_diff=write_diff))


def _require_array(blob: Any) -> None:
    for kind, advice in (
        (ModelFile, "save_model writes a model"),
        (Layer, "write one of its layer.blobs"),
        ((str, os.PathLike), "the Blob comes first, then the path: write_blob(blob, path)"),
    ):
        if isinstance(blob, kind):
            raise TypeError(f"expected a Blob or an array, got {type(blob).__name__}; {advice}")


def _write(path: str | os.PathLike[str], pieces: list[Piece]) -> None:
    with replacing(path) as temporary, temporary.open("r+b") as file:
        for buffer in buffers(pieces):
            file.write(buffer)
