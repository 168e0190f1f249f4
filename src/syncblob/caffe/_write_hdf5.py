"""Caffe's HDF5 format: a group ``data`` with one group for each layer, its blobs named by number.

h5py lays the file out. The values are then written into their places piece by piece, because HDF5
itself would want each array, converted, in memory as a whole.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from syncblob._optional import import_optional
from syncblob.caffe._atomic import replacing
from syncblob.caffe._origins import unchanged
from syncblob.caffe._pieces import BlobValues, FileRange, buffers
from syncblob.caffe._read_hdf5 import HDF5Source
from syncblob.caffe._write_blob import had_diff, require_axes, wire_dtype

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from syncblob.blob import Blob
    from syncblob.caffe.model import ModelFile

__all__ = ["plan_datasets", "write_hdf5"]

_MAX_COUNT = 2**31 - 1
"""Elements that Caffe's Blob can have."""


class _Dataset(NamedTuple):
    root: bytes
    layer: bytes
    number: int
    values: BlobValues


def write_hdf5(model: ModelFile, path: str | os.PathLike[str], *, write_diff: bool | None) -> None:
    """Write a model as ``.caffemodel.h5``, which is replaced as a whole or not at all.

    Types, settings, bottoms and tops of the layers are not part of this format.

    Parameters
    ----------
    model
        The model.
    path
        The file.
    write_diff
        Whether to write the gradients too; None to write those that were in the file.

    Raises
    ------
    TypeError, ValueError
        If the format cannot hold the model. Nothing has been read or written then.
    ModuleNotFoundError
        If h5py is not installed.
    """
    source = model._source
    if isinstance(source, HDF5Source) and _is_unchanged(model, source, write_diff=write_diff):
        # As it is, with the attributes and times that a new file would not have.
        with replacing(path) as temporary, temporary.open("r+b") as file:
            for buffer in buffers([FileRange(source.file, 0, source.file.identity[2])]):
                file.write(buffer)
        return
    h5py = import_optional("h5py", "hdf5")
    datasets = plan_datasets(model, write_diff=write_diff)
    with replacing(path) as temporary:
        offsets = _lay_out(h5py, temporary, model, datasets)
        with temporary.open("r+b") as file:
            for dataset, offset in zip(datasets, offsets, strict=True):
                file.seek(offset)
                for buffer in buffers([dataset.values]):
                    file.write(buffer)


def plan_datasets(model: ModelFile, *, write_diff: bool | None) -> list[_Dataset]:
    """Return what `write_hdf5` will write, or raise what it will raise. Reads no values."""
    _require_names(model)
    return list(_datasets(model, write_diff=write_diff))


def _is_unchanged(model: ModelFile, source: HDF5Source, *, write_diff: bool | None) -> bool:
    """Tell whether a model is what its file has."""
    if [layer.name for layer in model.layers] != [layer.name for layer in source.layers]:
        return False
    for layer, there in zip(model.layers, source.layers, strict=True):
        for blob, original in itertools.zip_longest(layer.blobs, there.blobs):
            if blob is not original or unchanged(blob, write_diff=write_diff) is None:
                return False
    return True


def _datasets(model: ModelFile, *, write_diff: bool | None) -> Iterator[_Dataset]:
    for layer in model.layers:
        name = _encoded(layer.name)
        for number, blob in enumerate(layer.blobs):
            place = f"layer {layer.name!r}, blob {number}"
            try:
                dtype = wire_dtype(blob.dtype)
            except TypeError as error:
                raise TypeError(f"{place}: {error}") from error
            _require_caffe_can_read(blob, place)
            yield _Dataset(b"data", name, number, BlobValues(blob, dtype))
            if write_diff or (write_diff is None and had_diff(blob)):
                yield _Dataset(b"diff", name, number, BlobValues(blob, dtype, diff=True))


def _require_names(model: ModelFile) -> None:
    """Refuse names that two groups cannot have, or that Caffe would not find again."""
    seen = set()
    for layer in model.layers:
        name = layer.name
        if name in ("", ".") or "/" in name or "\0" in name:
            raise ValueError(
                f"Caffe's HDF5 format cannot hold a layer of the name {name!r}: expected a name "
                f"without '/', neither empty nor '.'; rename it (model.rename), or write a "
                f".caffemodel"
            )
        if name in seen:
            raise ValueError(
                f"Caffe's HDF5 format cannot hold two layers of the name {name!r}; remove or "
                f"rename one, or write a .caffemodel"
            )
        seen.add(name)


def _require_caffe_can_read(blob: Blob, place: str) -> None:
    try:
        require_axes(blob)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    if blob.size > _MAX_COUNT:
        raise ValueError(
            f"{place}: Caffe's blobs have at most {_MAX_COUNT} elements, got shape {blob.shape}"
        )


def _lay_out(h5py: ModuleType, path: Path, model: ModelFile, datasets: list[_Dataset]) -> list[int]:
    """Create all groups and datasets, without values, and return where the values belong."""
    as_caffe = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    as_caffe.set_layout(h5py.h5d.CONTIGUOUS)
    as_caffe.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    as_caffe.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    # The same model gives the same bytes.
    as_caffe.set_obj_track_times(False)  # h5py takes it by position
    types = {4: h5py.h5t.IEEE_F32LE, 8: h5py.h5t.IEEE_F64LE}
    offsets: list[int] = []
    with h5py.File(path, "w") as file:
        for root in (b"data", b"diff"):
            if root == b"data" or any(dataset.root == root for dataset in datasets):
                group = file.create_group(root)
                for layer in model.layers:
                    group.create_group(_encoded(layer.name))
        for dataset in datasets:
            place = h5py.h5d.create(
                file.id,
                b"/".join((dataset.root, dataset.layer, str(dataset.number).encode())),
                types[dataset.values.dtype.itemsize],
                h5py.h5s.create_simple(dataset.values.blob.shape),
                as_caffe,
            )
            # One without elements has no place.
            offsets.append(place.get_offset() or 0)
    return offsets


def _encoded(name: str) -> bytes:
    return name.encode(errors="surrogateescape")
