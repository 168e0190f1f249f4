"""NumPy's ``.npz``: a zip archive of arrays."""

from __future__ import annotations

import contextlib
import io
import math
import zipfile
from collections.abc import Container, Iterator
from functools import partial
from pathlib import Path
from typing import IO

from numpy.lib import format as npy

from syncblob.caffe.convert.weights import Entry, Weights
from syncblob.caffe.files.caffe_hdf5 import is_too_dense
from syncblob.caffe.messages.fields import Array, DType, Shape, Write
from syncblob.caffe.messages.open_file import OpenFile, stream_of
from syncblob.caffe.messages.pieces import BlobValues
from syncblob.caffe.messages.values import CHUNK
from syncblob.errors import ModelFileError

_EXTENSION = ".npy"
# The most bytes in the name of a member.
_MOST_NAME = (1 << 16) - 1


def read(path: str) -> Weights:
    """Open a file. Reads the headers of the arrays, but no values."""
    file = OpenFile(path)
    with open_archive(file) as archive:
        infos = archive.infolist()
        members = [info for info in infos if info.filename.endswith(_EXTENSION)]
        if not members and infos:
            raise ModelFileError("this is a zip archive without arrays (.npy)", path=path)
        tensors: dict[str, Entry] = {}
        others = []
        for info in members:
            name = info.filename.removesuffix(_EXTENSION)
            shape, dtype = _header(file, archive, info)
            if dtype.kind in "USO":
                others.append(f"the {'objects' if dtype.hasobject else 'text'} {name!r}")
            else:
                tensors[name] = shape, dtype, partial(_values, file, archive, info)
    file.require_unchanged()
    return Weights.of_entries(path, "npz", tensors, file, others=tuple(others))


@contextlib.contextmanager
def open_archive(file: OpenFile) -> Iterator[zipfile.ZipFile]:
    """Open an archive, of which members can be read later, as long as the file is open."""
    with stream_of(file, partial(_damage, file, "the .npz file is truncated or damaged")) as stream:
        yield zipfile.ZipFile(io.BufferedReader(stream, CHUNK))


@contextlib.contextmanager
def _open_member(
    file: OpenFile, archive: zipfile.ZipFile, info: zipfile.ZipInfo
) -> Iterator[IO[bytes]]:
    try:
        with archive.open(info) as member:
            yield member
    except (OSError, ModelFileError):
        raise
    except Exception as error:  # a damaged archive raises nearly any exception
        file.require_unchanged()
        raise _damage(file, f"array {info.filename!r} is damaged", error) from error


def _damage(file: OpenFile, what: str, error: Exception) -> ModelFileError:
    why = str(error) or "it ends too early"
    return ModelFileError(f"{what} ({why}); copy it again", path=file.path)


def _header(file: OpenFile, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[Shape, DType]:
    """Read the shape and dtype of an array, and check them against the size of the member."""
    with _open_member(file, archive, info) as member:
        version = npy.read_magic(member)
        reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = reader(member)
        start = member.tell()
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes != info.file_size - start and not dtype.hasobject:  # objects are pickled
        raise ModelFileError(
            f"array {info.filename!r} of shape {shape} and dtype {dtype} needs {nbytes} bytes, "
            f"the file has {info.file_size - start}",
            path=file.path,
        )
    if is_too_dense(nbytes, info.compress_size):
        raise ModelFileError(
            f"array {info.filename!r} claims {nbytes} bytes, of which {info.compress_size} are "
            f"stored; the file is damaged, or made to exhaust the memory",
            path=file.path,
        )
    return shape, dtype


def _values(file: OpenFile, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    with _open_member(file, archive, info) as member:
        values: Array = npy.read_array(member)
        member.read(1)  # compares the checksum
        file.require_unchanged()  # the stream may have read the values earlier
        return values


def plan(weights: Weights) -> Write:
    """Plan an uncompressed file, as ``numpy.savez`` writes, but array by array."""
    weights.require_utf8()
    for name in weights.tensors:
        if "\0" in name or len((name + _EXTENSION).encode()) > _MOST_NAME:
            raise ValueError(
                f"a .npz archive cannot hold a tensor {name[:80]!r}: expected a name without "
                f"NUL, of at most {_MOST_NAME - len(_EXTENSION):,} bytes; rename its layer"
            )

    source = weights.source_file()

    def write(path: Path) -> None:
        tensors = {name + _EXTENSION: blob for name, blob in weights.tensors.items()}
        with zipfile.ZipFile(path, "w") as archive:
            infos = {} if source is None else _copy_rest(source, tensors, archive)
            for name, blob in tensors.items():
                info, before = zipfile.ZipInfo(name), infos.get(name)
                if before is not None:
                    info.comment = before.comment
                    # Stronger compression could exceed the ratio that `read` accepts.
                    if before.compress_type != zipfile.ZIP_STORED:
                        info.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(info, "w", force_zip64=True) as file:
                    descr = npy.dtype_to_descr(blob.dtype)
                    header = {"descr": descr, "fortran_order": False, "shape": blob.shape}
                    npy.write_array_header_1_0(file, header)
                    for chunk in BlobValues(blob, blob.dtype).chunks():
                        file.write(chunk)

    return write


def _copy_rest(
    file: OpenFile, replaced: Container[str], target: zipfile.ZipFile
) -> dict[str, zipfile.ZipInfo]:
    """Copy an archive but for some members. Return the descriptions of all, by name."""
    with open_archive(file) as archive:
        target.comment = archive.comment
        infos = {info.filename: info for info in archive.infolist()}
        for name, info in infos.items():
            if name not in replaced:
                target.writestr(info, archive.read(info))
        return infos
