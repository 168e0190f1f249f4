"""Reading and writing files of each format as weights."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from syncblob.caffe import open_solver_state
from syncblob.caffe.convert import caffe_files, hdf5, npz, pytorch, safetensors
from syncblob.caffe.convert.weights import LayerWeights, Weights, for_others
from syncblob.caffe.files.caffe_hdf5 import read_state
from syncblob.caffe.files.file_types import BY_NAME, MESSAGES, type_of, type_of_name
from syncblob.caffe.files.recognise import possible_messages, refuse_other_formats
from syncblob.caffe.messages.fields import Write
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.wire import WireReader
from syncblob.errors import ModelFileError


class Format(NamedTuple):
    """How files of a format become weights, and weights files."""

    read: Callable[[str], Weights]
    """Opens a file, given its path."""
    plan: Callable[[Weights], Write]
    """Returns the function that writes a file at a path, and reads no values.

    Raises ValueError or TypeError if the format cannot hold the weights.
    """
    prepare: Callable[[Iterable[LayerWeights]], Iterable[LayerWeights]] = for_others
    """Returns layers as they are in such a file."""


FORMATS = {
    "caffemodel.h5": Format(hdf5.read, caffe_files.plan_hdf5, caffe_files.for_caffe_hdf5),
    # Here alone Caffe leaves the axes of the older formats out of account.
    "caffemodel": Format(caffe_files.read, caffe_files.plan, caffe_files.for_caffe),
    "safetensors": Format(safetensors.read, safetensors.plan),
    "npz": Format(npz.read, npz.plan),
    "torch": Format(pytorch.read, pytorch.plan),
    "hdf5": Format(hdf5.read, hdf5.plan),
    "binaryproto": Format(caffe_files.read_mean, caffe_files.plan_mean, caffe_files.as_mean),
}


def writable_extensions() -> list[str]:
    """Return the extensions of files that can be written."""
    return [extension for name in FORMATS for extension in BY_NAME[name].extensions]


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
    """
    kind = format_of(path)
    if kind not in FORMATS:
        learned = open_solver_state(path).learned_net
        raise ModelFileError(
            f"expected a file of weights, got the state of a solver, whose blobs have no names; "
            f"the weights are in {learned or 'the .caffemodel of the same iteration'}",
            path=os.fspath(path),
        )
    return FORMATS[kind].read(os.fspath(path))


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format of a file, such as ``"safetensors"``: by its contents, else by its name.

    Raises
    ------
    ModelFileError
        If the format cannot be recognized.
    """
    named = type_of_name(Path(path).name)[0]
    promised = "" if named is None or named.name not in {*FORMATS, *MESSAGES} else named.name
    file = OpenFile(path)
    row = type_of(file)
    found = "" if row is None or row.name not in FORMATS else row.name
    if found == "hdf5":
        with contextlib.suppress(ModelFileError):
            # Any tree of datasets may have a group "history".
            read_state(file, complete=promised != "solverstate")
            return "solverstate"
    elif found == "npz":
        with contextlib.suppress(ModelFileError), npz.open_archive(file) as archive:
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
