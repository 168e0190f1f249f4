"""Verified const: detecting writes through read-only exports.

Some consumers ignore the read-only flag. Inside `verified_const`, every const export through a
protocol is recorded with a checksum of its bytes. The checksum is compared when the export ends and
at each later use of the memory. A consumer may keep the address and write after the export has
ended, so the checksum is kept until the bytes are written by right, or the block ends.
"""

from __future__ import annotations

import warnings
import zlib
from contextlib import ContextDecorator, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._source_lines import Place, user_instruction
from syncblob._weak_list import Reference, WeakList
from syncblob.devices import supervisors
from syncblob.errors import ConstWriteWarning

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from syncblob._source_lines import NotedPlace
    from syncblob.devices.base import Side

# The number of exports of one memory that have ended and are still checked.
_MOST_ENDED = 64

# The blocks that are open, in any thread.
_blocks: set[object] = set()
_watches = WeakList()


class _Verification(ContextDecorator):
    """A guard that can be reused: each ``with`` statement is a block of its own."""

    def __init__(self) -> None:
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        self._entered.append(_block())
        self._entered[-1].__enter__()

    def __exit__(self, *_exception: object) -> None:
        self._entered.pop().__exit__(None, None, None)


def verified_const() -> AbstractContextManager[None]:
    """Check const exports made inside a ``with`` block, in the whole process. For debugging.

    A `ConstWriteWarning` at the line of the export reports a consumer that writes through it. It
    names a library that called the protocol from Python. It is emitted when the consumer releases
    the export, at a later use of the memory, or when the block ends. Each check reads all bytes of
    the export; those of an accelerator are copied to the host for that. Exports that have ended are
    checked, too, the last 64 of each memory, until their bytes are written by right or the block
    ends.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import syncblob
    >>> blob = syncblob.Blob(3)
    >>> with syncblob.verified_const(), warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     array = np.from_dlpack(blob.const)
    ...     address = array.__array_interface__["data"][0]
    ...     _ = np.ctypeslib.ctypes.memset(address, 1, 4)
    ...     _ = blob.cpu_data()
    >>> caught[0].category.__name__
    'ConstWriteWarning'
    """
    return _Verification()


@contextmanager
def _block() -> Iterator[None]:
    block = object()
    try:
        _blocks.add(block)
        supervisors.add(block)
        yield
    finally:
        supervisors.discard(block)
        _blocks.discard(block)
        for watch in [] if _blocks else _watches.living():
            watch.compare_if_idle()


def verifying() -> bool:
    """Tell whether const exports are to be checked."""
    return bool(_blocks)


class Check(Reference):
    """A const export under watch, which is kept when it has ended."""

    __slots__ = ("checksum", "kind", "noted", "over", "side", "start", "stop")

    # The protocol, the range, and the fields of the place that made it.
    kind: str
    side: Side
    start: int
    stop: int
    noted: NotedPlace
    # That of its bytes; None until it was first computed.
    checksum: int | None
    # Whether it had ended when the checksum was last compared.
    over: bool

    def report(self) -> None:
        """Emit the warning, at the line of the export."""
        place = Place(*self.noted)
        line = place.line
        warnings.warn_explicit(
            f"{place.library or 'a consumer'} wrote through the const {self.kind} export of "
            f"the {self.side.name.lower()} side made at {line.describe()}; the other side may "
            "hold older contents now",
            ConstWriteWarning,
            line.filename,
            line.lineno,
        )


class Watch:
    """The const exports of one memory that are checked. For use under its lock."""

    __slots__ = ("__weakref__", "_checks", "_lock", "_window_over")

    def __init__(self, lock: threading.RLock, window_over: Callable[..., Any]) -> None:
        self._lock = lock
        # Returns the window of a side that contains a range.
        self._window_over = window_over
        self._checks: list[Check] = []
        _watches.add(self)

    @property
    def idle(self) -> bool:
        """Whether nothing is watched any more."""
        return not self._checks

    @property
    def lives(self) -> bool:
        """Whether an export that is watched has not ended."""
        return any(check() is not None for check in self._checks)

    def add(self, target: object, kind: str, side: Side, start: int, stop: int) -> Check:
        """Add an export of a range of a side that lives as long as `target`, for `update`."""
        check = Check(target, self.compare_if_idle)
        check.kind, check.side, check.start, check.stop = kind, side, start, stop
        check.noted, check.checksum, check.over = user_instruction(), None, False
        # Of those that have ended, the last one of each range is enough.
        ended = [each for each in self._checks if each.over]
        alike = [
            each for each in ended if (each.side, each.start, each.stop) == (side, start, stop)
        ]
        dropped = alike or ended[:-_MOST_ENDED]
        self._checks = [each for each in self._checks if each not in dropped] + [check]
        return check

    def compare(self) -> None:
        """Report the exports whose bytes have changed. After the block, forget those that ended."""
        changed = [check for check in self._checks if self.update(check)]
        # Of several, those that had ended before are the least likely to have been written through.
        suspects = [check for check in changed if not check.over] or changed
        for check in self._checks:
            check.over = check() is None
        if not verifying():
            self._checks = [check for check in self._checks if not check.over]
        for check in suspects:
            check.report()

    def renew(self, side: Side, start: int, stop: int) -> None:
        """Accept the current bytes of a range of one side: a transfer has written them."""
        for check in self._over(side, start, stop):
            self.update(check)

    def drop(self, side: Side, start: int, stop: int) -> None:
        """Stop watching a range of one side: its bytes may change legitimately from now on."""
        dropped = self._over(side, start, stop)
        self._checks = [check for check in self._checks if check not in dropped]

    def _over(self, side: Side, start: int, stop: int) -> list[Check]:
        return [x for x in self._checks if x.side is side and x.start < stop and start < x.stop]

    def update(self, check: Check) -> bool:
        """Compute the checksum of an export, and return whether it has changed."""
        window: Any = self._window_over(check.side, check.start, check.stop)
        if window is None:
            # A signal handler has evicted it while the export was made.
            return False
        part = window.part(check.start, check.stop)
        array: np.ndarray[Any, Any] = part if isinstance(part, np.ndarray) else part.get()
        before, check.checksum = check.checksum, zlib.crc32(array.data)
        return before is not None and check.checksum != before

    def compare_if_idle(self, _: object = None) -> None:
        """Compare, unless the memory is in use: an export or the block has ended."""
        # If the lock is taken, the memory is in use, and its next access compares. This thread may
        # have it: the garbage collector runs at any time, also in the middle of a transfer.
        own = self._lock._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001  # no public way
        if not own and self._lock.acquire(blocking=False):
            try:
                self.compare()
            finally:
                self._lock.release()
