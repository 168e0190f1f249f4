"""Draw results with Matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.results import Results
    from benchmarks.rows import Row

__all__ = ["draw", "marks"]

# Readable on white and on black alike.
GREY, BETTER, WORSE = "#80868b", "#2f8fd8", "#dd7733"
COLOURS = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")

# The rows to draw of each group: a picture of all rows would be too large to read.
SHOWN: dict[str, Callable[[Row], bool]] = {
    "interop": lambda _row: True,
    "array_api": lambda row: row.rival == "torch" and not row.section.startswith("1000000"),
    "pipeline": lambda row: row.rival in {"copies at each step", "managed memory"},
    "transfers": lambda row: row.rival != "the longer of the two alone",
    "memory": lambda row: "peak" in row.section,
    "files": lambda row: row.unit == "s",
}


def marks(results: Results) -> dict[str, float]:
    """Return our time, bytes or memory as multiples of the rivals', by label; less is better."""
    found = {}
    for group, wanted in SHOWN.items():
        for row in results.groups[group].rows if group in results.groups else ():
            ratio = row.of("ratio")
            if ratio and wanted(row):
                # These groups make the same calls in several sections, which end in a remark.
                several = group in {"pipeline", "transfers"}
                ours = row.section.rpartition(", ")[0] if several else row.ours
                label = f"{group}: {ours}  /  {row.rival}"
                found[label] = 1 / ratio if row.unit == "B/s" else ratio
    return found


def draw(results: Results, target: Path) -> None:
    """Draw results as a picture. The extension of the file selects the format."""
    import matplotlib as mpl  # not needed by any other benchmark
    from matplotlib.figure import Figure

    drawn = marks(results)
    if not drawn:
        raise ValueError(f"expected results of {', '.join(SHOWN)}, got none of them")
    # The same picture from the same results.
    style = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "benchmarks"}
    with mpl.rc_context(style | dict.fromkeys(COLOURS, GREY)):
        axes = Figure(figsize=(8.5, 0.21 * len(drawn) + 0.8), layout="constrained").subplots()
        colours = [BETTER if factor <= 1 else WORSE for factor in drawn.values()]
        axes.hlines([*drawn], 1, [*drawn.values()], colours)
        axes.scatter([*drawn.values()], [*drawn], color=colours)
        axes.axvline(1, color=GREY, linewidth=1)
        axes.set(xscale="log", xlabel="syncblob as a multiple of the rival; left of 1 is better")
        axes.set_ylim(len(drawn) - 0.4, -0.6)
        axes.grid(axis="x", color=GREY, alpha=0.25)
        target.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None} if target.suffix == ".svg" else None
        axes.figure.savefig(target, transparent=True, metadata=metadata)
