"""Lending the bytes of a memory: the three kinds of arrays that it gives.

`array` is for work that is over when the caller returns, `lend` makes borrows, and `export` makes
aliases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._source_lines import user_place
from syncblob.devices import CPU, Side
from syncblob.state_machine import Access, Head, StateMachine, Unannounced
from syncblob.transfers import avoided, recording
from syncblob.verification import Watch, verifying

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from syncblob._shape import Layout
    from syncblob._source_lines import Place
    from syncblob.aliases import HandedOut, Lease
    from syncblob.devices import Device

__all__ = ["Lending"]


class Lending(StateMachine):
    """A memory that can be looked at and lent."""

    __slots__ = ()

    @property
    def device(self) -> Device:
        """The device last written to; before the first write, the one asked for."""
        if self._written is Side.HOST or self._accelerator is None:
            return CPU
        return self._accelerator.device

    @property
    def side(self) -> Side:
        """The side of `device`."""
        return self._written

    @property
    def blank(self) -> bool:
        """Whether it reads as zeros because nobody has touched it and it has no source."""
        return not self._head and self._source is None

    def holds_newest(self, side: Side) -> bool:
        """Tell whether an access on `side` needs no transfer."""
        return not self._head or bool(self._head & (1 << side))

    def newest(self, side: int) -> Any:
        """Return a side's buffer if reading it is all that a const access has to do, else None."""
        if not self._head & (1 << side) or self._watch is not None:
            return None
        # Reading on the host does not wait for an upload.
        return self._buffers[side] if self._pending is None or not side else None

    def buffer(self, side: Side) -> Any:
        """Return the buffer of one side, whatever it holds; None where there is none."""
        return self._buffers[side]

    # --- arrays ----------------------------------------------------------------------------------

    def array(self, side: Side, access: Access, layout: Layout, reason: str) -> Any:
        """Make one side fit for an access and return an array over it. Copies as the table says.

        For work that is over when the caller returns; what is kept longer is for `lend` and
        `export`.

        Parameters
        ----------
        side
            Where the caller wants to work.
        access
            What it is going to do. An overwrite that does not cover the bytes in use is treated
            as mutable.
        layout
            The array to return.
        reason
            The name of the access, for the journal.

        Returns
        -------
        array
            A NumPy array (host, simulated) or a CuPy array. Read-only for a const access, where
            the library has read-only arrays.

        Warns
        -----
        StaleAliasWarning
            If the access may write, and a writable alias of the other side is alive.
        """
        if (
            access is Access.CONST
            and self._head & (1 << side)
            and self._pending is None
            and self._watch is None
        ):
            # No state can change, so no lock is needed: the head is always set last.
            if recording() and self.on_both_sides:
                avoided(self._used)
            return self.home(side).view(self._buffers[side], layout, writable=False)
        try:
            with self._lock:
                return self._array(side, access, layout, reason, ())
        except Unannounced as found:
            return self._announcing(found.stale, reason, self._array, side, access, layout, reason)

    def write(  # an access, and what is done in it
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        function: Callable[..., Any],
        *args: Any,
    ) -> None:
        """Make one side fit for an access, and write into an array over it, as one step.

        What an overwrite forgets, newer contents on the other side, is kept until the function has
        returned. So the contents are the old ones or the new ones, also where it is interrupted.

        Parameters
        ----------
        side, access, layout, reason
            As for `array`.
        function, args
            What is called, under the lock: with a writable array over `side`, then `args`.

        Warns
        -----
        StaleAliasWarning
            As for `array`.
        """
        try:
            with self._lock:
                self._write(side, access, layout, reason, function, args, ())
        except Unannounced as found:
            self._announcing(
                found.stale, reason, self._write, side, access, layout, reason, function, args
            )

    def lend(self, side: Side, access: Access, layout: Layout, reason: str) -> Any:
        """Return an array as `array` does, as a borrow: it can lose its write permission."""
        if access is Access.CONST:
            return self.array(side, access, layout, reason)
        try:
            with self._lock:
                return self._borrow(side, access, layout, reason, ())
        except Unannounced as found:
            return self._announcing(found.stale, reason, self._borrow, side, access, layout, reason)

    def lend_again(
        self, side: int, buffer: Any, template: NDArray[Any] | None
    ) -> NDArray[Any] | None:
        """Return a writable borrow, as `lend` does, if nothing has to be done for it.

        Parameters
        ----------
        side
            Where NumPy can write.
        buffer
            The buffer of that side, as it was when `template` was made.
        template
            A writable array over it that nobody else has: the borrow is a view of it. None where
            there is no such array.

        Returns
        -------
        ndarray or None
            None if there is another buffer now, or something to do: then it is left to `lend`.
        """
        if template is None or not (
            self._sole is buffer or (self._steady is buffer and not recording())
        ):
            return None
        array = template.view()
        self._handed_out[side].borrows.add(array)
        # What changes anything takes `_steady` back before it looks for borrows and aliases.
        return array if self._steady is buffer else None

    def export_again(
        self, buffer: Any, template: NDArray[Any] | None, kind: str
    ) -> NDArray[Any] | None:
        """Return a writable alias on the host, as `export` does, if nothing has to be done for it.

        Parameters
        ----------
        buffer, template
            As for `lend_again`.
        kind
            What the warning calls it. Its consumer keeps the array itself, as those of DLPack do,
            and not what NumPy takes for the base of its views.

        Returns
        -------
        ndarray or None
            As for `lend_again`.
        """
        if template is None or not (
            self._sole is buffer or (self._steady is buffer and not recording())
        ):
            return None
        array = template.view()
        self._handed_out[0].lease(array, kind)
        return array if self._steady is buffer else None

    def export(  # noqa: PLR0913, PLR0917  # an access, and whom it is for
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        kind: str,
        target: object | None = None,
    ) -> Any:
        """Return an array as `array` does, as an alias: its consumer may keep it.

        Parameters
        ----------
        side, access, layout, reason
            As for `array`.
        kind
            What the warning calls it.
        target
            What dies with the last use of the alias, where that is not the array itself.
        """
        if access is Access.CONST:
            if verifying():
                return self._export_watched(side, layout, reason, kind, target)
            return self.array(side, access, layout, reason)
        try:
            with self._lock:
                return self._leased(side, access, layout, reason, kind, target, ())
        except Unannounced as found:
            return self._announcing(
                found.stale, reason, self._leased, side, access, layout, reason, kind, target
            )

    def expose(self, side: Side, place: Place | None = None, *, shared: bool = False) -> None:
        """Note that somebody of unknown lifetime can write into one side's buffer.

        Parameters
        ----------
        side
            Which.
        place
            Where the user let that happen; None for here and now.
        shared
            Whether they can for ever: a mutable access of the other side does not end it.
        """
        place = user_place() if place is None else place
        with self._lock:
            self._disturb()
            if self._head == Head.SYNCED:
                self._head = 1 << side
            if shared:
                self._handed_out[side].shared = place
            else:
                self._handed_out[side].exposed = place

    def assume_unaliased(self) -> None:
        """End the exposure of both sides: the caller promises that nobody writes into them."""
        with self._lock:
            for handed_out in self._handed_out:
                handed_out.exposed = None
                handed_out.shared = None

    @property
    def aliased(self) -> bool:
        """Whether a writable alias of either side may be alive."""
        return any(handed_out.may_be_written for handed_out in self._handed_out)

    def buffer_nbytes(self, side: Side) -> int | None:
        """Return the bytes allocated on one side, None where there is no buffer."""
        buffer = self._buffers[side]
        return None if buffer is None else int(buffer.nbytes)

    def handed_out(self, side: Side) -> HandedOut:
        """Return what one side has handed out, to look at."""
        return self._handed_out[side]

    # --- how, under the lock ---------------------------------------------------------------------

    def _array(
        self, side: Side, access: Access, layout: Layout, reason: str, announced: Sequence[Lease]
    ) -> Any:
        buffer = self._acquire(side, self._narrowed(access, layout), reason, announced)
        return self.home(side).view(buffer, layout, writable=access is not Access.CONST)

    def _borrow(
        self, side: Side, access: Access, layout: Layout, reason: str, announced: Sequence[Lease]
    ) -> Any:
        while True:
            buffer = self._acquire(side, self._narrowed(access, layout), reason, announced)
            array = self.home(side).view(buffer, layout, writable=True)
            # Others have no write permission that could be taken.
            if isinstance(array, np.ndarray):
                self._handed_out[side].borrows.add(array)
            # A signal handler or a finaliser may have used the other side before that.
            if self._head == 1 << side:
                return array

    def _leased(  # noqa: PLR0913, PLR0917  # an access, and whom it is for
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        kind: str,
        target: object | None,
        announced: Sequence[Lease],
    ) -> Any:
        while True:
            buffer = self._acquire(side, self._narrowed(access, layout), reason, announced)
            array, owner = self._alias(side, buffer, layout)
            self._handed_out[side].lease(owner if target is None else target, kind)
            # A signal handler or a finaliser may have used the other side before that.
            if self._head == 1 << side:
                return array

    def _write(  # noqa: PLR0913, PLR0917  # an access, and what is done in it
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        announced: Sequence[Lease],
    ) -> None:
        def fill(buffer: Any) -> None:
            home = self.home(side)
            home.compute(function, home.view(buffer, layout, writable=True), *args)

        self._acquire(side, self._narrowed(access, layout), reason, announced, fill)
        self.wrote(side, reason)

    def _narrowed(self, access: Access, layout: Layout) -> Access:
        """Treat an overwrite that does not cover the memory as a mutable access."""
        if access is Access.OVERWRITE and not layout.covers(self._used):
            return Access.MUTABLE
        return access

    def _alias(self, side: Side, buffer: Any, layout: Layout) -> tuple[Any, object]:
        """Lay an array over one side's buffer, whose lifetime can be seen."""
        handed_out = self._handed_out[side]
        home = self.home(side)
        over, exporter = handed_out.exporter
        if over is not buffer:
            exporter = home.exporter(buffer)
            handed_out.exporter = (buffer, exporter)
        return home.alias(exporter, layout)

    def _export_watched(
        self, side: Side, layout: Layout, reason: str, kind: str, target: object | None
    ) -> Any:
        """Make a const export that is checked."""
        with self._lock:
            self._disturb()
            buffer = self._acquire(side, Access.CONST, reason)
            array, owner = self._alias(side, buffer, layout)
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
            handed_out = self._handed_out[side]
            if handed_out.may_be_written or len(handed_out.borrows):
                # Others may write here by right, so a difference would accuse nobody.
                return array
            if self._watch is None:
                self._watch = Watch(self._lock, self._buffers)
            self._watch.add(side, owner if target is None else target, kind, self._used)
            return array
