"""Resize: a Blob gets another shape, and other memories if necessary.

A failure or an interrupt leaves either all of the change or none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from operator import setitem
from typing import TYPE_CHECKING, Any

from syncblob._layout import Layout
from syncblob._shape import as_shape
from syncblob.blob.core import NOTHING_KEPT, BlobCore, keep_diff, making
from syncblob.blob.views import shape_from
from syncblob.interop.shared_memory import name_of
from syncblob.memory import NO_SHORTCUT, OVERWRITE, SyncedMemory
from syncblob.memory.borrows_and_aliases import restore
from syncblob.memory.changes import leave
from syncblob.memory.stale_alias_warning import announcing

if TYPE_CHECKING:
    from syncblob.devices.base import Home


def resize(blob: BlobCore, shape: tuple[Any, ...]) -> None:
    """Change the shape in place; see `Blob.resize`."""
    blob._require_own("resize")
    dims = as_shape(shape_from(shape), blob.dtype.itemsize)
    layout = Layout.c_order(dims, blob.dtype)
    layout.whole = True
    if layout.nbytes > blob.memory.nbytes:
        data = _larger(blob.memory, layout.nbytes)
        _replace_memories(blob, data, None, layout, "a growing resize")
    else:
        _refit(blob, layout, lambda: blob._use(blob.memory, layout))


def assign(  # noqa: C901, PLR0913, PLR0915  # contents, where they go, and the reason
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

    def write(array: Any) -> None:
        nonlocal written, interrupt
        try:
            with making.held:
                # Plain assignments, so that no interrupt comes between them.
                array[...] = contents
                written = True
                if new is not old:
                    blob._placed = new
                    blob._array = None
                    blob._shortcut = NO_SHORTCUT
                    blob._kept = NOTHING_KEPT
        except BaseException as error:
            if not written:
                raise
            # It came as the lock was released. The memory must learn first that this has written.
            interrupt = error

    def finish() -> None:
        memory = blob._memory_of(diff=diff)
        memory.write(memory.side_of(home), OVERWRITE, new, reason, write)

    try:
        if new is old:
            finish()
            return
        blob._require_own("resize")
        new.whole = True
        if new.nbytes <= blob.memory.nbytes:
            if diff:
                blob._diff_memory()
            _refit(blob, new, finish)
            return
        data = _larger(blob.memory, new.nbytes)
        successor = data.successor(new.nbytes) if diff else None
        target = successor or data
        target.write(target.side_of(home), OVERWRITE, new, reason, setitem, ..., contents)
        try:
            _replace_memories(blob, data, successor, new, reason)
        finally:
            written = blob._held is data
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


def _refit(  # noqa: C901  # a change, in the order of its steps
    blob: BlobCore, layout: Layout, finish: Callable[[], None]
) -> None:
    """Apply a layout within the capacity, and fit both memories to it unless others use them.

    `finish` replaces the old layout. If it fails, nothing has changed.
    """
    nbytes = layout.nbytes
    # A view of data can also reach diff. No local name may refer to a memory yet, because the
    # reference count tells whether this Blob owns it alone.
    alone, diff_alone = blob._owns_data_alone(), blob._owns_diff_alone()
    # The shared diff of another Blob, now too small; this Blob gets its own.
    outgrown = blob._diff is not None and nbytes > blob._diff.nbytes
    fitting: list[SyncedMemory] = []
    if nbytes > blob.memory.used_nbytes or (alone and not blob.memory.aliased):
        fitting.append(blob.memory)
    if (
        blob._diff is not None
        and not outgrown
        and (nbytes > blob._diff.used_nbytes or (alone and diff_alone and not blob._diff.aliased))
    ):
        fitting.append(blob._diff)

    def refit() -> None:
        # Under the locks, also for undoing it, so that no other thread changes anything in between,
        # and that a forked child knows that the change is incomplete.
        with ExitStack() as locks:
            for memory in (blob.memory, *fitting):
                locks.enter_context(memory.ledger.lock)
            before = [memory.fitted() for memory in fitting]
            try:
                for memory in fitting:
                    memory.fit(nbytes)
                finish()
            except BaseException:
                if blob._placed is not layout:
                    for memory, fitted in zip(fitting, before, strict=True):
                        memory.refit(fitted)
                raise
        if outgrown:
            blob._diff = None

    if blob._diff is not None and outgrown:
        let_go("a growing resize", [(blob._diff, diff_alone)], refit)
    else:
        refit()


def _replace_memories(
    blob: BlobCore, data: SyncedMemory, diff: SyncedMemory | None, layout: Layout, action: str
) -> None:
    """Replace both memories and the layout."""
    # Before a local name refers to a memory: see `_refit`.
    alone, diff_alone = blob._owns_data_alone(), blob._owns_diff_alone()
    given_up = [(blob.memory, alone)]
    if blob._diff is not None:
        given_up.append((blob._diff, diff_alone))

    def replace() -> None:
        if not alone:
            keep_diff(blob)
        blob._use(data, layout)
        blob._diff = diff

    let_go(action, given_up, replace)


def let_go(
    action: str, given_up: list[tuple[SyncedMemory, bool]], replace: Callable[[], None]
) -> None:
    """Replace memories by others, after warnings for all their aliases.

    `given_up` has the memories, and for each whether this Blob owns it alone. If so, later writes
    to it would be lost, so its borrows become read-only. If `replace` fails, nothing has changed.
    """

    def give_up() -> None:
        revoked: list[Any] = []
        try:
            for memory, alone in given_up:
                for loans in memory.ledger.loans if alone else ():
                    loans.revoke(revoked, None, aliases=True)
            replace()
        except BaseException:
            restore(revoked)
            raise

    first, *others = [memory.ledger for memory, _ in given_up]
    announcing(first, action, leave, others, give_up)
