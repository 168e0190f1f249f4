"""Recognition of formats by the contents of files; the name decides only if these are ambiguous.

Most formats have a signature. Caffe's messages have none, and are told apart by their fields.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import zipfile
import zlib

from syncblob.caffe import open_solver_state
from syncblob.caffe.files.other_formats import (
    file_signature,
    possible_messages,
    refuse_other_formats,
)
from syncblob.caffe.messages.disk import OpenFile
from syncblob.caffe.messages.streams import open_source
from syncblob.caffe.messages.wire import WireReader
from syncblob.errors import ModelFileError

HEAD = 4096
# The formats of Caffe's messages, by their names in errors.
_MESSAGES = {"model": "caffemodel", "blob": "binaryproto", "solver state": "solverstate"}
# Formats that are not opened in a gzip archive.
ONLY_UNPACKED = frozenset(("npy", "npz", "safetensors", "torch", "zip"))
_TEXT = bytes({*b"\t\n\r\f", *range(0x20, 0x7F), *range(0x80, 0x100)})


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
    head = read_head(path)
    found = file_signature(head)
    packed = _packed_signature(path) if found == "gzip" else ""
    if "hdf5" in (found, packed):
        return _which_hdf5(path, promised)
    if found in ("npz", "zip"):
        return _which_archive(path)
    if found in ("npy", "torch", "safetensors"):
        return found
    if packed in ONLY_UNPACKED:
        raise ModelFileError(
            f"this is a file of the format {packed!r} in a gzip archive; unpack it first",
            path=os.fspath(path),
        )
    return _which_message(path, head, promised)


def read_head(path: str | os.PathLike[str]) -> bytes:
    """Return the first bytes of a file, at most `HEAD`. Pipes and devices raise OSError."""
    file = OpenFile(path)
    return bytes(file.read(0, min(HEAD, len(file))))


def _packed_signature(path: str | os.PathLike[str]) -> str:
    """Return the signature of the file in a gzip archive; empty if the archive is damaged."""
    try:
        with gzip.open(path) as archive:
            return file_signature(archive.read(HEAD))
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return ""


def _which_hdf5(path: str | os.PathLike[str], promised: str | None) -> str:
    with contextlib.suppress(ModelFileError):
        state = open_solver_state(path)
        # Any tree of datasets may have a group "history".
        if promised == "solverstate" or state.iter or state.learned_net:
            return "solverstate"
    return "hdf5"


def _which_archive(path: str | os.PathLike[str]) -> str:
    """Distinguish PyTorch's archives from NumPy's if the first member is ambiguous."""
    names: list[str] = []
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return "torch" if any(name.endswith("/data.pkl") for name in names) else "npz"


def _which_message(path: str | os.PathLike[str], head: bytes, promised: str | None) -> str:
    with WireReader.of_file(open_source(path)) as reader:
        refuse_other_formats(reader)
        try:
            found = possible_messages(reader, reader.kinds())
        except ModelFileError:
            if is_text(head):
                raise ModelFileError(
                    "expected a file of weights, got a text; Caffe's weights are in a .caffemodel",
                    path=os.fspath(path),
                ) from None
            if promised is None or promised in _MESSAGES.values():
                raise
            return promised  # its library says what is wrong
    kinds = [_MESSAGES[name] for name in found if name in _MESSAGES]
    if promised in kinds or not kinds:
        return promised or "caffemodel"
    return kinds[0]


def is_text(head: bytes) -> bool:
    """Return whether a file is text, according to its first `HEAD` bytes."""
    if head.translate(None, delete=_TEXT):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # The head may end in the middle of a character.
        return len(head) == HEAD and error.start >= HEAD - 4
    return True
