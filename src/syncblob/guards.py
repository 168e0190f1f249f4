"""Limits on transfers, which every copy between the two sides asks for permission."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from syncblob._forks import Lock
from syncblob._source_lines import user_line
from syncblob._wording import counted
from syncblob.errors import TransferGuardError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

__all__ = ["TransferGuard", "max_transfers", "no_transfers", "permitted"]

_guards: ContextVar[tuple[TransferGuard, ...]] = ContextVar("syncblob_guards", default=())


class TransferGuard:
    """A limit on transfers inside a ``with`` block. Context-local; guards nest, and all count.

    Attributes
    ----------
    count, nbytes
        Transfers and bytes so far.
    """

    def __init__(self, max_count: int | None, max_bytes: int | None) -> None:
        self.count: int = 0
        self.nbytes: int = 0
        self._lock = Lock()
        self._max_count = max_count
        self._max_bytes = max_bytes

    def __enter__(self) -> Self:
        """Begin to guard."""
        _guards.set((*_guards.get(), self))
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop guarding. Other guards of this context stay, whichever block ends first."""
        guards = list(_guards.get())
        if self in guards:
            guards.reverse()
            guards.remove(self)
            guards.reverse()
        _guards.set(tuple(guards))

    def book(self, nbytes: int) -> None:
        """Count a transfer that was made."""
        with self._lock.held:
            self.count += 1
            self.nbytes += nbytes

    def require_room(self, direction: str, nbytes: int, reason: str) -> None:
        """Raise if a transfer would exceed this limit."""
        if self._max_count is not None and self.count + 1 > self._max_count:
            most = f"at most {counted(self._max_count, 'transfer')}"
            limit = most if self._max_count else "no transfers"
        elif self._max_bytes is not None and self.nbytes + nbytes > self._max_bytes:
            limit = f"at most {self._max_bytes} bytes"
        else:
            return
        allowed = f"{limit} allowed here"
        article = "an" if direction == "upload" else "a"
        so_far = f" after {self.count} of {self.nbytes} bytes" if self.count else ""
        raise TransferGuardError(
            f"{allowed}, and {reason} needs {article} {direction} of {nbytes} bytes{so_far}, "
            f"at {user_line().described()}",
            allowed,
        )


def no_transfers() -> TransferGuard:
    """Forbid transfers inside a ``with`` block.

    Raises
    ------
    TransferGuardError
        In the block, before a transfer is made; it names the line. Nothing has changed then.

    Examples
    --------
    >>> import syncblob
    >>> blob = syncblob.Blob(3, device="simulated")
    >>> blob.mutable_cpu_data()[...] = 1
    >>> with syncblob.no_transfers():
    ...     blob.gpu_data()
    Traceback (most recent call last):
    ...
    syncblob.errors.TransferGuardError: no transfers allowed here, and gpu_data needs ...
    """
    return TransferGuard(0, None)


def max_transfers(count: int | None = None, bytes: int | None = None) -> TransferGuard:  # noqa: A002  # what is limited
    """Limit the transfers inside a ``with`` block.

    Parameters
    ----------
    count
        How many there may be.
    bytes
        How many bytes they may move together.

    Raises
    ------
    TransferGuardError
        In the block, before the transfer that would exceed a limit.
    """
    limits = [limit for limit in (count, bytes) if limit is not None]
    if not limits or any(not isinstance(limit, int) or limit < 0 for limit in limits):
        raise TypeError(
            "max_transfers needs a count or a number of bytes, which are non-negative integers, "
            f"got count={count!r}, bytes={bytes!r}"
        )
    return TransferGuard(count, bytes)


def permitted(direction: str, nbytes: int, reason: str) -> Iterable[TransferGuard]:
    """Return the guards of this context, which a transfer that was made is booked with.

    Raises
    ------
    TransferGuardError
        If one of them forbids it.
    """
    guards = _guards.get()
    if not guards:
        return guards
    guards = tuple(set(guards))
    for guard in guards:
        guard.require_room(direction, nbytes, reason)
    return guards
