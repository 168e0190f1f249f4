"""The formats of files, and their functions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob.caffe import open_solver_state
from syncblob.caffe.convert import (
    binaryproto,
    caffe_models,
    npy,
    npz,
    other_hdf5,
    pytorch,
    safetensors,
)
from syncblob.caffe.convert.recognition import recognise
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from syncblob.caffe.convert.weights import Weights


class Format(NamedTuple):
    """A format.

    Attributes
    ----------
    name
        Its name.
    extensions
        The extensions of such files.
    dtypes
        The names of the supported dtypes.
    read
        Opens a file.
    check
        Raises ValueError or TypeError if `write` would. Reads no values.
    write
        Writes a file, replacing its contents.
    describes
        Whether files can store the description of the layers beside the tensors.
    """

    name: str
    extensions: tuple[str, ...]
    dtypes: frozenset[str]
    read: Callable[[str], Weights]
    check: Callable[[Weights], None]
    write: Callable[[Weights, Path], None]
    describes: bool = False

    @classmethod
    def of(cls, module: Any, name: str, *extensions: str, describes: bool = False) -> Self:
        """Make a format with the functions of a module."""
        return cls(
            name,
            extensions,
            module.DTYPES,
            module.read,
            module.check,
            module.write,
            describes,
        )


# The first match of the extension wins.
_FORMATS = (
    Format(
        "caffemodel.h5",
        (".caffemodel.h5",),
        other_hdf5.DTYPES_CAFFE,
        other_hdf5.read,
        other_hdf5.check_caffe,
        other_hdf5.write_caffe,
        describes=True,
    ),
    Format.of(caffe_models, "caffemodel", ".caffemodel"),
    Format.of(other_hdf5, "hdf5", ".h5", ".hdf5", describes=True),
    Format.of(safetensors, "safetensors", ".safetensors", describes=True),
    Format.of(npz, "npz", ".npz", describes=True),
    Format.of(pytorch, "torch", ".pt", ".pth"),
    Format.of(binaryproto, "binaryproto", ".binaryproto"),
    Format.of(npy, "npy", ".npy"),
)
_SOLVER_STATE = "solverstate"
_SOLVER_STATES = (".solverstate", ".solverstate.h5")


def writable_extensions() -> list[str]:
    """Return the extensions of files that can be written."""
    return [extension for one in _FORMATS for extension in one.extensions]


def format_of_name(path: str | os.PathLike[str]) -> Format | None:
    """Return the format for the extension of a file, before a ``.gz``; None if there is none."""
    name = Path(path).name.lower().removesuffix(".gz")
    return next((one for one in _FORMATS if name.endswith(one.extensions)), None)


def open_weights(path: str | os.PathLike[str], *, key: str | None = None) -> Weights:
    """Open a file of any format that can be converted.

    Supported are ``.caffemodel``, HDF5 (Caffe's layout, or any other tree of datasets),
    ``.safetensors``, ``.npz``, and ``.pt`` and ``.pth`` saved by ``torch.save``; also
    ``.binaryproto`` and ``.npy``, whose only array becomes a tensor ``"mean"``. The format is
    recognized by the contents. Values are read on the first access of a Blob.

    Parameters
    ----------
    path
        The file.
    key
        The key of the net to open in a checkpoint of PyTorch's with several nets, such as
        ``"ema"``; with dots for a dictionary in another one. ``""`` opens all of them, with their
        keys in front of the names of the tensors. None opens the only net, or that with the key
        ``"state_dict"``.

    Raises
    ------
    ModelFileError
        If the file is damaged, has another format, or contains a dtype or shape that Blobs do not
        support. If it is a checkpoint with several nets and `key` is None, or has no such key.
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
    read = next(one for one in _FORMATS if one.name == found).read
    if key is None:
        return read(os.fspath(path))
    if read is not pytorch.read:
        raise ModelFileError(
            f"expected a checkpoint of PyTorch's, in which the key {key!r} chooses a net, got the "
            f"format {found}; choose layers by their names instead",
            path=os.fspath(path),
        )
    return pytorch.read(os.fspath(path), key)


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
    if Path(path).name.lower().endswith(_SOLVER_STATES):
        return recognise(path, _SOLVER_STATE)
    promised = format_of_name(path)
    return recognise(path, None if promised is None else promised.name)
