"""NumPy's ``.npz``: a zip archive of arrays."""

from __future__ import annotations

import contextlib
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from syncblob.caffe.convert.weights import Entry, Weights
from syncblob.caffe.files.caffe_hdf5 import is_too_dense
from syncblob.caffe.messages.fields import Array, DType, Shape, Write
from syncblob.caffe.messages.open_file import OpenFile, stream_of
from syncblob.caffe.messages.pieces import BlobValues
from syncblob.caffe.messages.values import CHUNK, Runs, StridedValues, Values
from syncblob.errors import ModelFileError

_EXTENSION = ".npy"
# The length of the header of a member without its name and extra field, and the offset of the
# lengths of these.
_MEMBER_HEADER, _LENGTHS = 30, 26
_ENCRYPTED = 1


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
            shape, dtype, values = _entry(file, archive, info)
            if dtype.kind in "USO":
                others.append(f"the {'objects' if dtype.hasobject else 'text'} {name!r}")
            else:
                tensors[name] = shape, dtype, values
    file.require_unchanged()
    return Weights.of_entries(path, "npz", tensors, file, others=tuple(others))


@contextlib.contextmanager
def open_archive(file: OpenFile, name: str = "") -> Iterator[zipfile.ZipFile]:
    """Open an archive, of which a member is read, and turn its errors into ModelFileError."""
    with (
        stream_of(file, partial(_damage, file, name)) as stream,
        zipfile.ZipFile(io.BufferedReader(stream, CHUNK)) as archive,
    ):
        yield archive


def _damage(file: OpenFile, name: str, error: object) -> ModelFileError:
    what = f"array {name!r} is damaged" if name else "the .npz file is truncated or damaged"
    why = str(error) or "it ends too early"
    return ModelFileError(f"{what} ({why}); copy it again", path=file.path)


def _entry(
    file: OpenFile, archive: zipfile.ZipFile, info: zipfile.ZipInfo
) -> tuple[Shape, DType, Values]:
    """Read the shape and dtype of an array, check them, and find its values."""
    try:
        with archive.open(info) as member:
            version = npy.read_magic(member)
            reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, in_fortran, dtype = reader(member)
            start = member.tell()
    except (OSError, ModelFileError):
        raise
    except Exception as error:  # a damaged archive raises nearly any exception
        raise _damage(file, info.filename, error) from error
    if dtype.hasobject:
        # Objects are pickled; `Weights.of_entries` refuses the dtype.
        return shape, dtype, Runs(dtype, ())
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes != info.file_size - start:
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
    values = _values(file, info, dtype, start)
    if in_fortran:
        strides = tuple(math.prod(shape[:axis]) for axis in range(len(shape)))
        values = StridedValues.of(values, shape, strides)
    return shape, dtype, values


def _values(file: OpenFile, info: zipfile.ZipInfo, dtype: DType, header: int) -> Values:
    """Return the position of the values of a member, in the order of the file."""
    count = (info.file_size - header) // max(1, dtype.itemsize)
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & _ENCRYPTED:
        return _PackedValues(dtype, info, header)
    # The header of a member in the archive, whose name and extra field end it, was read above.
    lengths = file.read(info.header_offset + _LENGTHS, info.header_offset + _MEMBER_HEADER)
    begin = info.header_offset + _MEMBER_HEADER + sum(struct.unpack("<HH", lengths)) + header
    if begin + count * dtype.itemsize > len(file):
        raise _damage(file, info.filename, "")
    known = zlib.crc32(file.read(begin - header, begin))
    runs = Runs.in_order(dtype, begin, count).runs
    return _StoredValues(dtype, runs, info.filename, known, info.CRC)


@dataclass(frozen=True, slots=True)
class _StoredValues(Runs):
    """Values that are not compressed, with a checksum for those who read all in order."""

    name: str
    crc_of_header: int
    crc: int

    def read_into(self, contents: Any, target: Array, *, first: int = 0) -> None:
        Runs.read_into(self, contents, target, first=first)
        if len(target) == self.count and target.dtype == self.dtype:
            self._check(contents, zlib.crc32(target.view(np.uint8).data, self.crc_of_header))

    def chunks(
        self, contents: Any, dtype: DType, first: int = 0, stop: int | None = None
    ) -> Iterator[Array]:
        crc, values = self.crc_of_header, Runs(self.dtype, self.runs)
        for chunk in values.chunks(contents, self.dtype, first, stop):
            crc = zlib.crc32(chunk.view(np.uint8).data, crc)
            yield chunk.astype(dtype, copy=False)
        if not first and stop in (None, self.count):
            self._check(contents, crc)

    def _check(self, contents: Any, crc: int) -> None:
        if crc != self.crc:
            raise _damage(contents, self.name, f"Bad CRC-32 for file {self.name!r}")


@dataclass(frozen=True, slots=True)
class _PackedValues(Values):
    """Values in a compressed member, which is unpacked from its beginning on."""

    info: zipfile.ZipInfo
    header: int

    @property
    def count(self) -> int:
        return (self.info.file_size - self.header) // max(1, self.dtype.itemsize)

    @property
    def grain(self) -> int:
        """All values: they would be unpacked again for the next piece."""
        return max(1, self.count)

    def read_into(self, contents: Any, target: Array, *, first: int = 0) -> None:
        values = target if target.dtype == self.dtype else np.empty(len(target), self.dtype)
        view = values.view(np.uint8).data
        with open_archive(contents, self.info.filename) as archive:
            member: Any = archive.open(self.info)
            member.seek(self.header + first * self.dtype.itemsize)
            while view:
                if not (count := member.readinto(view[:CHUNK])):
                    raise EOFError
                view = view[count:]
            if member.tell() == self.info.file_size:
                member.read(1)  # compares the checksum
        if values is not target:
            target[:] = values


def plan(weights: Weights) -> Write:
    """Plan an uncompressed file, as ``numpy.savez`` writes, but array by array."""
    weights.require_utf8()
    for name in weights.tensors:
        if "\0" in name:
            raise ValueError(
                f"a .npz archive cannot hold a tensor {name!r}: expected a name without NUL; "
                f"rename its layer"
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
