"""Recognition of formats by the contents of files; the name decides only if these are ambiguous.

Most formats have a signature. Caffe's messages have none, and are told apart by their fields.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from syncblob.caffe.files.hdf5 import read_state
from syncblob.caffe.files.other_formats import (
    file_signature,
    head_of,
    possible_messages,
    refuse_other_formats,
)
from syncblob.caffe.messages.streams import open_source
from syncblob.caffe.messages.wire import WireReader
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from syncblob.caffe.messages.disk import OpenFile

_MESSAGES = ("caffemodel", "binaryproto", "solverstate")
# Formats that are not opened in a gzip archive.
ONLY_UNPACKED = frozenset(("npy", "npz", "safetensors", "torch", "zip"))


def recognise(path: str | os.PathLike[str], promised: str | None) -> str:
    """Return the format of a file, or raise an error; see `format_of`.

    Parameters
    ----------
    path
        The file.
    promised
        The format of its name, or None. Returned if the contents match no format, because the file
        may be a damaged one of that format.
    """
    # Opened here first, so that the errors do not depend on the library.
    file = open_source(path)
    found = file_signature(head_of(file))
    if found in ONLY_UNPACKED and file.absolute_path != Path(path).absolute():
        raise ModelFileError(
            f"this is a file of the format {found!r} in a gzip archive; unpack it first",
            path=os.fspath(path),
        )
    if found == "hdf5":
        return _which_hdf5(file, promised)
    if found in ("npz", "zip"):
        return _which_archive(path)
    return found if found in ONLY_UNPACKED else _which_message(file, promised)


def _which_hdf5(file: OpenFile, promised: str | None) -> str:
    with contextlib.suppress(ModelFileError):
        state = read_state(file)
        # Any tree of datasets may have a group "history".
        if promised == "solverstate" or state["iter"] or state["learned_net"]:
            return "solverstate"
    return "hdf5"


def _which_archive(path: str | os.PathLike[str]) -> str:
    """Distinguish PyTorch's archives from NumPy's if the first member is ambiguous."""
    names: list[str] = []
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return "torch" if any(name.endswith("/data.pkl") for name in names) else "npz"


def _which_message(file: OpenFile, promised: str | None) -> str:
    with WireReader.of_file(file) as reader:
        refuse_other_formats(reader)
        try:
            found = possible_messages(reader)
        except ModelFileError:
            if promised is None or promised in _MESSAGES:
                raise
            return promised  # its library says what is wrong
    kinds = [name for name in found if name in _MESSAGES]
    if promised in kinds or not kinds:
        return promised or "caffemodel"
    return kinds[0]
