"""Sources: the initial contents of a memory, read when its bytes are first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from syncblob.memory.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Function = Callable[[], NDArray[np.uint8]]


class Source:
    """The initial contents of a memory, read part by part.

    Parameters
    ----------
    function
        As for `SyncedMemory`. Its result is kept until every byte has been used, and it is not
        called twice before that, unless it fails.
    nbytes
        The number of bytes that the function returns.

    Attributes
    ----------
    limit
        Bytes from here on read as zeros: they went out of use before they were read.
    unwritten
        A map with 1 for the bytes that can be read again: nobody has written them since.
    """

    __slots__ = (
        *("_again", "_contents", "_function", "_nbytes", "_read_into"),
        *("limit", "unwritten"),
    )

    limit: int

    def __init__(self, function: Function, nbytes: int) -> None:
        self._function: Function | None = function
        self._read_into = getattr(function, "read_into", None)
        self._again: Callable[[], Function | None] | None = getattr(function, "again", None)
        self.unwritten: Spans = Spans.whole(nbytes, int(self._again is not None))
        self._nbytes = nbytes
        self._contents: NDArray[np.uint8] | None = None
        self.limit = nbytes

    @property
    def complete(self) -> bool:
        """Whether no byte that the function returns has gone out of use."""
        return self.limit == self._nbytes

    def rest(self) -> Source | None:
        """Let go of what has been used completely; return what can be read again, or None."""
        if not any(self.unwritten.holders):
            return None
        self._function = self._read_into = self._contents = None
        return self

    def reopen(self) -> bool:
        """Prepare to be read again, whatever is closed from now on; return whether that works."""
        function = None if self._again is None else self._again()
        if function is not None:
            self._function, self._read_into = function, getattr(function, "read_into", None)
        return function is not None

    def contents(self) -> NDArray[np.uint8]:
        """Return all bytes. Read-only for the caller.

        Raises
        ------
        TypeError, ValueError
            If the function returns something else.
        """
        contents = self._contents
        if contents is None:
            contents = self._function()  # type: ignore[misc]  # it is needed
            expected = f"expected a source of {self._nbytes} bytes in a one-dimensional uint8 array"
            if not isinstance(contents, np.ndarray):
                raise TypeError(f"{expected}, got {type(contents).__name__}")
            if contents.shape != (self._nbytes,) or contents.dtype != np.uint8:
                raise ValueError(f"{expected}, got {contents.dtype} of shape {contents.shape}")
            self._contents = contents
        return contents

    def part(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return a range of the bytes below the limit. Read-only for the caller."""
        everything = stop - start == self._nbytes
        if self._read_into is None or self._contents is not None or everything:
            return self.contents()[start:stop]
        part = np.empty(stop - start, np.uint8)
        self._read_into(part, start)
        return part

    def fill(self, buffer: NDArray[np.uint8], start: int) -> None:
        """Fill a host buffer with the bytes from `start` on; with zeros beyond the limit."""
        known = max(0, min(self.limit - start, len(buffer)))
        if known:
            if self._read_into is not None:
                self._read_into(buffer[:known], start)
            else:
                buffer[:known] = self.contents()[start : start + known]
        buffer[known:] = 0

    def peek(self) -> NDArray[np.uint8]:
        """Return all bytes, and keep nothing."""
        if self._read_into is not None:
            contents = np.empty(self._nbytes, np.uint8)
            self._read_into(contents, 0)
            return contents
        kept = self._contents
        contents = self.contents()
        self._contents = kept
        return contents
