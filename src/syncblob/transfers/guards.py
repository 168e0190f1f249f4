"""Guards: limits on transfers, and on the device that computes.

Guards are context-local, like NumPy's ``errstate``: a library that guards its own code must not
affect other threads. A log observes a whole program, and therefore all threads.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from syncblob._formatting import noun, quantity
from syncblob._locks_lost_in_fork import Lock
from syncblob._source_lines import user_line
from syncblob.devices import Device, home_of, supervisors, timed_computations
from syncblob.errors import DeviceGuardError, TransferGuardError

if TYPE_CHECKING:
    from syncblob.devices.base import Home

_Function = TypeVar("_Function", bound="Callable[..., Any]")


@dataclass(slots=True, eq=False)
class _Block:
    """One run of a guarded block: its counts, and whether it has ended."""

    count: int = 0
    nbytes: int = 0
    # A task started in the block has a copy of the context, and may outlive the block.
    over: bool = False


# The guards and blocks that are running, outermost first. A guard nested in itself occurs
# repeatedly. A block does not refer to its guard, which would make a cycle.
running_guards: ContextVar[tuple[tuple[Guard, _Block], ...]] = ContextVar(
    "syncblob_guards", default=()
)

# Held while transfers are counted.
_counting = Lock()


class Guard(ContextDecorator):
    """A limit on transfers, or on the device of operations: a context manager and a decorator.

    It can be reused, and blocks may nest, also in several threads. Each ``with`` statement and each
    call of a decorated function is a new block, which counts from zero. It applies to its own
    context until it ends: the thread or asyncio task that runs it, and tasks started in it. The
    guards of all running blocks apply. A generator may be closed or finalised in another context
    than it began: that ends the innermost block of this guard there, or else its latest.
    """

    def __init__(self, max_count: int | None, max_bytes: int | None, device: Device | None) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        # The device that operations must run on.
        self.device = device
        # The running blocks of all contexts.
        self._blocks: list[_Block] = []
        self._latest = _Block()

    def __enter__(self) -> Self:
        """Begin a block."""
        block = _Block()
        try:
            self._begin(block)
            running_guards.set((*_running_blocks(), (self, block)))
        except BaseException:
            self._end(block)
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        """End the block. Other blocks of this context continue, whichever ends first."""
        block = self._innermost() or next(reversed([*self._blocks]), None)
        if block is not None:
            self._end(block)

    def __call__(self, function: _Function) -> _Function:
        """Decorate a function or a coroutine function; TypeError for others."""
        if not callable(function) or isinstance(function, type):
            raise TypeError(
                f"expected a function to guard, got {function!r}; of a class, decorate the methods"
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            name = getattr(function, "__qualname__", repr(function))
            raise TypeError(
                f"expected a function that returns when its work is done, got the generator "
                f"function {name}; guard the loop that uses it, or put a with statement around "
                "those of its lines that do not yield"
            )
        call: Any = function
        if not inspect.iscoroutinefunction(function):
            return super().__call__(function)

        @functools.wraps(call)
        async def call_in_block(*args: Any, **keywords: Any) -> Any:
            with self:
                return await call(*args, **keywords)

        return call_in_block  # type: ignore[return-value]  # also a coroutine function

    def _begin(self, block: _Block) -> None:
        self._blocks.append(block)
        self._latest = block
        if self.device is not None:
            supervisors.add(block)

    def _end(self, block: _Block) -> None:
        block.over = True
        try:
            running_guards.set(_running_blocks())
            with suppress(ValueError):
                self._blocks.remove(block)
            self._latest = block
        finally:
            supervisors.discard(block)

    def _innermost(self) -> _Block | None:
        """Return the innermost running block of this guard in this context."""
        blocks = [block for guard, block in _running_blocks() if guard is self]
        return blocks[-1] if blocks else None

    @property
    def count(self) -> int:
        """The number of transfers in the running block of this context, else in the last block."""
        return (self._innermost() or self._latest).count

    @property
    def nbytes(self) -> int:
        """The bytes of those transfers."""
        return (self._innermost() or self._latest).nbytes

    def limit_for(self, block: _Block, nbytes: int) -> str:
        """Return the limit that one more transfer would exceed in a block; empty if none."""
        if self._max_count is not None and block.count + 1 > self._max_count:
            most = f"at most {quantity(self._max_count, 'transfer')}"
            return most if self._max_count else "no transfers"
        if self._max_bytes is not None and block.nbytes + nbytes > self._max_bytes:
            return f"at most {self._max_bytes} bytes"
        return ""


def _running_blocks() -> tuple[tuple[Guard, _Block], ...]:
    """Return the running blocks of this context, without those ended in another context."""
    return tuple(pair for pair in running_guards.get() if not pair[1].over)


# --- limits on transfers -------------------------------------------------------------------------


def no_transfers() -> Guard:
    """Forbid transfers inside a ``with`` block or a decorated function; see `max_transfers`.

    An access that needs one raises a TransferGuardError with its line, and nothing changes.
    """
    return Guard(0, None, None)


def max_transfers(count: int | None = None, bytes: int | None = None) -> Guard:  # noqa: A002  # named after what it limits
    """Limit the transfers inside a ``with`` block, or in each call of a decorated function.

    `count` is the maximal number of transfers, and `bytes` that of their bytes, in total. An access
    that would exceed a limit raises a TransferGuardError with its line, and nothing changes.
    """
    limits = [limit for limit in (count, bytes) if limit is not None]
    if not limits or any(not isinstance(limit, (int, np.integer)) or limit < 0 for limit in limits):
        raise TypeError(
            "max_transfers needs a count or a number of bytes, which are non-negative integers, "
            f"got count={count!r}, bytes={bytes!r}"
        )
    return Guard(count, bytes, None)


def count_transfer(direction: str, nbytes: int, reason: str, name: str) -> Sequence[_Block]:
    """Count a transfer that is about to begin in the blocks of this context, if they permit it.

    Return the blocks, for `uncount_transfer` if the transfer fails. `name` is that of the Blob.
    """
    blocks: list[_Block] = []
    # Threads may run in one context: no other transfer is checked before this one is counted.
    with _counting.held:
        for guard, block in running_guards.get():
            if not block.over:
                limit = guard.limit_for(block, nbytes)
                if limit:
                    break
                blocks.append(block)
        else:
            for block in blocks:
                block.count += 1
                block.nbytes += nbytes
            return blocks
    allowed = f"{limit} allowed here"
    article = "an" if direction == "upload" else "a"
    named = f" of {name}" if name else ""
    so_far = f" after {block.count} of {block.nbytes} bytes" if block.count else ""
    raise TransferGuardError(
        f"{allowed}, and {reason} needs {article} {noun(direction)} of {nbytes} bytes{named}"
        f"{so_far}, at {user_line().describe()}",
        allowed,
    )


def uncount_transfer(blocks: Sequence[_Block], nbytes: int) -> None:
    """Undo the count of a transfer that failed."""
    with _counting.held:
        for block in blocks:
            block.count -= 1
            block.nbytes -= nbytes


# --- the device of operations --------------------------------------------------------------------


def compute_only_on(device: Device | str) -> Guard:
    """Forbid operations on other devices inside a ``with`` block, or in a decorated function.

    Operations are operators, functions of the array API, of NumPy and of PyTorch, assignments,
    indexing by arrays, `astype`, a `reshape` that copies, and Caffe's sums, `scale_data`, `update`
    and `copy_from`. So are functions that create Blobs, such as `zeros`. Everything else is allowed
    on every device: reading elements, the accessors, views, protocols, `copy` and `to_device`.

    The guard does not restrict transfers. An operation with operands on the host and on an
    accelerator runs on the accelerator, and uploads what it needs: `no_transfers` forbids that.

    An operation that would run elsewhere raises a DeviceGuardError with its line, and nothing
    changes. Raises NoDeviceError if the device is not available.
    """
    return Guard(None, None, home_of(device).device)


def require_device(device: Device, name: str, advice: str = "") -> None:
    """Raise a DeviceGuardError if a guard of this context forbids operations on a device.

    `name` is the operation. `advice` replaces that of moving the operands to the other device.
    """
    for guard, block in running_guards.get():
        if (
            guard.device is not None
            # Comparing them takes time, and they are usually one object.
            and guard.device is not device
            and guard.device != device
            and not block.over
        ):
            wanted = str(guard.device)
            raise DeviceGuardError(
                f"only {wanted} may compute here, and {name} would run on {device}, at "
                f"{user_line().describe()}; "
                + (advice or f'make its Blobs with device="{wanted}", or use .on("{wanted}")')
            )


def may_compute_directly(home: Home, name: str) -> bool:
    """Return whether NumPy may compute with arrays of a home, once the guards have permitted it.

    Hot callers look for `supervisors` themselves to save the call.
    """
    if not home.plain or timed_computations.watchers:
        # Logs of operations time what `Home.compute` calls.
        return False
    require_device(home.device, name)
    return True
