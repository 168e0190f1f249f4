"""HDF5 in another layout than Caffe's: a dataset for each tensor, whose name may have ``/``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from syncblob.caffe import blob_values
from syncblob.caffe.convert import caffe_models
from syncblob.caffe.convert.weights import Weights, lazy_entry
from syncblob.caffe.files.hdf5 import read_tree
from syncblob.caffe.messages.disk import OpenFile
from syncblob.caffe.messages.fields import MOST_AXES
from syncblob.errors import ModelFileError
from syncblob.formats import import_optional

if TYPE_CHECKING:
    from pathlib import Path


def read(path: str) -> Weights:
    """Open a file, also in Caffe's layout. Reads its tree, but no values."""
    file = OpenFile(path)
    tree = read_tree(file)
    if tree is None:
        return caffe_models.read(path, "caffemodel.h5")
    datasets, links = tree
    entries = {
        name: dataset
        if isinstance(dataset, ModelFileError)
        else lazy_entry(*dataset, name=name, path=path)
        for name, dataset in datasets.items()
    }
    others = [f"the link {name!r}" for name in links]
    return Weights.of_names(path, "hdf5", entries, file.close, others=others)


def plan(weights: Weights) -> Callable[[Path], None]:
    """Plan a file. Raises ValueError if a tensor's name or shape is not valid for a dataset."""
    h5py = import_optional("h5py", "hdf5")
    groups = {
        "/".join(parts[:depth])
        for parts in (name.split("/") for name in weights.tensors)
        for depth in range(1, len(parts))
    }
    for name, blob in weights.tensors.items():
        if name in groups:
            raise ValueError(
                f"expected other names of tensors than {name!r}, which is that of a group; rename "
                f"the tensor"
            )
        if "\0" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise ValueError(
                f"HDF5 makes groups of names with '/', and cannot hold a tensor {name!r}"
            )
        if blob.ndim > MOST_AXES:
            raise ValueError(
                f"HDF5 holds at most {MOST_AXES} axes, and tensor {name!r} has shape {blob.shape}"
            )

    def write(path: Path) -> None:
        with h5py.File(path, "w") as file:
            for name, blob in weights.tensors.items():
                file.create_dataset(name, data=blob_values(blob))

    return write
