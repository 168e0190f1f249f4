"""The two sides of a memory, drawn for notebooks as HTML with inline SVG, with its values.

The values are shown if the host holds them. The drawing uses no script, style sheet or id, so that
one page can contain many drawings. Text and frames have the page's text colour, for light and dark
themes. Widths are in percent, for narrow cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._formatting import quantity, union
from syncblob.blob.text import block_of, text_of
from syncblob.devices import Side

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob.blob.core import BlobCore

    Range = tuple[int, int]

# From Okabe and Ito's palette, as in the timeline, where a transfer has its target's colour.
_HOST, _ACCELERATOR, _FURTHER = "#D55E00", "#0072B2", "#009E73"

# The aliases of a side that are described one by one.
FEW = 8

_LANE, _STRIP = 18, 5  # heights in pixels
_VALUES = "overflow-x:auto;max-height:20em;margin:4px 0;padding:0;background:none"
_BOX = "border:1px solid rgba(128,128,128,.5);border-radius:4px;padding:4px 8px;margin:4px 0"

_LEGEND = (
    "<small style='opacity:.7'>filled: newest contents; pale: older contents; dashed: no memory; "
    "thin line: an alias, or this view</small>"
)


class LentRange(NamedTuple):
    """A range of bytes that other code may write."""

    label: str
    text: str
    start: int
    stop: int


class SideState(NamedTuple):
    """One home of a memory at one moment."""

    side: Side
    contents: str
    allocated: bool
    newest: list[Range]  # in order
    loans: list[LentRange]
    ended: list[str]  # borrows that have become read-only


class MemoryState(NamedTuple):
    """A memory at one moment."""

    head: str
    nbytes: int
    view: Range  # that of the Blob
    part: str  # the same in words
    homes: list[SideState]
    history: list[str]  # the last transitions, oldest first


def values_as_text(blob: BlobCore) -> str:
    """Return the values as text if that transfers nothing and reads no source; else say so."""
    memory, layout = blob.memory, blob.layout

    def read(key: tuple[slice, ...]) -> NDArray[Any]:
        block = block_of(layout, key)
        if not (memory.blank or memory.spans.common(block.start, block.stop) & (1 << Side.HOST)):
            raise LookupError
        return blob.memory.gather(Side.HOST, block, "_repr_html_")

    try:
        return text_of(layout.shape, layout.dtype, read)
    except LookupError:
        return "values not on the host; print() brings those that it shows"


def document(
    title: str, values: str | None, memories: Sequence[tuple[str, MemoryState]], table: str
) -> str:
    """Return the HTML of a Blob: its title, values if there are any, memories, and all in words."""
    parts = [f"<strong>{_escape(title)}</strong>"]
    if values is not None:
        parts.append(f"<pre style='{_VALUES}'>{_escape(values)}</pre>")
    for heading, memory in memories:
        parts += [_fact(heading, memory.head), *_memory(memory)]
    parts.append(f"<details><summary>in words</summary><pre>{_escape(table)}</pre></details>")
    parts.append(_LEGEND)
    return f"<div style='max-width:52em;overflow-wrap:anywhere'>{''.join(parts)}</div>"


def _fact(label: str, text: str) -> str:
    return f"<div><b>{_escape(label)}</b> {_escape(text)}</div>"


def _memory(memory: MemoryState) -> Iterator[str]:
    nbytes = memory.nbytes
    for home in memory.homes:
        ranges = [(loan.start, min(loan.stop, nbytes), loan.text) for loan in home.loans[:FEW]]
        rest = union((loan.start, loan.stop) for loan in home.loans[FEW:])
        ranges += [(*part, "more aliases") for part in rest]
        # Host aliases are above the host's bytes, accelerator aliases below the accelerator's, so
        # that the bytes of both are next to each other.
        ranges = [part for part in ranges if part[0] < part[1]]
        strips = [_lane(home, nbytes), _strip(ranges, nbytes)]
        pictures = "".join(strips if home.side else reversed(strips))
        fact = _fact(home.side.name.lower(), home.contents)
        yield f"<div style='{_BOX}'>{fact}{pictures if nbytes else ''}</div>"
    if nbytes and memory.view != (0, nbytes):
        strip = _strip([(*memory.view, "this view")], nbytes, "this view")
        yield f"<div style='padding:0 9px'>{strip}{_fact('this view', memory.part)}</div>"


def _lane(home: SideState, nbytes: int) -> str:
    """Draw the bytes of a home; the newest are filled."""
    colour = (_HOST, _ACCELERATOR, _FURTHER)[min(home.side, 2)]
    other, opacity, frame = "older contents", 0.1, ""
    if not home.allocated:
        other, opacity, frame = "no memory", 0, " stroke-dasharray='4'"
    marks = _marks([(*part, "newest") for part in home.newest], nbytes, _LANE)
    body = (
        f"<rect width='100%' height='{_LANE}' fill='currentColor' "
        f"fill-opacity='{opacity}' stroke='currentColor' stroke-opacity='.6'{frame}>"
        f"<title>{other}</title></rect>"
        # A stroke of the same colour keeps even one byte of a gigabyte visible.
        f"<g fill='{colour}' stroke='{colour}'>{marks}</g>"
    )
    newest = f"newest in {quantity(len(home.newest), 'range')}" if home.newest else f"{other} only"
    return _svg(f"{home.side.name.lower()}, {nbytes} bytes: {newest}", body, _LANE)


def _strip(parts: Sequence[tuple[int, int, str]], nbytes: int, what: str = "alias") -> str:
    """Draw ranges as a thin line, or nothing if there are none."""
    if not parts:
        return ""
    marks = _marks(parts, nbytes, _STRIP - 2)
    body = f"<g fill='currentColor' stroke='currentColor' fill-opacity='.5'>{marks}</g>"
    return _svg(f"{what}: {quantity(len(parts), 'range')}", body, _STRIP)


def _marks(parts: Iterable[tuple[int, int, str]], nbytes: int, height: int) -> str:
    """Return a rectangle for each range."""
    return "".join(
        f"<rect x='{100 * start / nbytes:.6g}%' width='{100 * (stop - start) / nbytes:.6g}%' "
        f"height='{height}'><title>bytes {start} to {stop}: {_escape(text)}</title></rect>"
        for start, stop, text in parts
    )


def _svg(label: str, body: str, height: int) -> str:
    return (
        f"<svg role='img' aria-label='{_escape(label)}' width='100%' height='{height}' "
        f"style='display:block;overflow:visible;margin:3px 0'>{body}</svg>"
    )


def _escape(text: str) -> str:
    import html  # slow to import, and only notebooks need it

    return html.escape(text)
