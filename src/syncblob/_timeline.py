"""The timeline of a journal, drawn with Matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._formatting import counted, human_bytes
from syncblob._optional import import_optional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.transfers import Transfer

__all__ = ["draw"]

# From Okabe and Ito's palette: safe for colour-blind readers, and visible on white and black.
_COLOURS = {"upload": "#0072B2", "download": "#D55E00"}

# The number of lines of code with their own row in a lane; the others share one.
_ROWS = 6

# The length of lines of code in labels, which leaves room for the bars.
_TEXT = 44

# The heights of the bar of the largest transfer, and of the lowest bar, in rows of height 1.
_HEIGHT, _LOWEST = 0.8, 0.08

_UNITS = (("µs", 1e-3, 1e6), ("ms", 1.0, 1e3), ("s", float("inf"), 1.0))


class _Row(NamedTuple):
    """Transfers of one direction that are drawn in one row."""

    label: str
    transfers: list[Transfer]


def draw(transfers: Sequence[Transfer], axes: Any) -> Any:
    """Draw transfers into axes; None for a new figure. See `TransferLog.plot`."""
    lanes = {
        direction: _rows([one for one in transfers if one.direction == direction], direction)
        for direction in _COLOURS
    }
    count = sum(len(rows) for rows in lanes.values())
    collections = import_optional("matplotlib.collections", "plot")
    if axes is None:
        plt = import_optional("matplotlib.pyplot", "plot")
        # This layout makes room for the labels of both axes.
        _, axes = plt.subplots(figsize=(9, 1.5 + 0.45 * count), layout="constrained")
    origin = min((one.start for one in transfers), default=0.0)
    extent = max((one.start + one.seconds - origin for one in transfers), default=0.0)
    unit, factor = next((name, factor) for name, below, factor in _UNITS if extent < below)
    highest = max((one.nbytes for one in transfers), default=1)
    labels: list[str] = []
    for direction, rows in lanes.items():
        drawn = [
            (count - len(labels) - 1 - index, one)
            for index, row in enumerate(rows)
            for one in row.transfers
        ]
        labels += [row.label for row in rows]
        if not drawn:
            continue
        # The edge has the colour of the bar, and keeps even the shortest transfer visible at any
        # scale.
        # One collection: Matplotlib takes a millisecond for each patch of its own.
        axes.add_collection(
            collections.PolyCollection(
                [
                    _corners(
                        (one.start - origin) * factor,
                        row,
                        one.seconds * factor,
                        max(_HEIGHT * one.nbytes / highest, _LOWEST),
                    )
                    for row, one in drawn
                ],
                facecolor=_COLOURS[direction],
                edgecolor=_COLOURS[direction],
                linewidth=1.5,
                label=f"{direction}s, {human_bytes(sum(one.nbytes for _, one in drawn))}",
            ),
            autolim=False,
        )
    # Lines of code may contain dollar signs, which Matplotlib would parse as formulas.
    axes.set_yticks(
        [count - 1 - index + _HEIGHT / 2 for index in range(count)],
        labels,
        fontsize="small",
        parse_math=False,
    )
    axes.axhline(len(lanes["download"]) - 0.1, color="grey", linewidth=0.8)
    axes.set_ylim(-0.1, count - 0.1)
    # A margin, because the frame would hide a bar at the start.
    axes.set_xlim(-0.01 * extent * factor, 1.01 * extent * factor or 1)
    axes.set_xlabel(f"time ({unit})")
    if transfers:
        # Above the axes, where there are no bars.
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=len(lanes),
            frameon=False,
            title=f"the highest bar is {human_bytes(highest)}",
            alignment="left",
        )
    return axes


def _corners(left: float, bottom: float, width: float, height: float) -> list[tuple[float, float]]:
    right, top = left + width, bottom + height
    return [(left, bottom), (right, bottom), (right, top), (left, top)]


def _rows(transfers: list[Transfer], direction: str) -> list[_Row]:
    """Return the rows of one lane, in the order of their first transfers."""
    groups: dict[tuple[Any, str], list[Transfer]] = {}
    for one in transfers:
        groups.setdefault((one.line, one.name), []).append(one)
    by_bytes = sorted(groups, key=lambda key: sum(one.nbytes for one in groups[key]))
    others = by_bytes[:-_ROWS] if len(groups) > _ROWS + 1 else []
    rows = []
    for key, group in groups.items():
        if key not in others:
            line, name = key
            text = line.text if len(line.text) <= _TEXT else f"{line.text[: _TEXT - 1]}…"
            place = f"{Path(line.filename).name}:{line.lineno}"
            rows.append(_Row(_label(f"{place}: {text}" if text else place, name, group), group))
    if others:
        rest = [one for key in others for one in groups[key]]
        rows.append(_Row(_label(counted(len(others), "other line"), "", rest), rest))
    return rows or [_Row(f"no {direction}s", [])]


def _label(what: str, name: str, transfers: list[Transfer]) -> str:
    nbytes = human_bytes(sum(one.nbytes for one in transfers))
    named = f"{name}: " if name else ""
    return f"{what}\n{named}{counted(len(transfers), 'transfer')}, {nbytes}"
