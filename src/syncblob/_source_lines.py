"""Finding the user's line on the stack, at low cost."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from types import CodeType, FrameType
from typing import NamedTuple

# Frames of these packages are not the user's: this package, and libraries that call its protocols.
# Frames of the standard library are not the user's either.
_LIBRARIES = frozenset(
    """
    syncblob numpy torch cupy cupyx array_api_compat array_api_extra scipy sklearn pandas pyarrow
    xarray jax jaxlib numba tensorflow einops dask matplotlib PIL skimage h5py zarr safetensors
    distributed dpnp dpctl polars duckdb warp tvm_ffi mlx paddle openvino onnxruntime nvidia max
    tinygrad taichi cuda pyopencl mpi4py tensorstore vtkmodules pyvista rasterio mahotas
    """.split()  # noqa: SIM905  # easier to read as words
)

# Other packages may be installed in these folders below the standard library's.
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120  # compared as a prefix
_OTHER_PACKAGES = ("site-packages", "dist-packages")

_getframe = sys._getframe  # noqa: SLF001  # documented, in spite of its name

# The library of each file, or None. Cached, because every export looks it up.
_library_of: dict[str, str | None] = {}


class SourceLine(NamedTuple):
    """A line of the user's code."""

    filename: str
    lineno: int

    @property
    def text(self) -> str:
        """The text of the line, stripped; empty if the source cannot be found."""
        return linecache.getline(self.filename, self.lineno).strip()

    def __str__(self) -> str:
        """Return ``file:line``."""
        return f"{self.filename}:{self.lineno}"

    def describe(self) -> str:
        """Return ``file:line: text``, or ``file:line`` if the text is unknown."""
        return f"{self}: {self.text}" if self.text else str(self)


# The fields of a `Place`.
NotedPlace = tuple["CodeType", int, "str | None"]


class Place(NamedTuple):
    """A place in running code, recorded much faster than its line number."""

    code: CodeType
    instruction: int
    library: str | None
    """The library whose Python code is between the user and this package, if any."""

    @property
    def line(self) -> SourceLine:
        """The line of this place."""
        lineno = self.code.co_firstlineno
        for start, stop, line in self.code.co_lines():
            if start <= self.instruction < stop and line is not None:
                lineno = line
        return SourceLine(self.code.co_filename, lineno)

    @property
    def consumer(self) -> str:
        """The library in parentheses, for messages; empty if unknown."""
        return f" ({self.library})" if self.library else ""


def _library(frame: FrameType) -> str | None:
    """Return the library of a frame, None for the user's code, and cache it by file name."""
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    filename = frame.f_code.co_filename
    inside = filename.removeprefix(_STANDARD_LIBRARY)
    standard = inside != filename and not inside.startswith(_OTHER_PACKAGES)
    library = package if package in _LIBRARIES or standard else None
    # Names like "<string>" are shared by unrelated code.
    if not filename.startswith("<"):
        _library_of[filename] = library
    return library


def user_instruction(depth: int = 2) -> NotedPlace:
    """Return the fields of the `Place` of the user's code, which takes longer to make.

    `depth` is the number of the innermost frames that are certainly of this package.
    """
    try:
        frame = _getframe(depth)
    except ValueError:
        # A thread or the interpreter has called the package, without a frame of the user's.
        frame = _getframe(1)
    between = None
    while True:
        code = frame.f_code
        try:
            library = _library_of[code.co_filename]
        except KeyError:
            library = _library(frame)
        if library is None or (outer := frame.f_back) is None:
            return code, frame.f_lasti, between
        if library != "syncblob":
            between = library
        frame = outer


def user_line() -> SourceLine:
    """Return the line of the user's code."""
    return Place(*user_instruction()).line


def warn_user(message: str, category: type[Warning]) -> None:
    """Emit a warning at the line of the user's code."""
    code, _, _ = user_instruction()
    frame, level = _getframe(1), 2
    while frame.f_code is not code and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
