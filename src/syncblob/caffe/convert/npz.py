"""NumPy's ``.npz``: a zip archive of arrays."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib import format as npy

from syncblob.caffe import blob_values
from syncblob.caffe.convert.weights import Weights
from syncblob.caffe.files.caffe_hdf5 import HARMLESS, MOST_COMPRESSION
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from syncblob.caffe.convert.weights import Entry


_EXTENSION = ".npy"
# The most bytes in the name of a member.
_MOST_NAME = (1 << 16) - 1


def read(path: str) -> Weights:
    """Open a file. Reads the headers of the arrays, but no values."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ModelFileError(
            f"the .npz file is truncated or damaged ({error}); copy it again", path=path
        ) from error
    members = {
        info.filename.removesuffix(_EXTENSION): info
        for info in archive.infolist()
        if info.filename.endswith(_EXTENSION)
    }
    if not members and archive.infolist():
        archive.close()
        raise ModelFileError("this is a zip archive without arrays (.npy)", path=path)
    try:
        tensors: dict[str, Entry] = {}
        others = []
        for name, info in members.items():
            shape, dtype = _read_header(archive, info, path)
            if dtype.kind in "US":
                others.append(f"the text {name!r}")
            else:
                tensors[name] = shape, dtype, partial(_read_values, archive, info, path)
        return Weights.of_names(path, "npz", tensors, archive.close, others=others)
    except BaseException:
        archive.close()
        raise


def _read_header(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str
) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Read the shape and dtype of an array, and check them against the size of the member."""
    try:
        with archive.open(info) as file:
            version = npy.read_magic(file)
            reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = reader(file)
            start = file.tell()
    except OSError:
        raise
    except Exception as error:  # a damaged archive raises nearly any exception
        raise ModelFileError(f"array {info.filename!r} is damaged ({error})", path=path) from error
    if dtype.hasobject:
        return shape, dtype  # pickled, so its size says nothing about that of the member
    nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if nbytes != info.file_size - start:
        raise ModelFileError(
            f"array {info.filename!r} of shape {shape} and dtype {dtype} needs {nbytes} bytes, "
            f"the file has {info.file_size - start}",
            path=path,
        )
    if nbytes > HARMLESS and nbytes > info.compress_size * MOST_COMPRESSION:
        raise ModelFileError(
            f"array {info.filename!r} claims {nbytes} bytes, of which {info.compress_size} are "
            f"stored; the file is damaged, or made to exhaust the memory",
            path=path,
        )
    return shape, dtype


def _read_values(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> NDArray[np.generic]:
    try:
        with archive.open(info) as file:
            values: NDArray[np.generic] = npy.read_array(file, allow_pickle=False)
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise ModelFileError(f"array {info.filename!r} is damaged ({error})", path=path) from error
    return values


def plan(weights: Weights) -> Callable[[Path], None]:
    """Plan an uncompressed file, as ``numpy.savez`` writes, but array by array.

    Raises ValueError if a tensor has a name that zip cannot hold.
    """
    weights.require_utf8()
    for name in weights.tensors:
        if "\0" in name or len((name + _EXTENSION).encode()) > _MOST_NAME:
            raise ValueError(
                f"a .npz archive cannot hold a tensor {name[:80]!r}: expected a name without "
                f"NUL, of at most {_MOST_NAME - len(_EXTENSION):,} bytes; rename its layer"
            )

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for name, blob in weights.tensors.items():
                with archive.open(name + _EXTENSION, "w", force_zip64=True) as file:
                    npy.write_array(file, blob_values(blob), allow_pickle=False)

    return write
