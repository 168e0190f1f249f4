"""Resize: a Blob gets another shape, and other memories if necessary.

A failure or an interrupt leaves either all of the change or none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import setitem
from typing import TYPE_CHECKING, Any

from syncblob._layout import Layout
from syncblob._shape import as_shape, shape_from
from syncblob.blob.core import NOTHING_KEPT, BlobCore, keep_diff, making
from syncblob.interop.shared_memory import name_of
from syncblob.memory import NO_SHORTCUT, OVERWRITE, SyncedMemory
from syncblob.memory.changes import leave
from syncblob.memory.loans import announcing, restore

if TYPE_CHECKING:
    from syncblob.devices.base import Home


def resize(blob: BlobCore, shape: tuple[Any, ...]) -> None:
    """Change the shape in place; see `Blob.resize`."""
    blob.require_own("resize")
    dims = as_shape(shape_from(shape), blob.dtype.itemsize)
    layout = Layout.c_order(dims, blob.dtype)
    if layout.nbytes > blob.memory.nbytes:
        data = _larger(blob.memory, layout.nbytes)
        _replace_memories(blob, data, None, layout, "a growing resize")
    else:
        _refit(blob, layout, lambda: blob.use_memory(blob.memory, layout))


def assign(  # noqa: C901, PLR0913  # contents, where they go, and the reason
    blob: BlobCore,
    contents: Any,
    layout: Layout,
    home: Home,
    reason: str,
    *,
    diff: bool = False,
    gradient: Any = None,
) -> None:
    """Resize to a shape, and write contents of that shape in one home.

    A failure or an interrupt leaves either all of the change or none of it. Both data and diff get
    the shape; the contents are for diff instead of data with `diff`. `gradient` has contents for
    diff in addition.
    """
    old = blob.layout
    new = old if layout.shape == old.shape else layout
    written = False
    interrupt: BaseException | None = None

    def write(array: Any, contents: Any) -> None:
        nonlocal written, interrupt
        try:
            with making.held:
                # Plain assignments, so that no interrupt comes between them.
                array[...] = contents
                written = True
                if new is not old:
                    blob.known_layout = new
                    blob.raw_array = None
                    blob.shortcut = NO_SHORTCUT
                    blob.accessor_arrays = NOTHING_KEPT
        except BaseException as error:
            if not written:
                raise
            # It came as the lock was released. The memory must learn first that this has written.
            interrupt = error

    def finish() -> None:
        memory = blob.memory_of(diff=diff)
        memory.write(memory.side_of(home), OVERWRITE, new, reason, write, contents)

    try:
        if new is old:
            finish()
            return
        blob.require_own("resize")
        if new.nbytes <= blob.memory.nbytes:
            if diff:
                blob.diff_memory()
            _refit(blob, new, finish)
            return
        data = _larger(blob.memory, new.nbytes)
        successor = data.successor(new.nbytes) if diff else None
        target = successor or data
        target.write(target.side_of(home), OVERWRITE, new, reason, setitem, ..., contents)
        try:
            _replace_memories(blob, data, successor, new, reason)
        finally:
            written = blob.known_memory is data
    finally:
        if written and gradient is not None:
            try:
                assign(blob, gradient, new, home, reason, diff=True)
            except BaseException:
                # Data is written, so diff must be written even after an interrupt.
                assign(blob, gradient, new, home, reason, diff=True)
                raise
        if interrupt is not None:
            raise interrupt


def _larger(memory: SyncedMemory, nbytes: int) -> SyncedMemory:
    """Return a new memory in place of one, unless other processes may share that."""
    name = name_of(memory.ledger)
    if name is not None:
        raise ValueError(
            f"expected at most {memory.nbytes} bytes, the size of this Blob's shared memory "
            f"{name!r}, which does not grow, got {nbytes}; make a larger Blob with "
            "Blob.in_shared_memory, and send it to the other processes"
        )
    return memory.successor(nbytes)


def _refit(blob: BlobCore, layout: Layout, finish: Callable[[], None]) -> None:
    """Apply a layout within the capacity. `finish` replaces the old one, or nothing has changed."""
    memory, diff = blob.memory, blob.own_diff
    with memory.ledger.lock:
        if diff is None or layout.nbytes <= diff.nbytes:
            finish()
            return

    def leave_diff() -> None:
        with memory.ledger.lock:
            finish()
        blob.own_diff = None

    # It is that of another Blob. This one gets its own.
    let_go("a growing resize", [diff], leave_diff)


def _replace_memories(
    blob: BlobCore, data: SyncedMemory, diff: SyncedMemory | None, layout: Layout, action: str
) -> None:
    """Replace both memories and the layout."""
    given_up = [blob.memory] if blob.own_diff is None else [blob.memory, blob.own_diff]

    def replace() -> None:
        keep_diff(blob)
        blob.use_memory(data, layout)
        blob.own_diff = diff

    let_go(action, given_up, replace)


def let_go(action: str, given_up: list[SyncedMemory], replace: Callable[[], None]) -> None:
    """Replace memories by others, after warnings for all their aliases.

    Borrows of these memories end, because writes through them may be lost. If `replace` fails,
    nothing has changed.
    """

    def give_up() -> None:
        revoked: list[Any] = []
        try:
            for memory in given_up:
                memory.ledger.loans.revoke(revoked, -1, None, aliases=True)
            replace()
        except BaseException:
            restore(revoked)
            raise

    first, *others = [memory.ledger for memory in given_up]
    announcing(first, action, leave, others, give_up)
