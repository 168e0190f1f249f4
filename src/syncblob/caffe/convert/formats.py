"""Opening a file of any format: its row in the table of file types, and the functions there."""

from __future__ import annotations

import contextlib
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from syncblob.caffe import open_solver_state
from syncblob.caffe.convert.npz import open_archive
from syncblob.caffe.convert.weights import Weights
from syncblob.caffe.files.caffe_hdf5 import read_state
from syncblob.caffe.files.file_types import BY_NAME, FILE_TYPES, MESSAGES, type_of, type_of_name
from syncblob.caffe.files.recognise import possible_messages, refuse_other_formats
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.wire import WireReader
from syncblob.errors import ModelFileError


def function(name: str) -> Any:
    """Return a function that the table names; its module is imported when it is first used."""
    module, _, own = name.partition(".")
    return getattr(import_module(f"syncblob.caffe.convert.{module}"), own)


def writable_extensions() -> list[str]:
    """Return the extensions of files that can be written."""
    return [extension for row in FILE_TYPES if row.plan for extension in row.extensions]


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
    row = BY_NAME[format_of(path)]
    if not row.read:
        learned = open_solver_state(path).learned_net
        raise ModelFileError(
            f"expected a file of weights, got the state of a solver, whose blobs have no names; "
            f"the weights are in {learned or 'the .caffemodel of the same iteration'}",
            path=os.fspath(path),
        )
    weights: Weights = function(row.read)(os.fspath(path))
    return weights


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
    named = type_of_name(Path(path).name)[0]
    promised = named.name if named is not None and (named.read or named.message) else ""
    file = OpenFile(path)
    row = type_of(file)
    found = "" if row is None or not row.read else row.name
    if found == "hdf5":
        with contextlib.suppress(ModelFileError):
            # Any tree of datasets may have a group "history".
            read_state(file, complete=promised != "solverstate")
            return "solverstate"
    elif found == "npz":
        with contextlib.suppress(ModelFileError), open_archive(file) as archive:
            of_torch = any(member.endswith("/data.pkl") for member in archive.namelist())
            return "torch" if of_torch else "npz"
        return promised or "npz"  # reading it raises the error that says what is wrong
    return found or _which_message(file, promised)


def _which_message(file: OpenFile, promised: str) -> str:
    """Tell Caffe's messages apart by their fields. The name decides if these fit several."""
    with WireReader.of_file(file) as reader:
        message = refuse_other_formats(reader)
        try:
            found = possible_messages(reader, message)
        except ModelFileError:
            if not promised or promised in MESSAGES:
                raise
            return promised  # reading it raises the error that says what is wrong
    kinds = [name for name in found if name != "blobs"]
    if promised in kinds or not kinds:
        return promised or "caffemodel"
    return kinds[0]
