"""The two sides of a memory, drawn for notebooks as HTML with inline SVG.

It uses no script, style sheet or id, so that one page can contain many drawings. Text and frames
have the page's text colour, for light and dark themes. Widths are in percent, for narrow cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from syncblob._formatting import counted, human_bytes
from syncblob.devices import Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# From Okabe and Ito's palette, as in the timeline, where a transfer has its target's colour.
_COLOURS = {Side.HOST: "#D55E00", Side.ACCELERATOR: "#0072B2"}

# A map with more pieces is drawn as this many equal parts.
_MOST_PIECES = 100

# Sizes from this number of bytes on are also written in KiB and larger units.
_LARGE = 1024

# Up to this many aliases are listed unfolded.
_LISTED = 4

_LEGEND = (
    "<small style='opacity:.7'>filled: newest contents; pale: older contents; dashed: no memory; "
    "thin line: an alias, or this view</small>"
)

_LANE, _STRIP = 18, 5  # heights in pixels
_VALUES = "overflow-x:auto;max-height:20em;margin:4px 0;padding:0;background:none"
_BOX = "border:1px solid rgba(128,128,128,.5);border-radius:4px;padding:4px 8px;margin:4px 0"


class Lent(NamedTuple):
    """A range of bytes that other code may write.

    Attributes
    ----------
    label, text
        Its kind, and a description in one line.
    start, stop
        The range of bytes.
    """

    label: str
    text: str
    start: int
    stop: int


class HomeSeen(NamedTuple):
    """One home of a memory at one moment.

    Attributes
    ----------
    side
        Its side.
    contents
        A description of its contents.
    allocated
        The bytes of its buffer; None without one.
    newest
        The ranges of which it holds the newest contents, in order.
    lent
        The ranges that other code may write.
    ended
        Descriptions of borrows that have become read-only.
    """

    side: Side
    contents: str
    allocated: int | None
    newest: list[tuple[int, int]]
    lent: list[Lent]
    ended: list[str]


class MemorySeen(NamedTuple):
    """A memory at one moment.

    Attributes
    ----------
    head
        Its head, and the meaning of that.
    nbytes
        The bytes in use.
    view, part
        The Blob's range of bytes, and a description of it.
    homes
        Its two sides.
    history
        The last transitions, oldest first.
    """

    head: str
    nbytes: int
    view: tuple[int, int]
    part: str
    homes: list[HomeSeen]
    history: list[str]


def covered(ranges: Iterable[tuple[int, int]], nbytes: int, cells: int) -> list[float]:
    """Divide a memory into equal cells, and return the share of each that the ranges cover."""
    shares = [0.0] * cells
    for start, stop in joined(ranges):
        for cell in range(start * cells // nbytes, -(-stop * cells // nbytes)):
            low, high = cell * nbytes / cells, (cell + 1) * nbytes / cells
            shares[cell] += max(0.0, min(stop, high) - max(start, low)) / (high - low)
    return shares


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort ranges, and join those that touch or overlap."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return found


def document(
    title: str,
    facts: Sequence[tuple[str, str]],
    memories: Sequence[tuple[str, MemorySeen]],
    values: str = "",
) -> str:
    """Return the HTML of a Blob.

    Parameters
    ----------
    title
        The name and type of the Blob.
    facts
        Labels and texts to show below the title.
    memories
        Headings and memories to draw. An empty heading is omitted.
    values
        The values as text, shown below the title.
    """
    parts = [f"<strong>{_escaped(title)}</strong>"]
    if values:
        parts.append(f"<pre style='{_VALUES}'>{_escaped(values)}</pre>")
    parts += [_fact(*fact) for fact in facts]
    for heading, memory in memories:
        if heading:
            parts.append(_fact(heading, memory.head))
        parts += _memory(memory)
    parts.append(_LEGEND)
    return f"<div style='max-width:52em;overflow-wrap:anywhere'>{''.join(parts)}</div>"


def _fact(label: str, text: str) -> str:
    return f"<div><b>{_escaped(label)}</b> {_escaped(text)}</div>"


def _memory(memory: MemorySeen) -> Iterator[str]:
    for home in memory.homes:
        # Host aliases are above the host's bytes, accelerator aliases below the accelerator's, so
        # that the bytes of both are next to each other.
        strips = [_lane(home, memory.nbytes), _strip(home.lent, memory.nbytes, "alias")]
        pictures = "".join(strips if home.side is Side.ACCELERATOR else reversed(strips))
        # The text has the number of bytes.
        allocated = home.allocated or 0
        size = f" ({human_bytes(allocated)})" if allocated >= _LARGE else ""
        fact = _fact(home.side.name.lower(), f"{home.contents}{size}")
        yield f"<div style='{_BOX}'>{fact}{pictures if memory.nbytes else ''}</div>"
    start, stop = memory.view
    if memory.nbytes and memory.view != (0, memory.nbytes):
        strip = _strip([Lent("", "this view", start, stop)], memory.nbytes, "this view")
        yield f"<div style='padding:0 9px'>{strip}{_fact('this view', memory.part)}</div>"
    lent = [_fact(one.label, one.text) for home in memory.homes for one in home.lent]
    if lent:
        yield _folded(counted(len(lent), "alias", "aliases"), lent, shown=len(lent) <= _LISTED)
    ended = [_fact("", text) for home in memory.homes for text in home.ended]
    if ended:
        yield _folded(counted(len(ended), "ended borrow"), ended, shown=False)
    if memory.history:
        yield _folded(
            f"history: the last {counted(len(memory.history), 'transition')}",
            [_fact(str(number), text) for number, text in enumerate(memory.history, 1)],
            shown=False,
        )


def _folded(summary: str, rows: Sequence[str], *, shown: bool) -> str:
    opened = " open=''" if shown else ""
    body = f"<div style='padding-left:1em'>{''.join(rows)}</div>"
    return f"<details{opened}><summary>{summary}</summary>{body}</details>"


def _lane(home: HomeSeen, nbytes: int) -> str:
    """Draw the bytes of a home; the newest are filled."""
    colour = _COLOURS[home.side]
    absent = home.allocated is None
    frame = " stroke-dasharray='4'" if absent else ""
    other = "no memory" if absent else "older contents"
    body = (
        f"<rect width='100%' height='{_LANE}' fill='currentColor' "
        f"fill-opacity='{0 if absent else 0.1}' stroke='currentColor' "
        f"stroke-opacity='.6'{frame}><title>{other}</title></rect>"
        # A stroke of the same colour keeps even one byte of a gigabyte visible.
        f"<g fill='{colour}' stroke='{colour}'>"
        + "".join(_marks([(*part, "newest") for part in home.newest], nbytes, _LANE))
        + "</g>"
    )
    parts = ", ".join(f"{start} to {stop}" for start, stop in home.newest[:_LISTED])
    more = ", …" if len(home.newest) > _LISTED else ""
    newest = f"newest in bytes {parts}{more}" if parts else f"{other} only"
    return _svg(f"{home.side.name.lower()}, {nbytes} bytes: {newest}", body, _LANE)


def _strip(lent: Sequence[Lent], nbytes: int, what: str) -> str:
    """Draw ranges as a thin line, or nothing if there are none."""
    parts = [
        (one.start, min(one.stop, nbytes), one.text)
        for one in lent
        if one.start < min(one.stop, nbytes)
    ]
    if not parts:
        return ""
    marks = "".join(_marks(parts, nbytes, _STRIP - 2))
    body = f"<g fill='currentColor' stroke='currentColor' fill-opacity='.5'>{marks}</g>"
    return _svg(f"{what}: {counted(len(parts), 'range')}", body, _STRIP)


def _marks(parts: Sequence[tuple[int, int, str]], nbytes: int, height: int) -> Iterator[str]:
    """Yield a rectangle for each range, or for each of equal parts if there are too many ranges."""
    if len(parts) <= _MOST_PIECES:
        for start, stop, text in parts:
            yield _mark(start / nbytes, stop / nbytes, height, f"bytes {start} to {stop}: {text}")
        return
    shares = covered((part[:2] for part in parts), nbytes, _MOST_PIECES)
    for cell, share in enumerate(shares):
        if share:
            yield _mark(
                cell / _MOST_PIECES, (cell + 1) / _MOST_PIECES, height, f"{share:.0%}", share
            )


def _mark(start: float, stop: float, height: int, title: str, share: float = 1) -> str:
    faint = f" fill-opacity='{share:.2f}' stroke='none'" if share < 1 else ""
    place = f"x='{100 * start:.6g}%' width='{100 * (stop - start):.6g}%'"
    return f"<rect {place} height='{height}'{faint}><title>{_escaped(title)}</title></rect>"


def _svg(label: str, body: str, height: int) -> str:
    return (
        f"<svg role='img' aria-label='{_escaped(label)}' width='100%' height='{height}' "
        f"style='display:block;overflow:visible;margin:3px 0'>{body}</svg>"
    )


def _escaped(text: str) -> str:
    import html  # slow to import, and only notebooks need it

    return html.escape(text)
