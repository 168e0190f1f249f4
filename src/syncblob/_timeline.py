"""The timeline of a log, drawn with Matplotlib."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._formatting import counted, human_bytes
from syncblob._optional import import_optional

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncblob._source_lines import SourceLine
    from syncblob.transfer_log import Operation
    from syncblob.transfers import Transfer

# From Okabe and Ito's palette: safe for colour-blind readers, and visible on white and black.
_COLOURS = {"operation": "#009E73", "upload": "#0072B2", "download": "#D55E00"}

# The number of lines of code with their own row in a lane; the others share one.
_ROWS = 6

# The length of lines of code in labels, which leaves room for the bars.
_TEXT = 44

# The heights of the bar of the largest transfer, of an operation, and of the lowest bar, in rows of
# height 1.
_HEIGHT, _MIDDLE, _LOWEST = 0.8, 0.4, 0.08

# The opacity of bars of asynchronous uploads.
_PALE = 0.4

_UNITS = (("µs", 1e-3, 1e6), ("ms", 1.0, 1e3), ("s", float("inf"), 1.0))


class _Bar(NamedTuple):
    """A transfer or an operation. Bars of one kind, line of code and name share a row."""

    kind: str
    line: SourceLine
    name: str
    start: float
    stop: float
    nbytes: int = 0
    pale: bool = False  # an asynchronous upload


class _Row(NamedTuple):
    """Bars that are drawn side by side; rows of one kind are a lane."""

    kind: str
    label: str
    bars: list[_Bar]


def draw(transfers: Sequence[Transfer], axes: Any, operations: Sequence[Operation] = ()) -> Any:
    """Draw a log into axes; None for a new figure. See `TransferLog.plot`."""
    bars = [*map(_of_operation, operations), *map(_of_transfer, transfers)]
    rows = [row for kind in _COLOURS for row in _rows(bars, kind)]
    count = len(rows)
    if axes is None:
        plt = import_optional("matplotlib.pyplot", "plot")
        # This layout makes room for the labels of both axes.
        _, axes = plt.subplots(figsize=(9, 1.5 + 0.45 * count), layout="constrained")
    origin = min((bar.start for bar in bars), default=0.0)
    extent = max((bar.stop - origin for bar in bars), default=0.0)
    unit, factor = _unit_of(extent)
    draw_boxes = partial(_draw_boxes, axes, origin, factor)
    highest = max((bar.nbytes for bar in bars), default=0)

    for kind, colour in _COLOURS.items():
        for pale in (False, True):
            drawn = [
                (count - 1 - index, bar)
                for index, row in enumerate(rows)
                for bar in row.bars
                if bar.kind == kind and bar.pale is pale
            ]
            if not drawn:
                continue
            amount = human_bytes(sum(bar.nbytes for _, bar in drawn))
            if kind == "operation":
                amount = _duration(_joined((bar.start, bar.stop) for _, bar in drawn))
            # The edge has the colour of the bar, and keeps even the shortest visible at any scale.
            draw_boxes(
                [(bar.start, bar.stop, row, _height(bar, highest)) for row, bar in drawn],
                colour,
                alpha=_PALE if pale else None,
                edgecolor=colour,
                linewidth=1.5,
                label=f"{'asynchronous ' if pale else ''}{kind}s, {amount}",
            )
    for index in range(1, count):
        if rows[index].kind != rows[index - 1].kind:
            axes.axhline(count - index - 0.1, color="grey", linewidth=0.8)
    overlaps = _overlaps(bars)
    if overlaps:
        bands = [(*times, -0.1, count) for times in overlaps]
        label = f"overlap, {_duration(overlaps)}"
        draw_boxes(bands, "grey", alpha=0.2, zorder=0, label=label)
    # Lines of code may contain dollar signs, which Matplotlib would parse as formulas.
    ticks = [count - 1 - index + _HEIGHT / 2 for index in range(count)]
    axes.set_yticks(ticks, [row.label for row in rows], fontsize="small", parse_math=False)
    axes.set_ylim(-0.1, count - 0.1)
    # A margin, because the frame would hide a bar at the start.
    axes.set_xlim(-0.01 * extent * factor, 1.01 * extent * factor or 1)
    axes.set_xlabel(f"time ({unit})")
    if bars:
        # Above the axes, where there are no bars.
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=2,
            frameon=False,
            title=f"the highest bar is {human_bytes(highest)}" if highest else None,
            alignment="left",
        )
    return axes


def _draw_boxes(  # boxes, and how and where to draw them
    axes: Any,
    origin: float,
    factor: float,
    boxes: Iterable[tuple[float, float, float, float]],
    colour: str,
    **how: Any,
) -> None:
    """Draw boxes: the start and the stop in seconds, the bottom and the height in rows."""
    corners = []
    for start, stop, bottom, height in boxes:
        left, right, top = (start - origin) * factor, (stop - origin) * factor, bottom + height
        corners.append([(left, bottom), (right, bottom), (right, top), (left, top)])
    collections = import_optional("matplotlib.collections", "plot")
    # One collection: Matplotlib takes a millisecond for each patch of its own.
    boxes_drawn = collections.PolyCollection(corners, facecolor=colour, **how)
    axes.add_collection(boxes_drawn, autolim=False)


def _of_transfer(one: Transfer) -> _Bar:
    stop = one.start + one.seconds if one.arrived is None else one.arrived
    kind, pale = one.direction, one.asynchronous
    return _Bar(kind, one.line, one.name, one.start, stop, one.nbytes, pale)


def _of_operation(one: Operation) -> _Bar:
    name, stop = f"{one.name} on {one.device}", one.start + one.seconds
    return _Bar("operation", one.line, name, one.start, stop)


def _overlaps(bars: Sequence[_Bar]) -> list[tuple[float, float]]:
    """Return the times at which an asynchronous upload and anything else ran."""
    changes = [(bar.start, 1, int(bar.pale)) for bar in bars]
    changes += [(bar.stop, -1, -int(bar.pale)) for bar in bars]
    running = pale = 0
    times = []
    for (start, all_of_them, pale_ones), (stop, *_) in pairwise(sorted(changes)):
        running += all_of_them
        pale += pale_ones
        if pale and running > 1 and start < stop:
            times.append((start, stop))
    return _joined(times)


def _joined(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join times that overlap, and sort them."""
    result: list[tuple[float, float]] = []
    for start, stop in sorted(times):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(stop, result[-1][1])
        else:
            result.append((start, stop))
    return result


def _unit_of(seconds: float) -> tuple[str, float]:
    return next((name, factor) for name, below, factor in _UNITS if seconds < below)


def _duration(times: Iterable[tuple[float, float]]) -> str:
    seconds = sum(stop - start for start, stop in times)
    unit, factor = _unit_of(seconds)
    return f"{seconds * factor:.3g} {unit}"


def _height(bar: _Bar, highest: int) -> float:
    return max(_HEIGHT * bar.nbytes / highest, _LOWEST) if bar.nbytes else _MIDDLE


def _rows(bars: list[_Bar], kind: str) -> list[_Row]:
    """Return the rows of one lane, in the order of their first bars."""
    groups: dict[tuple[SourceLine, str], list[_Bar]] = {}
    for bar in (bar for bar in bars if bar.kind == kind):
        groups.setdefault((bar.line, bar.name), []).append(bar)
    by_size = sorted(
        groups, key=lambda key: sum(bar.nbytes or bar.stop - bar.start for bar in groups[key])
    )
    others = by_size[:-_ROWS] if len(groups) > _ROWS + 1 else []
    rows = []
    for key, group in groups.items():
        if key not in others:
            line, name = key
            text = line.text if len(line.text) <= _TEXT else f"{line.text[: _TEXT - 1]}…"
            where = f"{Path(line.filename).name}:{line.lineno}"
            rows.append(_row(f"{where}: {text}" if text else where, name, group))
    if others:
        rest = [bar for key in others for bar in groups[key]]
        rows.append(_row(counted(len(others), "other line"), "", rest))
    return rows or [_Row(kind, f"no {kind}s", [])] * (kind != "operation")


def _row(what: str, name: str, bars: list[_Bar]) -> _Row:
    nbytes = sum(bar.nbytes for bar in bars)
    amount = (
        f"{counted(len(bars), 'transfer')}, {human_bytes(nbytes)}"
        if nbytes
        else f"{counted(len(bars), 'call')}, {_duration((bar.start, bar.stop) for bar in bars)}"
    )
    return _Row(bars[0].kind, f"{what}\n{f'{name}: ' if name else ''}{amount}", bars)
