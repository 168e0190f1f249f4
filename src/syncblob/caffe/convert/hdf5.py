"""HDF5 in another layout than Caffe's: a dataset for each tensor, whose name may have ``/``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from syncblob.caffe import blob_values
from syncblob.caffe.convert import caffe_models
from syncblob.caffe.convert.weights import Weights
from syncblob.caffe.files.caffe_hdf5 import read_tree
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.string_fields import encoded, is_utf8
from syncblob.formats import import_optional

if TYPE_CHECKING:
    from pathlib import Path


def read(path: str) -> Weights:
    """Open a file, also in Caffe's layout. Reads its tree, but no values."""
    file = OpenFile(path)
    tree = read_tree(file)
    if tree is None:
        return caffe_models.read(path, "caffemodel.h5")
    datasets, others = tree
    return Weights.of_names(path, "hdf5", datasets, file.close, others=others)


def plan(weights: Weights) -> Callable[[Path], None]:
    """Plan a file. Raises ValueError if HDF5 would change the name of a tensor."""
    h5py = import_optional("h5py", "hdf5")
    tensors = weights.tensors
    for name in tensors:
        steps = name.split("/")
        groups = {"/".join(steps[:depth]) for depth in range(1, len(steps))}
        if not {"", ".", ".."}.isdisjoint(steps) or groups & tensors.keys():
            raise ValueError(
                f"HDF5 makes groups of names with '/', and cannot hold a tensor {name!r}"
                + (" and one with the name of its group" if groups & tensors.keys() else "")
            )

    def write(path: Path) -> None:
        with h5py.File(path, "w") as file:
            for name, blob in tensors.items():
                # h5py takes a name that is not UTF-8 as bytes.
                place = name if is_utf8(name) else encoded(name)
                file[place] = blob_values(blob)

    return write
