"""Copies between the sides, which the guards permit and the open logs record."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._formatting import noun
from syncblob._locks_lost_in_fork import Lock
from syncblob._source_lines import SourceLine, user_instruction
from syncblob._weak_list import WeakList
from syncblob.devices.base import Push
from syncblob.transfers.guards import count_transfer, running_guards, uncount_transfer

if TYPE_CHECKING:
    from syncblob.devices.base import Accelerator
    from syncblob.devices.device import Device
    from syncblob.transfers.log import TransferLog


# What the reasons of automatic evictions begin with.
EVICTION = "eviction for "


class Transfer(NamedTuple):
    """One copy between two sides of a memory.

    Attributes
    ----------
    direction
        ``"upload"`` (host to accelerator), ``"download"``, or ``"peer"`` (between accelerators).
    seconds
        The duration of the call; for an asynchronous upload, of starting it.
    reason, line
        The access that needed it, for example ``"gpu_data"`` or ``"__array__"``, and its line.
    device
        The accelerator; of a peer copy, the one that it goes to.
    memory, name
        A number that identifies the memory, and its name; 0 for a copy of what has none, such as an
        ndarray.
    nbytes, offset
        The number of bytes copied, and the first of them, from the start of the memory.
    start, arrived
        The time at which it started, in seconds of `time.perf_counter`, and the one at which an
        asynchronous upload had arrived: None for others, while it runs, and if its device cannot
        tell.
    asynchronous
        Whether it was started by ``async_gpu_push``.
    because
        The reason if the next access will copy again: a writable alias of the source side, or the
        line that exposed that side. Empty otherwise.
    """

    direction: str
    nbytes: int
    seconds: float
    reason: str
    device: Device
    line: SourceLine
    memory: int = 0
    start: float = 0.0
    asynchronous: bool = False
    because: str = ""
    offset: int = 0
    name: str = ""
    arrived: float | None = None

    def __str__(self) -> str:
        """Describe the transfer in one line."""
        again = f"; again at each access, because of {self.because}" if self.because else ""
        named = f" of {self.name}" if self.name else ""
        at = f" from byte {self.offset}" if self.offset else ""
        return (
            f"{noun(self.direction)} of {self.nbytes} bytes{named}{at} for {self.reason} at "
            f"{self.line.describe()}{again}"
        )


# --- the logs that are open ----------------------------------------------------------------------

# Every access looks whether there are any.
open_logs: list[TransferLog] = []
_open_logs_lock = Lock()
_generation = 0

# The ledgers whose shortcuts are revoked when a log is opened while none was open: it records the
# next accesses.
followers: WeakList = WeakList()


def open_log(log: TransferLog) -> None:
    """Start recording transfers in a log."""
    global _generation  # noqa: PLW0603  # counts for the process
    with _open_logs_lock.held:
        first = not open_logs
        open_logs.append(log)
        if first:
            # Before the calls below: a memory that compares the number from now on sees the log.
            _generation += 1
    if first:
        for ledger in followers.living():
            ledger.revoke_shortcuts()


def close_log(log: TransferLog) -> None:
    """Stop recording transfers in a log."""
    with _open_logs_lock.held, suppress(ValueError):
        open_logs.remove(log)


def log_generation() -> int:
    """Return a number that changes when a log is opened while none was open."""
    return _generation


def count(what: str, nbytes: int) -> None:
    """Count in the open logs what was ``"avoided"``, or a buffer that gets ``"shared"``."""
    for log in [*open_logs]:
        log.count(what, nbytes)


def count_eviction(memory: int, start: int, stop: int) -> None:
    """Record in the open logs that a range of a memory has left an accelerator to make room."""
    for log in [*open_logs]:
        log.add_eviction(memory, start, stop)


# --- the copies ----------------------------------------------------------------------------------


class Copying(NamedTuple):
    """The description of copies, for the logs and the guards."""

    accelerator: Accelerator
    reason: str
    memory: int
    name: str = ""
    because: Callable[[], str] | None = None


def transfer(
    copying: Copying, direction: str, nbytes: int, offset: int, copy: Callable[..., Any], *args: Any
) -> Any:
    """Copy if the guards permit, count the copy in them, and record it in the open logs.

    `direction` is that of `Transfer`, and `offset` the first byte in the memory. `copy` is a
    function of the accelerator, called with `args`. An asynchronous copy returns a Push.
    """
    guarded = running_guards.get()
    if not (open_logs or guarded):
        return copy(*args)
    blocks = count_transfer(direction, nbytes, copying.reason, copying.name) if guarded else ()
    start = time.perf_counter()
    try:
        result = copy(*args)
    except BaseException:
        uncount_transfer(blocks, nbytes)
        raise
    if not open_logs:
        return result
    seconds = time.perf_counter() - start
    arrival = result.arrival if isinstance(result, Push) else None
    device, reason, memory, name, because = copying
    # The line and `because` take longer. The log finds them when the transfer is read.
    noted: Any = user_instruction()
    later: Any = because or ""
    of, apart = device.device, arrival is not None
    made = Transfer(
        direction, nbytes, seconds, reason, of, noted, memory, start, apart, later, offset, name
    )
    for log in [*open_logs]:
        log.add(made, arrival)
    return result
