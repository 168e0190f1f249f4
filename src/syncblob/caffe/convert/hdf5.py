"""HDF5 in another layout than Caffe's: a dataset for each tensor, whose name may have ``/``."""

from __future__ import annotations

from syncblob.caffe import open_model
from syncblob.caffe.convert.caffe_files import of_model
from syncblob.caffe.convert.weights import Weights
from syncblob.caffe.files.caffe_hdf5 import plan_edit, plan_tree, read_tree
from syncblob.caffe.messages.fields import MOST_AXES, Write
from syncblob.caffe.messages.open_file import OpenFile


def read(path: str) -> Weights:
    """Open a file, also in Caffe's layout. Reads its tree, but no values."""
    file = OpenFile(path)
    tree = read_tree(file)
    if tree is None:
        return of_model(open_model(path), path, "caffemodel.h5")
    datasets, others = tree
    return Weights.of_entries(path, "hdf5", datasets, file, others=others)


def plan(weights: Weights) -> Write:
    """Plan a file. Raises ValueError if HDF5 cannot hold a tensor, or would change its name."""
    tensors = weights.tensors
    for name, blob in tensors.items():
        if blob.ndim > MOST_AXES:
            raise ValueError(
                f"HDF5 holds at most {MOST_AXES} axes, and the tensor {name!r} has {blob.ndim}; "
                f"reshape it, or write .safetensors"
            )
        steps = name.split("/")
        groups = {"/".join(steps[:depth]) for depth in range(1, len(steps))}
        if "\0" in name or not {"", ".", ".."}.isdisjoint(steps) or groups & tensors.keys():
            raise ValueError(
                f"HDF5 makes groups of names with '/', and cannot hold a tensor {name!r}"
                + (" and one with the name of its group" if groups & tensors.keys() else "")
            )
    source = weights.source_file()
    return plan_tree(weights.tensors) if source is None else plan_edit(source, weights.tensors)
