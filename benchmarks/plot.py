"""Draw results: ``python -m benchmarks.plot RESULTS OUT.svg``. Needs matplotlib."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.results import Results

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.rows import Row

__all__ = ["Mark", "draw", "main", "marks"]

# Readable on white and on black alike.
GREY, BETTER, WORSE = "#80868b", "#2f8fd8", "#dd7733"

# The rows to draw of each group: a picture of all rows would be too large to read.
SHOWN: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "interop": ("handing over", lambda _row: True),
    "array_api": (
        "array API, small arrays",
        lambda row: row.rival == "torch" and row.section in {"the call itself", "1 element"},
    ),
    "pipeline": ("pipelines", lambda row: row.rival in {"copies at each step", "managed memory"}),
    "transfers": ("transfers", lambda row: row.rival != "the longer of the two alone"),
    "memory": ("memory, forwards only", lambda row: "peak" in row.section),
    "files": ("model files", lambda row: row.unit == "s"),
}


class Mark(NamedTuple):
    """One line of the picture.

    Attributes
    ----------
    label
        Ours, and the rival.
    factor
        Our time, bytes or memory as a multiple of the rival's. Less than 1 is better.
    """

    label: str
    factor: float


def marks(results: Results) -> dict[str, list[Mark]]:
    """Return the lines to draw, by the title of the group, for the groups that were run."""
    drawn = {}
    for group, (title, wanted) in SHOWN.items():
        if group not in results.groups:
            continue
        rows = [row for row in results.groups[group].rows if row.ratio and wanted(row)]
        drawn[title] = [_mark(group, row) for row in rows]
    return {title: lines for title, lines in drawn.items() if lines}


def _mark(group: str, row: Row) -> Mark:
    # These groups make the same calls in several sections, whose names end in a remark.
    several = group in {"pipeline", "transfers"}
    ours = row.section.rpartition(", ")[0] if several else row.ours
    ratio = row.ratio or 0.0
    return Mark(f"{ours}  /  {row.rival}", 1 / ratio if row.unit == "B/s" else ratio)


def draw(results: Results, target: Path) -> None:
    """Draw results as a picture. The extension of the file selects the format."""
    import matplotlib as mpl  # not needed by any other benchmark

    mpl.use("agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter

    drawn = marks(results)
    if not drawn:
        raise ValueError(f"expected results of {', '.join(SHOWN)}, got none of them")
    heights = [len(lines) + 1.2 for lines in drawn.values()]
    style = {
        "font.size": 9,
        "svg.fonttype": "none",
        # The same picture from the same results.
        "svg.hashsalt": "benchmarks",
        **dict.fromkeys(
            ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), GREY
        ),
    }
    with mpl.rc_context(style):
        figure, panels = plt.subplots(
            len(drawn),
            1,
            sharex=True,
            squeeze=False,
            figsize=(8.5, 0.21 * sum(heights) + 0.8),
            height_ratios=heights,
            layout="constrained",
        )
        for panel, (title, lines) in zip(panels[:, 0], drawn.items(), strict=True):
            for place, line in enumerate(lines):
                colour = BETTER if line.factor <= 1 else WORSE
                panel.plot([1, line.factor], [place, place], color=colour, linewidth=2)
                panel.plot(line.factor, place, "o", color=colour, markersize=5)
            panel.axvline(1, color=GREY, linewidth=1)
            panel.set_xscale("log")
            panel.set_yticks(range(len(lines)), [line.label for line in lines])
            panel.set_ylim(len(lines) - 0.4, -0.6)
            panel.set_title(title, loc="left", fontsize=10, fontweight="bold")
            panel.grid(visible=True, axis="x", color=GREY, alpha=0.25, linewidth=0.5)
            panel.spines[["top", "right", "left"]].set_visible(False)
            panel.tick_params(left=False)
        panels[-1, 0].xaxis.set_major_formatter(FuncFormatter(_times))
        figure.supxlabel(
            "syncblob as a multiple of the rival; left of 1 is better", fontsize=9, color=GREY
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None} if target.suffix == ".svg" else None
        figure.savefig(target, transparent=True, metadata=metadata)
        plt.close(figure)


def _times(factor: float, _position: int) -> str:
    return f"{factor:g}" if factor >= 1 else f"1/{1 / factor:.0f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw a file of results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plot", description=__doc__)
    parser.add_argument("results", type=Path, metavar="RESULTS")
    parser.add_argument("target", type=Path, metavar="OUT.svg")
    options = parser.parse_args(arguments)
    draw(Results.read(options.results), options.target)


if __name__ == "__main__":
    main()
