"""The formats of files, and their functions."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from syncblob.caffe import open_solver_state
from syncblob.caffe.convert import caffe_models, hdf5, npz, pytorch, safetensors
from syncblob.caffe.convert.batch_norm import for_caffe
from syncblob.caffe.convert.weights import ALL_DTYPES, LayerWeights, Weights, for_others, squeezed
from syncblob.caffe.files.caffe_hdf5 import read_state
from syncblob.caffe.files.other_formats import (
    file_signature,
    possible_messages,
    refuse_other_formats,
)
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.wire import WireReader
from syncblob.errors import ModelFileError


class Format(NamedTuple):
    """A format."""

    name: str
    extensions: tuple[str, ...]
    dtypes: frozenset[str]
    """The names of the dtypes that it holds."""
    read: Callable[[str], Weights]
    plan: Callable[[Weights], Callable[[Path], None]]
    """Returns the function that writes a file, replacing its contents. Reads no values.

    Raises ValueError or TypeError if that is impossible.
    """
    prepare: Callable[[Iterable[LayerWeights]], Iterable[LayerWeights]] = for_others
    """Returns the layers as they are in such a file."""
    describes: bool = False
    """Whether it stores types and settings of the layers."""


_IN_CAFFE = frozenset(("float32", "float64"))
_IN_NUMPY = ALL_DTYPES - {"bfloat16"}

# The first match of the extension wins.
_FORMATS = (
    Format(
        "caffemodel.h5",
        (".caffemodel.h5",),
        _IN_CAFFE,
        hdf5.read,
        partial(caffe_models.plan, hdf5=True),
        lambda layers: squeezed(for_caffe(layers)),
    ),
    Format(
        "caffemodel",
        (".caffemodel",),
        _IN_CAFFE,
        caffe_models.read,
        caffe_models.plan,
        for_caffe,  # Caffe leaves the axes of the older formats out of account here only
        describes=True,
    ),
    Format("hdf5", (".h5", ".hdf5"), _IN_NUMPY, hdf5.read, hdf5.plan),
    Format(
        "safetensors",
        (".safetensors",),
        safetensors.DTYPES,
        safetensors.read,
        safetensors.plan,
        describes=True,
    ),
    Format("npz", (".npz",), _IN_NUMPY, npz.read, npz.plan),
    Format("torch", (".pt", ".pth"), ALL_DTYPES, pytorch.read, pytorch.plan),
    Format(
        "binaryproto",
        (".binaryproto",),
        _IN_CAFFE,
        caffe_models.read_mean,
        caffe_models.plan_mean,
        caffe_models.as_mean,
    ),
)
_SOLVER_STATE = "solverstate"
_MESSAGES = ("caffemodel", "binaryproto", _SOLVER_STATE)
_SOLVER_STATES = (".solverstate", ".solverstate.h5")


def writable_extensions() -> list[str]:
    """Return the extensions of files that can be written."""
    return [extension for one in _FORMATS for extension in one.extensions]


def format_of_name(path: str | os.PathLike[str]) -> Format | None:
    """Return the format for the extension of a file; None if there is none."""
    name = Path(path).name.lower()
    return next((one for one in _FORMATS if name.endswith(one.extensions)), None)


def open_weights(path: str | os.PathLike[str]) -> Weights:
    """Open a file of any format that can be converted.

    Supported are ``.caffemodel``, HDF5 (Caffe's layout, or any other tree of datasets),
    ``.safetensors``, ``.npz``, and ``.pt`` and ``.pth`` saved by ``torch.save``; also
    ``.binaryproto``, whose only array becomes a tensor ``"mean"``. The format is
    recognized by the contents. Values are read on the first access of a Blob.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ModelFileError
        If the file is damaged, has another format, or contains a dtype or shape that Blobs do not
        support.
    OSError
        If the file cannot be opened.
    ModuleNotFoundError
        If the library for the format is not installed.
    """
    found = format_of(path)
    if found == _SOLVER_STATE:
        learned = open_solver_state(path).learned_net
        raise ModelFileError(
            f"expected a file of weights, got the state of a solver, whose blobs have no names; "
            f"the weights are in {learned or 'the .caffemodel of the same iteration'}",
            path=os.fspath(path),
        )
    return next(one for one in _FORMATS if one.name == found).read(os.fspath(path))


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format of a file, such as ``"safetensors"``: by its contents, else by its name.

    Raises
    ------
    ModelFileError
        If the format cannot be recognized.
    ModuleNotFoundError
        If the file is HDF5 and h5py is not installed.
    OSError
        If the file cannot be opened.
    """
    promised = format_of_name(path)
    name = "" if promised is None else promised.name
    if Path(path).name.lower().endswith(_SOLVER_STATES):
        name = _SOLVER_STATE
    file = OpenFile(path)
    found = file_signature(file)
    if found == "hdf5":
        with contextlib.suppress(ModelFileError):
            # Any tree of datasets may have a group "history".
            read_state(file, complete=name != _SOLVER_STATE)
            return _SOLVER_STATE
        return "hdf5"
    if found == "zip":
        with contextlib.suppress(ModelFileError), npz.open_archive(file) as archive:
            of_torch = any(member.endswith("/data.pkl") for member in archive.namelist())
            return "torch" if of_torch else "npz"
        return name or "npz"  # its library says what is wrong
    return found if found in {"safetensors", "torch"} else _which_message(file, name)


def _which_message(file: OpenFile, promised: str) -> str:
    """Tell Caffe's messages apart by their fields. The name decides if these fit several."""
    with WireReader.of_file(file) as reader:
        message = refuse_other_formats(reader)
        try:
            found = possible_messages(reader, message)
        except ModelFileError:
            if promised in {"", *_MESSAGES}:
                raise
            return promised  # its library says what is wrong
    kinds = [name for name in found if name in _MESSAGES]
    if promised in kinds or not kinds:
        return promised or "caffemodel"
    return kinds[0]
