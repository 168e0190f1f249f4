"""Which format a file has, and what can be done with it."""

from __future__ import annotations

import contextlib
import os
import zipfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import ModuleType

    from syncblob.convert._weights import Weights

__all__ = ["Format", "format_of", "format_of_name", "open_weights", "writable_extensions"]


class Format(NamedTuple):
    """A format.

    Attributes
    ----------
    name
        What it is called.
    module
        The module that knows it: has ``read``, ``write``, ``check``, and the names of the dtypes
        that it holds, ``DTYPES``.
    extensions
        What names of such files end in.
    variant
        What the names of its ``write``, ``check`` and ``DTYPES`` end in.
    """

    name: str
    module: str
    extensions: tuple[str, ...]
    variant: str = ""

    @property
    def dtypes(self) -> frozenset[str]:
        """Names of the dtypes that such a file can hold."""
        names: frozenset[str] = getattr(self._load(), f"DTYPES{self.variant.upper()}")
        return names

    def read(self, path: str) -> Weights:
        """Open a file."""
        weights: Weights = self._load().read(path)
        return weights

    def check(self, weights: Weights) -> None:
        """Raise ValueError or TypeError for what `write` would refuse. Reads no values."""
        getattr(self._load(), f"check{self.variant}")(weights)

    def write(self, weights: Weights, path: Path) -> None:
        """Write a file; what is at the path is lost."""
        getattr(self._load(), f"write{self.variant}")(weights, path)

    def _load(self) -> ModuleType:
        return import_module(f"syncblob.convert.{self.module}")


_CAFFEMODEL = Format("caffemodel", "_caffe", (".caffemodel",))
_HDF5 = Format("hdf5", "_hdf5", (".h5", ".hdf5"))
_SAFETENSORS = Format("safetensors", "_safetensors", (".safetensors",))
_NPZ = Format("npz", "_npz", (".npz",))
_TORCH = Format("torch", "_torch", (".pt", ".pth"))
# The first one whose extension fits.
_FORMATS = (
    Format("caffemodel.h5", "_hdf5", (".caffemodel.h5",), variant="_caffe"),
    _CAFFEMODEL,
    _HDF5,
    _SAFETENSORS,
    _NPZ,
    _TORCH,
)

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# In a safetensors file, eight bytes of length are in front of the header, which is JSON.
_SAFETENSORS_HEADER = slice(8, 9)


def writable_extensions() -> list[str]:
    """Return what names of files can end in to be written."""
    return [extension for one in _FORMATS for extension in one.extensions]


def format_of_name(path: str | os.PathLike[str]) -> Format | None:
    """Return the format that the name of a file promises; None if it promises none."""
    name = Path(path).name.lower()
    return next((one for one in _FORMATS if name.endswith(one.extensions)), None)


def open_weights(path: str | os.PathLike[str]) -> Weights:
    """Open a file of any format that can be converted.

    These are ``.caffemodel``, HDF5 (Caffe's layout, or any other tree of datasets),
    ``.safetensors``, ``.npz`` and, saved by ``torch.save``, ``.pt`` and ``.pth``. Where the name
    does not say which, the contents do. Values are not read before a Blob is touched.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ModelFileError
        If the file is damaged, is of another format, or holds what a Blob cannot.
    OSError
        If it cannot be opened.
    ModuleNotFoundError
        If the library that owns the format is not installed.
    """
    return _format_of(path).read(os.fspath(path))


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format of a file, as ``"safetensors"``: by its name, else by how it begins.

    What begins like none of the others is ``"caffemodel"``.

    Raises
    ------
    OSError
        If it cannot be opened.
    """
    return _format_of(path).name


def _format_of(path: str | os.PathLike[str]) -> Format:
    # Errors of opening come first, and from one place: the libraries word them differently.
    with Path(path).open("rb") as file:
        head = file.read(16)
    return format_of_name(path) or _recognise(path, head)


def _recognise(path: str | os.PathLike[str], head: bytes) -> Format:
    if head.startswith(_HDF5_SIGNATURE):
        return _HDF5
    if head[_SAFETENSORS_HEADER] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        return _SAFETENSORS
    if not zipfile.is_zipfile(path):
        return _CAFFEMODEL
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        if any(name.endswith("/data.pkl") for name in archive.namelist()):
            return _TORCH
    return _NPZ
