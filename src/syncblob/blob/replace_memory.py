"""Memories that a Blob outgrows or takes over: `resize`, `share_data`, `set_cpu_data`.

Each replaces as a whole: a failure or an interrupt leaves either all of the change or none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import setitem
from typing import TYPE_CHECKING, Any, SupportsIndex

from syncblob._layout import Layout
from syncblob._shape import as_shape, shape_from
from syncblob.arrays.native import buffer_of
from syncblob.blob.core import NOTHING_KEPT, BlobCore, Gradient, making
from syncblob.devices import Accelerator, Side
from syncblob.interop.shared_memory import name_of
from syncblob.memory import NO_SHORTCUT, OVERWRITE, SyncedMemory
from syncblob.memory.changes import leave
from syncblob.memory.loans import announcing

if TYPE_CHECKING:
    from syncblob._blob import Blob
    from syncblob.devices.base import Home


class Replacements(BlobCore):
    """The methods of a Blob that replace its memories, or their buffers."""

    __slots__ = ()

    def resize(self, *shape: SupportsIndex | Iterable[SupportsIndex]) -> None:
        """Change the shape in place: Caffe's ``Reshape``. Copies nothing.

        Within the capacity of the memory the contents are kept, in C order. Memory never shrinks:
        elements beyond a smaller shape keep their values, and are not transferred. Beyond the
        capacity, data and diff get new memory, the contents of both are discarded, borrows end,
        and Blobs that shared the old memory keep it; views keep both.

        ValueError if the dimensions are invalid, this Blob is a view, or more than its shared
        memory holds is needed; nothing changes then.
        """
        self.require_own("resize")
        layout = Layout.c_order(as_shape(shape_from(shape), self.dtype.itemsize), self.dtype)
        if layout.nbytes > self.memory.nbytes:
            data = _larger(self.memory, layout.nbytes)
            _replace_memories(self, data, None, layout, "a growing resize")
        else:
            _refit(self, layout, lambda: self.use_memory(self.memory, layout))

    def resize_like(self, other: Blob) -> None:
        """Take the shape of another Blob; see `resize`."""
        if not isinstance(other, BlobCore):
            raise TypeError(f"resize_like expects a Blob, got {type(other).__name__}; use resize")
        self.resize(other.shape)

    def set_cpu_data(self, array: Any) -> None:
        """Use an array as the host side of data, without a copy; its contents become newest.

        Newer contents on the accelerator are discarded. Later downloads write into the array.
        Views and Blobs that share data use the array too, unless this Blob was made smaller than
        its memory: then they keep that. Diff is unchanged.

        TypeError or ValueError unless this is a C-contiguous, aligned, writable array on the host,
        of this dtype and size, of NumPy or any library with DLPack.
        """
        self._replace_side(Side.HOST, array, "set_cpu_data")

    def set_gpu_data(self, array: Any) -> None:
        """Use an array as the accelerator side of data; see `set_cpu_data`.

        On a CUDA device, a CuPy array or any with ``__cuda_array_interface__`` or DLPack. On a
        simulated device, a NumPy array or any host array with DLPack.
        """
        self._replace_side(Side.ACCELERATOR, array, "set_gpu_data")

    def share_data(self, other: Blob) -> None:
        """Share the memory of another Blob's data, with its head and its buffers.

        Copies nothing. This Blob's own memory is released. A growing `resize` of either Blob ends
        the sharing. TypeError or ValueError unless the other Blob is C-contiguous, and has this
        dtype and count; its shape may differ.
        """
        self._share(other, "share_data", diff=False)

    def share_diff(self, other: Blob) -> None:
        """Share the memory of another Blob's diff; see `share_data`."""
        self._share(other, "share_diff", diff=True)

    def _replace_side(self, side: Side, array: Any, action: str) -> None:
        self.require_writable(action)
        if isinstance(array, BlobCore):
            raise TypeError(f"{action} expects an array, got a Blob; use share_data or copy_from")
        if not self.layout.contiguous or self.layout.offset:
            raise ValueError(f"{action} is for a C-contiguous Blob, and this is a strided view")
        memory, home = self.memory, self.home
        accelerator = home if isinstance(home, Accelerator) else memory.accelerator
        buffer = buffer_of(array, side, accelerator, self.layout)
        if self.layout.nbytes < memory.nbytes and self.base is None:
            # A Blob that is smaller than its memory gets another one, as in Caffe.
            successor = memory.successor(self.layout.nbytes)
            successor.replace_side(*buffer)
            _exchange(self, successor, action, diff=False)
            return
        memory.replace_side(*buffer)
        # Views of this Blob release the replaced buffer when they are next used.
        self.accessor_arrays = NOTHING_KEPT
        if self.raw_array is not None:
            # Replace the array at once: another thread may be about to use it.
            self.current_array()

    def _share(self, other: Blob, action: str, *, diff: bool) -> None:
        self.require_own(action)
        if not isinstance(other, BlobCore):
            raise TypeError(f"{action} expects a Blob, got {type(other).__name__}")
        if other.dtype != self.dtype:
            raise TypeError(f"{action} expects dtype {self.dtype}, got {other.dtype}")
        if other.size != self.size:
            raise ValueError(
                f"{action} expects {self.size} elements, shape {self.shape}, got {other.size}, "
                f"shape {other.shape}"
            )
        if not other.layout.contiguous or other.layout.offset or other.readonly:
            raise ValueError(
                f"{action} expects a writable C-contiguous Blob that starts where its memory "
                "starts; copy it first"
            )
        _exchange(self, other.memory_of(diff=diff), action, diff=diff)


def _exchange(blob: BlobCore, memory: SyncedMemory, action: str, *, diff: bool) -> None:
    """Replace the memory of data or diff, and keep the other."""
    # A signal handler or a warning hook may exchange the other before this is replaced. So each
    # looks at the gradient of that moment, and calls nothing from then on.
    existing, kept = blob.shared_gradient().memory, Gradient()

    def replace_data() -> None:
        blob.use_memory(memory, Layout.c_order(blob.shape, blob.dtype))
        gradient: Any = blob.gradient
        kept.memory = gradient.memory
        blob.gradient = kept

    def replace_diff() -> None:
        gradient: Any = blob.gradient
        blob.accessor_arrays = NOTHING_KEPT
        gradient.memory = memory

    if diff:
        _let_go(action, [(existing, memory)], replace_diff)
    else:
        _let_go(action, [(blob.memory, memory)], replace_data)


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

    Both data and diff get the shape; the contents are for diff instead of data with `diff`.
    `gradient` has contents for diff in addition.
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
            # An interrupt came as the lock was released. Let the memory learn of the write first.
            interrupt = error

    def finish() -> None:
        memory = blob.memory_of(diff=diff)
        memory.write(memory.side_of(home), OVERWRITE, new, reason, write, contents)

    try:
        if new is old:
            finish()
            return
        blob.require_own("resize")
        data = blob.memory
        if new.nbytes > data.nbytes:
            data = _larger(data, new.nbytes)
        elif not diff or new.nbytes <= blob.diff_memory().nbytes:
            _refit(blob, new, finish)
            return
        # A diff that is shared with a smaller Blob does not grow.
        successor = data.successor(data.nbytes) if diff else None
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
    name = name_of(memory)
    if name is not None:
        raise ValueError(
            f"expected at most {memory.nbytes} bytes, the size of this Blob's shared memory "
            f"{name!r}, which does not grow, got {nbytes}; make a larger Blob with "
            "Blob.in_shared_memory, and send it to the other processes"
        )
    return memory.successor(nbytes)


def _refit(blob: BlobCore, layout: Layout, finish: Callable[[], None]) -> None:
    """Apply a layout within the capacity. `finish` replaces the old one, or nothing has changed."""
    memory, gradient = blob.memory, blob.shared_gradient()
    diff = gradient.memory
    with memory.lock:
        if diff is None or layout.nbytes <= diff.nbytes:
            finish()
            return

    def leave_diff() -> None:
        with memory.lock:
            finish()
        if gradient.memory is diff:
            gradient.memory = None

    # The diff is that of another, smaller Blob. This Blob gets its own.
    _let_go("a growing resize", [(diff, None)], leave_diff)


def _replace_memories(
    blob: BlobCore, data: SyncedMemory, diff: SyncedMemory | None, layout: Layout, action: str
) -> None:
    """Replace the memories and the layout. Views keep the old memories, and their gradient."""
    gradient, old = Gradient(diff), blob.shared_gradient().memory

    def replace() -> None:
        blob.use_memory(data, layout)
        blob.gradient = gradient

    _let_go(action, [(blob.memory, data), (old, diff)], replace)


def _let_go(
    action: str,
    memories: Sequence[tuple[SyncedMemory | None, SyncedMemory | None]],
    replace: Callable[[], None],
) -> None:
    """Replace the first memory of each pair after warnings for its aliases, and end its borrows."""
    given_up = [old for old, new in memories if old is not None and old is not new]
    if given_up:
        announcing(given_up[0], action, leave, given_up[1:], replace)
    else:
        replace()
