"""The timeline of a log, drawn with Matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._formatting import human_bytes, quantity, union
from syncblob._optional import import_optional

if TYPE_CHECKING:
    from syncblob._source_lines import SourceLine
    from syncblob.transfers.copies import Transfer
    from syncblob.transfers.log import Operation

# The lanes from top to bottom, with colours of Okabe and Ito's palette: safe for colour-blind
# readers, and visible on white and black.
_COLOURS = {"operation": "#009E73", "upload": "#0072B2", "download": "#D55E00", "peer": "#CC79A7"}

# The length of lines of code in labels, which leaves room for the bars.
_TEXT = 44

# The heights of the bar of the largest transfer, of an operation, and of the lowest bar, in rows of
# height 1.
_HEIGHT, _MIDDLE, _LOWEST = 0.8, 0.4, 0.08


class _Bar(NamedTuple):
    """A transfer or an operation. Bars of one kind, line of code and name share a row."""

    kind: str
    line: SourceLine
    name: str
    start: float
    stop: float
    nbytes: int = 0
    pale: bool = False  # an asynchronous upload


def draw(transfers: Sequence[Transfer], axes: Any, operations: Sequence[Operation] = ()) -> Any:
    """Draw a log into axes; None for a new figure. See `TransferLog.plot`."""
    bars = _bars(transfers, operations)
    rows: dict[tuple[str, SourceLine, str], list[_Bar]] = {}
    for bar in sorted(bars, key=lambda bar: [*_COLOURS].index(bar.kind)):
        rows.setdefault(bar[:3], []).append(bar)
    if axes is None:
        plt = import_optional("matplotlib.pyplot", "plot")
        # This layout makes room for the labels of both axes.
        _, axes = plt.subplots(figsize=(9, 1.5 + 0.45 * len(rows)), layout="constrained")
    collections = import_optional("matplotlib.collections", "plot")
    origin = min((bar.start for bar in bars), default=0.0)
    highest = max((bar.nbytes for bar in bars), default=0)

    def height(bar: _Bar) -> float:
        return max(_HEIGHT * bar.nbytes / highest, _LOWEST) if bar.nbytes else _MIDDLE

    bottoms = {row: len(rows) - 1 - index for index, row in enumerate(rows)}

    def draw_boxes(boxes: Iterable[tuple[float, float, float, float]], **how: Any) -> None:
        """Draw boxes: the start and the stop in seconds, the bottom and the height in rows."""
        corners = []
        for start, stop, bottom, height in boxes:
            left, right, top = (start - origin) * 1e3, (stop - origin) * 1e3, bottom + height
            corners.append([(left, bottom), (right, bottom), (right, top), (left, top)])
        # One collection: Matplotlib takes a millisecond for each patch of its own.
        axes.add_collection(collections.PolyCollection(corners, **how))

    for kind, pale in product(_COLOURS, (False, True)):
        drawn = [bar for bar in bars if bar.kind == kind and bar.pale is pale]
        if drawn:
            plural = "peer copies" if kind == "peer" else f"{kind}s"
            # The edge has the colour of the bar, and keeps even the shortest visible.
            draw_boxes(
                [(*bar[3:5], bottoms[bar[:3]], height(bar)) for bar in drawn],
                color=_COLOURS[kind],
                alpha=0.4 if pale else None,
                linewidth=1.5,
                label=f"{'asynchronous ' if pale else ''}{plural}, {_amount(drawn)}",
            )
    overlaps = _overlaps(bars)
    if overlaps:
        bands = [(*times, 0, len(rows)) for times in overlaps]
        label = f"overlap, {_duration(overlaps)}"
        draw_boxes(bands, color="grey", alpha=0.2, zorder=0, label=label)
    # Lines of code may contain dollar signs, which Matplotlib would parse as formulas.
    ticks = [bottom + _HEIGHT / 2 for bottom in bottoms.values()]
    labels = [_label(line, name, rows[_, line, name]) for _, line, name in rows]
    axes.set_yticks(ticks, labels, fontsize="small", parse_math=False)
    axes.autoscale_view()
    axes.set_xlabel("time (ms)")
    if bars:
        # Above the axes, where there are no bars.
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    return axes


def _bars(transfers: Sequence[Transfer], operations: Sequence[Operation]) -> list[_Bar]:
    bars = [
        _Bar("operation", x.line, f"{x.name} on {x.device}", x.start, x.start + x.seconds)
        for x in operations
    ]
    for x in transfers:
        stop = x.start + x.seconds if x.arrived is None else x.arrived
        bars.append(_Bar(x.direction, x.line, x.name, x.start, stop, x.nbytes, x.asynchronous))
    return bars


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
    return union(times)


def _duration(times: Iterable[tuple[float, float]]) -> str:
    return f"{sum(stop - start for start, stop in times) * 1e3:.3f} ms"


def _amount(bars: Sequence[_Bar]) -> str:
    nbytes = sum(bar.nbytes for bar in bars)
    return human_bytes(nbytes) if nbytes else _duration(union(bar[3:5] for bar in bars))


def _label(line: SourceLine, name: str, bars: Sequence[_Bar]) -> str:
    text = line.text if len(line.text) <= _TEXT else f"{line.text[: _TEXT - 1]}…"
    where = f"{Path(line.filename).name}:{line.lineno}"
    number = quantity(len(bars), "transfer" if bars[0].nbytes else "call")
    return (
        f"{where}{f': {text}' if text else ''}\n{f'{name}: ' if name else ''}{number}, "
        f"{_amount(bars)}"
    )
