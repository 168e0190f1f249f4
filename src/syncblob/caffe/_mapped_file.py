"""A file whose bytes are seen through a mapping, so that only what is looked at is read."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MappedFile"]


class MappedFile:
    """A read-only mapping of a whole file.

    The file itself is closed again at once. The mapping lives as long as this object, or an array
    over it, does.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    OSError
        If the file cannot be opened or mapped.
    """

    __slots__ = ("_mapping", "path")

    path: str

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            # An empty file cannot be mapped.
            self._mapping: mmap.mmap | bytes | None = (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
            )

    def array(self) -> NDArray[np.uint8]:
        """Return the bytes of the file as a read-only array. Never copies.

        Raises
        ------
        ValueError
            After `close`.
        """
        if self._mapping is None:
            raise ValueError(
                f"{self.path} was closed before this part of it was read; keep the model open, "
                f"or touch its blobs (blob.cpu_data()) before closing it"
            )
        return np.frombuffer(self._mapping, np.uint8)

    def close(self) -> None:
        """Let go of the file. What has been read stays; what has not cannot be read any more."""
        # Unmapped with the last reference: an array in use, in another thread perhaps, keeps it.
        self._mapping = None
