"""The timeline of a journal, drawn with Matplotlib."""

from __future__ import annotations

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
COLOURS = {"operation": "#009E73", "upload": "#0072B2", "download": "#D55E00"}

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
    """A transfer or an operation.

    Attributes
    ----------
    line, name
        Bars of one line of code and one name share a row.
    start, stop
        The times.
    nbytes
        The bytes transferred; 0 for an operation.
    pale
        Whether it is an asynchronous upload.
    """

    line: SourceLine
    name: str
    start: float
    stop: float
    nbytes: int = 0
    pale: bool = False


class _Row(NamedTuple):
    """Bars of one lane that are drawn in one row."""

    label: str
    bars: list[_Bar]


def draw(transfers: Sequence[Transfer], axes: Any, operations: Sequence[Operation] = ()) -> Any:
    """Draw a log into axes; None for a new figure. See `TransferLog.plot`."""
    bars = {
        kind: [_of_transfer(one) for one in transfers if one.direction == kind] for kind in COLOURS
    }
    bars["operation"] = [
        _Bar(one.line, f"{one.name} on {one.device}", one.start, one.start + one.seconds)
        for one in operations
    ]
    everything = [bar for lane in bars.values() for bar in lane]
    lanes = {kind: _rows(lane, kind) for kind, lane in bars.items() if lane or kind != "operation"}
    count = sum(len(rows) for rows in lanes.values())
    collections = import_optional("matplotlib.collections", "plot")
    if axes is None:
        plt = import_optional("matplotlib.pyplot", "plot")
        # This layout makes room for the labels of both axes.
        _, axes = plt.subplots(figsize=(9, 1.5 + 0.45 * count), layout="constrained")
    origin = min((bar.start for bar in everything), default=0.0)
    extent = max((bar.stop - origin for bar in everything), default=0.0)
    unit, factor = next((name, factor) for name, below, factor in _UNITS if extent < below)
    highest = max((bar.nbytes for bar in everything), default=0)

    def add(corners: Iterable[Any], colour: str, **how: Any) -> None:
        # One collection: Matplotlib takes a millisecond for each patch of its own.
        axes.add_collection(
            collections.PolyCollection(list(corners), facecolor=colour, **how), autolim=False
        )

    labels: list[str] = []
    for kind, rows in lanes.items():
        for pale in (False, True):
            drawn = [
                (count - len(labels) - 1 - index, bar)
                for index, row in enumerate(rows)
                for bar in row.bars
                if bar.pale is pale
            ]
            if not drawn:
                continue
            amount = (
                human_bytes(sum(bar.nbytes for _, bar in drawn))
                if kind != "operation"
                else _duration(_joined([bar[2:4] for _, bar in drawn]))
            )
            # The edge has the colour of the bar, and keeps even the shortest visible at any scale.
            add(
                [
                    _corners(
                        (bar.start - origin) * factor,
                        row,
                        (bar.stop - bar.start) * factor,
                        max(_HEIGHT * bar.nbytes / highest, _LOWEST) if bar.nbytes else _MIDDLE,
                    )
                    for row, bar in drawn
                ],
                COLOURS[kind],
                alpha=_PALE if pale else None,
                edgecolor=COLOURS[kind],
                linewidth=1.5,
                label=f"{'asynchronous ' if pale else ''}{kind}s, {amount}",
            )
        labels += [row.label for row in rows]
        if len(labels) < count:
            axes.axhline(count - len(labels) - 0.1, color="grey", linewidth=0.8)
    overlaps = _overlaps(everything)
    if overlaps:
        add(
            [
                _corners((start - origin) * factor, -0.1, (stop - start) * factor, count)
                for start, stop in overlaps
            ],
            "grey",
            alpha=0.2,
            zorder=0,
            label=f"overlap, {_duration(overlaps)}",
        )
    # Lines of code may contain dollar signs, which Matplotlib would parse as formulas.
    axes.set_yticks(
        [count - 1 - index + _HEIGHT / 2 for index in range(count)],
        labels,
        fontsize="small",
        parse_math=False,
    )
    axes.set_ylim(-0.1, count - 0.1)
    # A margin, because the frame would hide a bar at the start.
    axes.set_xlim(-0.01 * extent * factor, 1.01 * extent * factor or 1)
    axes.set_xlabel(f"time ({unit})")
    if everything:
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


def _of_transfer(one: Transfer) -> _Bar:
    stop = one.start + one.seconds if one.arrived is None else one.arrived
    return _Bar(one.line, one.name, one.start, stop, one.nbytes, one.asynchronous)


def _corners(left: float, bottom: float, width: float, height: float) -> list[tuple[float, float]]:
    right, top = left + width, bottom + height
    return [(left, bottom), (right, bottom), (right, top), (left, top)]


def _overlaps(bars: Sequence[_Bar]) -> list[tuple[float, float]]:
    """Return the times at which an asynchronous upload and anything else ran."""
    changes = [(bar.start, 1, int(bar.pale)) for bar in bars]
    changes += [(bar.stop, -1, -int(bar.pale)) for bar in bars]
    running = pale = 0
    found = []
    for (start, all_of_them, pale_ones), (stop, *_) in pairwise(sorted(changes)):
        running += all_of_them
        pale += pale_ones
        if pale and running > 1 and start < stop:
            found.append((start, stop))
    return _joined(found)


def _joined(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join times that overlap, and sort them."""
    found: list[tuple[float, float]] = []
    for start, stop in sorted(times):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found


def _duration(times: Iterable[tuple[float, float]]) -> str:
    seconds = sum(stop - start for start, stop in times)
    unit, factor = next((name, factor) for name, below, factor in _UNITS if seconds < below)
    return f"{seconds * factor:.3g} {unit}"


def _rows(bars: list[_Bar], kind: str) -> list[_Row]:
    """Return the rows of one lane, in the order of their first bars."""
    groups: dict[tuple[Any, str], list[_Bar]] = {}
    for bar in bars:
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
            place = f"{Path(line.filename).name}:{line.lineno}"
            rows.append(_Row(_label(f"{place}: {text}" if text else place, name, group), group))
    if others:
        rest = [bar for key in others for bar in groups[key]]
        rows.append(_Row(_label(counted(len(others), "other line"), "", rest), rest))
    return rows or [_Row(f"no {kind}s", [])]


def _label(what: str, name: str, bars: list[_Bar]) -> str:
    nbytes = sum(bar.nbytes for bar in bars)
    amount = (
        f"{counted(len(bars), 'transfer')}, {human_bytes(nbytes)}"
        if nbytes
        else f"{counted(len(bars), 'call')}, {_duration(bar[2:4] for bar in bars)}"
    )
    return f"{what}\n{f'{name}: ' if name else ''}{amount}"
