"""Sources: the initial contents of a memory, read when its bytes are first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.memory.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Function = Callable[[], NDArray[np.uint8]]


class Source:
    """The initial contents of a memory, read part by part.

    The result of the function is kept until every byte has been used. It is not called twice before
    that, unless it fails.
    """

    __slots__ = ("_again", "_contents", "_function", "_nbytes", "unwritten")

    def __init__(self, function: Function, nbytes: int) -> None:
        self._function: Any = function
        self._again: Callable[[], Function | None] | None = None
        can_be_read_again = getattr(function, "again", None) is not None
        # With 1 for the bytes that can be read again: nobody has written them since.
        self.unwritten: Spans = Spans.whole(nbytes, int(can_be_read_again))
        self._nbytes = nbytes
        self._contents: NDArray[np.uint8] | None = None

    def rest(self) -> Source | None:
        """Let go of what has been used completely; return what can be read again, or None."""
        if not any(self.unwritten.holders):
            return None
        if self._function is not None:
            # Unlike the function, this does not keep a file open.
            self._again = self._function.again
            self._function = self._contents = None
        return self

    def reopen(self) -> bool:
        """Prepare to be read again, whatever is closed from now on; return whether that works."""
        again = self._again or getattr(self._function, "again", None)
        function = None if again is None else again()
        if function is not None:
            self._function = function
        return function is not None

    def _opened(self) -> Any:
        """Return the function, read again if a signal handler has used all of it meanwhile."""
        if self._function is None:
            self.reopen()
        return self._function

    def contents(self) -> NDArray[np.uint8]:
        """Return all bytes. Read-only for the caller."""
        contents = self._contents
        if contents is None:
            contents = self._opened()()
            expected = f"expected a source of {self._nbytes} bytes in a one-dimensional uint8 array"
            if not isinstance(contents, np.ndarray):
                raise TypeError(f"{expected}, got {type(contents).__name__}")
            if contents.shape != (self._nbytes,) or contents.dtype != np.uint8:
                raise ValueError(f"{expected}, got {contents.dtype} of shape {contents.shape}")
            self._contents = contents
        return contents

    def part(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return a range of the bytes. Read-only for the caller."""
        if self._contents is not None or stop - start == self._nbytes:
            return self.contents()[start:stop]
        return self._copy(start, stop)

    def fill(self, buffer: NDArray[np.uint8], start: int) -> None:
        """Fill a host buffer with the bytes from `start` on."""
        read_into = getattr(self._opened(), "read_into", None)
        if read_into is None:
            buffer[:] = self.contents()[start : start + len(buffer)]
        else:
            read_into(buffer, start)

    def peek(self) -> NDArray[np.uint8]:
        """Return all bytes, and keep nothing."""
        kept = self._contents
        contents = self._copy(0, self._nbytes)
        self._contents = kept
        return contents

    def _copy(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return a range of the bytes, read for the caller if parts can be read."""
        if not hasattr(self._opened(), "read_into"):
            return self.contents()[start:stop]
        part = np.empty(stop - start, np.uint8)
        self.fill(part, start)
        return part
