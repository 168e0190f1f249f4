"""Sizes that a file cannot mean: a few bytes that claim to be gigabytes; and files cut short."""

from __future__ import annotations

import zipfile
from pathlib import Path

from syncblob.caffe._read_hdf5 import MOST_COMPRESSION
from syncblob.caffe._signatures import ZIP
from syncblob.errors import ModelFileError

__all__ = ["require_plausible_size", "require_whole_archive"]

# Below this nobody is hurt, and small arrays of equal values compress well by other methods.
_HARMLESS = 1 << 24


def require_plausible_size(nbytes: int, stored_nbytes: int, *, name: str, path: str) -> None:
    """Raise ModelFileError if an array is larger than its stored bytes can be unpacked to."""
    if nbytes > _HARMLESS and nbytes > stored_nbytes * MOST_COMPRESSION:
        raise ModelFileError(
            f"array {name!r} claims {nbytes} bytes, of which {stored_nbytes} are stored; "
            f"the file is damaged, or made to exhaust the memory",
            path=path,
        )


def require_whole_archive(path: str, what: str) -> None:
    """Raise ModelFileError if a file begins as a zip archive and has lost its end."""
    with Path(path).open("rb") as file:
        archive = file.read(len(ZIP)) == ZIP
    if archive and not zipfile.is_zipfile(path):
        raise ModelFileError(
            f"{what} is cut off: the list of what is in it, at its end, is missing; copy it again",
            path=path,
        )
