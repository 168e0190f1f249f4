"""HDF5, through h5py: Caffe's layout, or any other tree of datasets.

In the plain layout, each tensor is a dataset with its name, in which ``/`` separates groups. In
Caffe's layout it is ``data/<layer>/<number>``. Both may contain the description of the layers as
another dataset.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.caffe import (
    blob_values,
    file_signature,
    hdf5_address,
    hdf5_contents,
    hdf5_problem,
    open_model,
    plan_model,
)
from syncblob.caffe.convert import caffe_models
from syncblob.caffe.convert.recognition import read_head
from syncblob.caffe.convert.structure import (
    STRUCTURE,
    assemble,
    damaged,
    describe,
    read_description,
)
from syncblob.caffe.convert.values import ALL_DTYPES, lazy_entry
from syncblob.caffe.convert.weights import Weights
from syncblob.caffe.messages.fields import MOST_AXES
from syncblob.caffe.messages.texts import decoded, encoded
from syncblob.errors import ModelFileError
from syncblob.formats import import_optional

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from syncblob.caffe import ModelFile
    from syncblob.caffe.convert.structure import Described
    from syncblob.caffe.convert.weights import Entry, LayerWeights
    from syncblob.formats import Blob

DTYPES = ALL_DTYPES - {"bfloat16"}
DTYPES_CAFFE = caffe_models.DTYPES

# The number of bytes that a dataset may claim without storing them: small arrays compress very
# well, and HDF5 generates fill values for unwritten parts.
_HARMLESS = 1 << 24
# Limit on visits to groups and datasets under further names. Links can make a small file look
# endless.
_MOST_REPEATED = 1 << 14
# The groups at the root of Caffe's layout: the layers, and their gradients.
_CAFFE_GROUP, _CAFFE_DIFFS = "data", "diff"


def read(path: str) -> Weights:
    """Open a file. Reads its tree, but no values."""
    file = _open(path)
    try:
        text = _description(file, path)
        if _is_caffes(file, text, path):
            file.close()
            return _read_caffe(path, text)
        tensors, links = _tensors(file, path, text)
        weights = assemble(path, "hdf5", tensors, text, close=file.close)
        weights.others = tuple(f"the link {name!r}" for name in links)
    except BaseException as error:
        file.close()
        # h5py raises these for damaged trees, and for links and types that Python cannot represent.
        damaged_tree = isinstance(error, (RuntimeError, KeyError, TypeError, ValueError))
        if damaged_tree and not isinstance(error, ModelFileError):
            raise ModelFileError(f"the HDF5 file is damaged ({error})", path=path) from error
        raise
    return weights


def _open(path: str) -> Any:
    h5py = import_optional("h5py", "hdf5")
    packed = file_signature(read_head(path)) == "gzip"
    try:
        return h5py.File(hdf5_contents(path) if packed else path, "r")
    except OSError as error:
        if error.errno is not None:
            raise
        begins = h5py.is_hdf5(path)
        found = "the HDF5 file is truncated or damaged" if begins else "this is no HDF5 file"
        raise ModelFileError(f"{found} ({error}); copy it again", path=path) from error


def _own_entry(file: Any, name: str) -> Any:
    """Return an entry; None if it does not exist, or is a link out of the file."""
    return None if hdf5_address(file, name) is None else file[name]


def _is_caffes(file: Any, text: str | None, path: str) -> bool:
    """Distinguish Caffe's layout from a tree with tensor names such as ``data/x.weight``."""
    h5py = import_optional("h5py", "hdf5")
    if not isinstance(_own_entry(file, _CAFFE_GROUP), h5py.Group):
        return False
    if text is None:

        def is_other(name: str, entry: Any) -> bool | None:
            number = decoded(name).rpartition("/")[2]
            return (isinstance(entry, h5py.Dataset) and not number.isdecimal()) or None

        return {*file} <= {_CAFFE_GROUP, _CAFFE_DIFFS} and not file.visititems(is_other)
    _, _, layers = read_description(text, path=path)
    names = {name for layer in layers for name in layer.tensors}
    # In a plain tree, these are the group and the description, not tensors.
    return bool(names & {_CAFFE_GROUP, STRUCTURE}) or not all(name in file for name in names)


def _description(file: Any, path: str) -> str | None:
    h5py = import_optional("h5py", "hdf5")
    entry = _own_entry(file, STRUCTURE)
    if not isinstance(entry, h5py.Dataset) or entry.shape != ():
        return None
    if h5py.check_string_dtype(entry.dtype) is None:
        return None
    try:
        text: str = entry.asstr()[()]
    except (OSError, UnicodeDecodeError) as error:
        raise damaged(str(error), path=path) from error
    return text


def _read_caffe(path: str, text: str | None) -> Weights:
    model = open_model(path)
    kind = "caffemodel.h5"
    if text is None:
        layers = caffe_models.name_layers(model)
        return Weights(path, kind, name=model.name, layers=layers, close=model.close)
    try:
        name, settings, described = read_description(text, path=path)
        layers = tuple(_with_shared(described, model))
    except (KeyError, ValueError) as error:
        model.close()
        if isinstance(error, ModelFileError):
            raise
        raise damaged(str(error), path=path) from error
    return Weights(path, kind, name=name, layers=layers, settings=settings, close=model.close)


def _with_shared(described: list[Described], model: ModelFile) -> Iterator[LayerWeights]:
    """Yield the layers with their blobs, also with those that only the first of several has."""
    owners: dict[str, Blob] = {}
    for each in described:
        blobs = list(model[each.layer.name].blobs)
        names = caffe_models.names_of_parameters(each.layer.definition)
        blobs += [owners[name] for name in names[len(blobs) : len(each.tensors)] if name in owners]
        owners = dict(zip(names, blobs, strict=False)) | owners
        yield each.with_blobs(blobs)


def _tensors(file: Any, path: str, text: str | None = None) -> tuple[dict[str, Entry], list[str]]:
    """Return all datasets as tensors, and the names of links that are not followed.

    Links within the file are followed, except from a group to itself or one that contains it. The
    description is no tensor; `text` is None if there is none.
    """
    h5py = import_optional("h5py", "hdf5")
    tensors: dict[str, Entry] = {}
    links = []
    seen: set[int] = set()
    repeated = 0
    entries: list[tuple[str, Any, frozenset[int]]] = [("", file, frozenset())]
    try:
        while entries:
            name, entry, ancestors = entries.pop()
            address = None if entry is None else h5py.h5o.get_info(entry.id).addr
            if address is None or address in ancestors:
                links.append(name)
                continue
            repeated += address in seen
            if repeated > _MOST_REPEATED:
                raise ModelFileError(
                    f"more than {_MOST_REPEATED} links lead to groups and datasets with other "
                    f"names; the file is damaged, or made to exhaust the memory",
                    path=path,
                )
            seen.add(address)
            if isinstance(entry, h5py.Dataset) and (text is None or name != STRUCTURE):
                tensors[name] = _lazy_blob(name, entry, path)
            elif isinstance(entry, h5py.Group):
                # The last one is popped first. h5py returns names that are not UTF-8 as bytes.
                for key in reversed([*entry]):
                    child = f"{name}/{decoded(key)}" if name else decoded(key)
                    followed = _followed(entry, encoded(key))
                    entries.append((child, followed, ancestors | {address}))
    except (OSError, RuntimeError) as error:
        raise ModelFileError(f"the file is damaged ({error})", path=path) from error
    return tensors, links


def _followed(group: Any, key: bytes) -> Any:
    """Return an entry; None if it is a link that may lead out of the file, or leads nowhere."""
    h5py = import_optional("h5py", "hdf5")
    kind = group.id.links.get_info(key).type
    if kind == h5py.h5l.TYPE_HARD:
        return group[key]
    if kind != h5py.h5l.TYPE_SOFT:
        return None
    path = group.id.links.get_val(key)
    entry = group.file if path.startswith(b"/") else group
    for step in path.split(b"/"):
        if step in (b"", b"."):
            continue
        # Only hard links surely stay within the file.
        if not isinstance(entry, h5py.Group) or hdf5_address(entry, decoded(step)) is None:
            return None
        entry = entry[step]
    return entry


def _lazy_blob(name: str, dataset: Any, path: str) -> Entry:
    what = f"dataset {name!r}"
    if dataset.shape is None:
        return ModelFileError(f"{what} has no values", path=path)
    # The size of the open file; its path may name another file by now.
    size = dataset.file.id.get_filesize()
    if problem := hdf5_problem(dataset, what, size, harmless=_HARMLESS):
        raise ModelFileError(problem, path=path)
    read = partial(_values, dataset, name, path)
    return lazy_entry(
        dataset.shape, dataset.dtype, read, name=name, path=path, is_closed=lambda: not dataset
    )


def _values(dataset: Any, name: str, path: str) -> NDArray[np.generic]:
    try:
        return np.asarray(dataset[()])
    except OSError as error:
        raise ModelFileError(f"dataset {name!r} is damaged ({error})", path=path) from error


def check(weights: Weights) -> None:
    """Raise ValueError if a tensor's name or shape is not valid for a dataset."""
    import_optional("h5py", "hdf5")
    names = {STRUCTURE, *weights.tensors}
    groups = {
        "/".join(parts[:depth])
        for parts in (name.split("/") for name in names)
        for depth in range(1, len(parts))
    }
    if STRUCTURE in groups:
        raise ValueError(
            f"a group has the name {STRUCTURE!r}, that of the description; rename its tensors"
        )
    for name, blob in weights.tensors.items():
        if name == STRUCTURE or name in groups:
            raise ValueError(
                f"expected other names of tensors than {name!r}, which is that of a group or of "
                f"syncblob's own dataset; rename the tensor"
            )
        if "\0" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise ValueError(
                f"HDF5 makes groups of names with '/', and cannot hold a tensor {name!r}"
            )
        if blob.ndim > MOST_AXES:
            raise ValueError(
                f"HDF5 holds at most {MOST_AXES} axes, and tensor {name!r} has shape {blob.shape}"
            )


def write(weights: Weights, path: Path) -> None:
    """Write a file in the plain layout, tensor by tensor."""
    h5py = import_optional("h5py", "hdf5")
    with h5py.File(path, "w") as file:
        for name, blob in weights.tensors.items():
            file.create_dataset(name, data=blob_values(blob))
        _add_description(file, weights)


def check_caffe(weights: Weights) -> None:
    """Raise ValueError or TypeError if Caffe's layout cannot store the weights."""
    plan_model(caffe_models.as_model(weights), hdf5=True, write_diff=False)


def write_caffe(weights: Weights, path: Path) -> None:
    """Write a file in Caffe's layout. Caffe ignores the description."""
    plan_model(caffe_models.as_model(weights), hdf5=True, write_diff=False)(path)
    with import_optional("h5py", "hdf5").File(path, "r+") as file:
        _add_description(file, weights)


def _add_description(file: Any, weights: Weights) -> None:
    if weights.described:
        file.create_dataset(STRUCTURE, data=describe(weights))
