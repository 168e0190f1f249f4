"""The warning of aliases that an access makes stale, which comes before any change.

The user's filters and hooks run when the warning is emitted, so it is emitted without the memory's
lock. An access looks for such aliases under the lock, and raises `Unannounced` if it finds one.
Then `announcing` warns and repeats the access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob._source_lines import warn_user
from syncblob.devices import Side
from syncblob.errors import StaleAliasWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from syncblob.memory.borrows_and_aliases import Lease, Loans
    from syncblob.memory.ledger import Ledger

    # Aliases that become stale, by side.
    Stale = list[tuple[Side, set[Lease]]]

_NAMED_AT_MOST = 3

# How often an access warns, and looks for aliases that were made since, before it gives up.
_MOST_WARNINGS = 100


def warn_of_stale_aliases(action: str, stale: Stale) -> None:
    """Emit a StaleAliasWarning at the user's line, before anything changes.

    Parameters
    ----------
    action
        The access that makes the aliases stale.
    stale
        The aliases, by side.

    Raises
    ------
    StaleAliasWarning
        If the user's filter turns it into an error.
    """
    leases = [(lease, side) for side, leases in stale for lease in leases]
    if len(leases) == 1:
        lease, side = leases[0]
        made = f"{lease.named(side)} stale (created at {lease.place.line.described()})"
        it, they, one = "it", "it", "a new one"
    else:
        described = "; ".join(lease.described(side) for lease, side in leases[:_NAMED_AT_MOST])
        more = f"; and {len(leases) - _NAMED_AT_MOST} more" if leases[_NAMED_AT_MOST:] else ""
        made = f"{len(leases)} aliases stale ({described}{more})"
        it, they, one = "them", "they", "new ones"
    warn_user(
        f"{action} makes {made}: later writes through {it} are lost, and {they} will not show this "
        f"change. Delete {it} before the write, or create {one} afterwards",
        StaleAliasWarning,
    )


class Unannounced(Exception):  # noqa: N818  # it is caught, and turned into a warning
    """Writable aliases would become stale, and no warning has named them yet."""

    def __init__(self, stale: Stale) -> None:
        super().__init__(stale)
        self.stale = stale


def require_announced(
    loans: Sequence[Loans],
    announced: Collection[set[Lease]],
    start: int,
    stop: int,
    written: Side | None = None,
) -> None:
    """Raise `Unannounced` if writable aliases that no warning has named overlap a range.

    Parameters
    ----------
    loans
        The loans of each side.
    announced
        The aliases that each warning has named.
    start, stop
        The range.
    written
        The side whose aliases stay up to date; None if all become stale.
    """
    stale: Stale = []
    for side, lent in enumerate(loans):
        if side != written and lent.leases:
            # There may be very many. Only the comparison of ranges runs in Python for each of them.
            leases = set(lent.leases_in(start, stop)).difference(*announced)
            if leases:
                stale.append((Side(side), leases))
    if stale:
        raise Unannounced(stale)


def announcing(ledger: Ledger, action: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function under the lock, after a warning about the aliases that it makes stale.

    The warning is emitted without the lock, because the user's filters and hooks may do anything.
    New aliases may be made meanwhile. So the function looks for them once more, at a point after
    which none can be made, and raises `Unannounced` if it finds some.

    Parameters
    ----------
    ledger
        The ledger whose lock is taken.
    action
        The name of the access in the warning.
    function, args
        The function, called with the ledger, `args`, and the aliases that a warning has named. It
        changes nothing if it raises `Unannounced`. Its result is returned.

    Raises
    ------
    StaleAliasWarning
        If the user's filters turn it into an error. Nothing has changed then.
    RuntimeError
        If new aliases appear after each of many warnings.
    """
    announced: list[set[Lease]] = []
    while True:
        try:
            with ledger.lock:
                return function(ledger, *args, announced)
        except Unannounced as unannounced:
            stale = unannounced.stale
        announce(action, stale, announced)


def announce(action: str, stale: Stale, announced: list[set[Lease]]) -> None:
    """Warn of aliases that an access makes stale, and add them to those announced.

    Raises
    ------
    StaleAliasWarning
        If the user's filters turn it into an error.
    RuntimeError
        After too many warnings.
    """
    if len(announced) == _MOST_WARNINGS:
        raise RuntimeError(
            f"{action} gave up after {_MOST_WARNINGS} warnings, because new aliases appeared after "
            "each; first stop the thread or the warning hook that makes them"
        )
    warn_of_stale_aliases(action, stale)
    announced.append({lease for _, leases in stale for lease in leases})
