"""The journal as HTML for notebooks, without scripts or style sheets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncblob._formatting import counted, human_bytes
from syncblob._timeline import COLOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.transfer_log import LineTotal, PingPong

# This many lines of code are shown unfolded.
_LISTED = 8


def document(totals: str, lines: Sequence[LineTotal], ping_pongs: Sequence[PingPong]) -> str:
    """Return the HTML of a log.

    Parameters
    ----------
    totals
        A text with the totals.
    lines
        The totals of each line of code, those that moved most first.
    ping_pongs
        The ping-pongs.
    """
    most = max((line.nbytes for line in lines), default=0) or 1
    rows = [_row(line, most) for line in lines]
    parts = [f"<strong>TransferLog</strong> {_escaped(totals)}", *rows[:_LISTED]]
    if rows[_LISTED:]:
        more = counted(len(rows) - _LISTED, "other line")
        parts.append(f"<details><summary>{more}</summary>{''.join(rows[_LISTED:])}</details>")
    parts += [f"<div><b>ping-pong</b> {_escaped(str(found))}</div>" for found in ping_pongs]
    return f"<div style='max-width:52em;overflow-wrap:anywhere'>{''.join(parts)}</div>"


def _row(line: LineTotal, most: int) -> str:
    """Draw a bar for the bytes of a line of code, and describe it below."""
    named = f" of {line.name}" if line.name else ""
    because = ""
    if line.because:
        because = f"<br/>again at each access, because of {_escaped(line.because)}"
    return (
        "<div style='margin:6px 0'>"
        # At least a pixel, so that each line has a visible bar.
        f"<div style='height:8px;min-width:1px;width:{100 * line.nbytes / most:.4g}%;"
        f"background:{COLOURS[line.direction]}'></div>"
        f"<b>{counted(line.transfers, line.direction)}</b>, {human_bytes(line.nbytes)}"
        f"{_escaped(named)}, for {_escaped(line.reason)}"
        f"<br/><small>at {_escaped(line.line.described())}{because}</small></div>"
    )


def _escaped(text: str) -> str:
    import html  # slow to import, and only notebooks need it

    return html.escape(text)
