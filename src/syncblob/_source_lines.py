"""Whose line is it: finding the user's place on the stack, cheaply."""

from __future__ import annotations

import linecache
import sys
import warnings
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import CodeType, FrameType

__all__ = [
    "Place",
    "SourceLine",
    "user_frame",
    "user_line",
    "user_place",
    "warn_user",
]

# Frames of these packages are not the user's: ours, and the libraries that call our protocols.
_LIBRARIES = frozenset(
    """
    syncblob numpy torch cupy cupyx array_api_compat array_api_extra scipy sklearn pandas pyarrow
    xarray jax jaxlib numba tensorflow einops dask matplotlib PIL skimage h5py zarr safetensors
    distributed copy pickle concurrent threading contextlib functools
    """.split()  # noqa: SIM905  # reads best as words
)

_getframe = sys._getframe  # noqa: SLF001  # the documented way to the caller's frame

# Whether a file belongs to one of them, by file name: asked on every export, so remembered.
_known: dict[str, str | None] = {}


class SourceLine(NamedTuple):
    """A line of the user's code."""

    filename: str
    lineno: int

    @property
    def text(self) -> str:
        """The line itself, stripped; empty where the source cannot be found."""
        return linecache.getline(self.filename, self.lineno).strip()

    def __str__(self) -> str:
        """Return ``file:line``."""
        return f"{self.filename}:{self.lineno}"

    def described(self) -> str:
        """Return ``file:line: text``, as far as the text is known."""
        return f"{self}: {self.text}" if self.text else str(self)


class Place(NamedTuple):
    """A place in running code, noted in a fraction of the time that its line number takes."""

    code: CodeType
    instruction: int
    library: str | None
    """The library whose Python code came between the user and us, if one did."""

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
        """The library in parentheses, to be put behind what it took; empty where it is unknown."""
        return f" ({self.library})" if self.library else ""


def _library(frame: FrameType) -> str | None:
    """Return the library that a frame belongs to, None for the user's; and remember it."""
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    library = package if package in _LIBRARIES else None
    filename = frame.f_code.co_filename
    # Names like "<string>" belong to nobody in particular.
    if not filename.startswith("<"):
        _known[filename] = library
    return library


def user_frame(depth: int = 1) -> tuple[FrameType, str | None]:
    """Return the innermost frame of the user's, and the library between it and us.

    The `depth` innermost frames are known to be ours and are not looked at.
    """
    try:
        frame = _getframe(depth)
    except ValueError:
        # A thread or the interpreter has called us: there is no frame of the user's.
        frame = _getframe(1)
    between = None
    while True:
        try:
            library = _known[frame.f_code.co_filename]
        except KeyError:
            library = _library(frame)
        if library is None or (outer := frame.f_back) is None:
            return frame, between
        if library != "syncblob":
            between = library
        frame = outer


def user_place(depth: int = 2) -> Place:
    """Note where the user's code is; `depth` as for `user_frame`."""
    frame, library = user_frame(depth)
    return Place(frame.f_code, frame.f_lasti, library)


def user_line() -> SourceLine:
    """Return the line where the user's code is."""
    frame, _ = user_frame(2)
    return SourceLine(frame.f_code.co_filename, frame.f_lineno)


def warn_user(message: str, category: type[Warning]) -> None:
    """Emit a warning at the line where the user's code is."""
    frame, _ = user_frame(2)
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )
