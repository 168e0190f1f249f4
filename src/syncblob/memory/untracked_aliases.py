"""Exposures: ranges that aliases of unknown lifetime, or other processes, may write into.

Copies of such a range are not trusted: each access of another side copies it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from syncblob._source_lines import Place, user_place
from syncblob.devices import Side
from syncblob.memory.changes import take

if TYPE_CHECKING:
    from syncblob.memory.ledger import Ledger


class Exposure(NamedTuple):
    """A range that an alias of unknown lifetime may write into.

    Attributes
    ----------
    start, stop
        The range.
    place
        The line of the user's code that exposed it.
    shared
        Whether other processes share the memory. Only `assume_unaliased` ends such an exposure;
        others end when the other side is written.
    """

    start: int
    stop: int
    place: Place
    shared: bool = False

    def described(self, side: Side) -> str:
        """Describe the exposure of a side, with the line that made it."""
        return f"the {side.name.lower()} side, exposed at {self.place.line.described()}"

    def without(self, start: int, stop: int) -> list[Exposure]:
        """Return the parts of it outside of a range."""
        left = self._replace(stop=min(self.stop, start))
        right = self._replace(start=max(self.start, stop))
        return [part for part in (left, right) if part.start < part.stop]


def expose(  # noqa: PLR0913  # a range, and who writes
    ledger: Ledger,
    side: Side,
    place: Place | None = None,
    *,
    start: int = 0,
    stop: int | None = None,
    shared: bool = False,
) -> None:
    """Record that an alias of unknown lifetime can write into a range of one side's buffer.

    The side becomes the only holder of what it shares there.

    Parameters
    ----------
    ledger
        That of the memory.
    side
        The side.
    place
        The line of the user's code that exposed it. None means the line now running.
    start, stop
        The range. The default is everything, of a buffer that other code has made.
    shared
        Whether other processes share the buffer: then a write on the other side does not end the
        exposure.
    """
    place = user_place() if place is None else place
    with ledger.lock:
        exposure = Exposure(start, ledger.buffers.nbytes if stop is None else stop, place, shared)
        loans = ledger.own_loans(side)
        before = loans.exposures
        others = [other for other in before if other[:2] != exposure[:2]]
        try:
            # First, so that no copy that is made from now on is trusted.
            loans.exposures = (*others, exposure)
            take(ledger, side, start, exposure.stop)
            loans.foreign = loans.foreign or stop is None
        except BaseException:
            loans.exposures = before
            raise
        if ledger.watch is not None:
            # Other code may write here, so a difference would prove nothing.
            ledger.watch.drop(side, start, exposure.stop)


def is_exposed(ledger: Ledger, side: Side, start: int, stop: int) -> bool:
    """Tell whether all of a range is exposed on a side, and only that side holds it."""
    exposed = any(
        exposure.start <= start and stop <= exposure.stop
        for exposure in ledger.loans[side].exposures
    )
    return exposed and ledger.spans.any(start, stop) == 1 << side


def assume_unaliased(ledger: Ledger, start: int = 0, stop: int | None = None) -> None:
    """End the exposure of a range on all sides: the caller promises that no alias writes."""
    with ledger.lock:
        stop = ledger.buffers.nbytes if stop is None else stop
        for loans in ledger.loans:
            if loans.exposures:
                loans.exposures = loans.without_exposures(start, stop, shared=True)


def refresh(ledger: Ledger, start: int, stop: int, *, still_exposed: bool) -> None:
    """Make a range of the host's buffer newest, with what others have written into it, once.

    Parameters
    ----------
    ledger
        That of the memory.
    start, stop
        The range.
    still_exposed
        Whether the parts of the range that are exposed on the host stay exposed.
    """
    with ledger.lock:
        loans = ledger.own_loans(Side.HOST)
        exposures = loans.exposures
        if not still_exposed:
            exposures = loans.without_exposures(start, stop, shared=True)
        # `expose` leaves to the host alone what both sides hold.
        expose(ledger, Side.HOST, start=start, stop=stop)
        loans.exposures = exposures
