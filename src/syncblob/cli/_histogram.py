"""Histograms of the values of a Blob, drawn in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from syncblob.cli._stats import finite_blocks

if TYPE_CHECKING:
    from syncblob.blob import Blob

__all__ = ["BINS", "Histogram", "bars", "histogram_of"]

BINS = 32

# From empty to full.
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:-=+*#@"


class Histogram(NamedTuple):
    """Counts of the finite values in bins of equal width.

    Attributes
    ----------
    start, stop
        The smallest and the largest value.
    counts
        The counts of the `BINS` bins.
    """

    start: float
    stop: float
    counts: tuple[int, ...]


def histogram_of(blob: Blob) -> Histogram | None:
    """Return the histogram of a Blob; None if no value is finite. Reads the Blob on the host."""
    values = np.asarray(blob).reshape(-1)
    start, stop = np.inf, -np.inf
    for block in finite_blocks(values):
        start, stop = min(start, float(block.min())), max(stop, float(block.max()))
    if start > stop:
        return None
    # Halved first, because the difference of large doubles may overflow.
    width = stop / 2 - start / 2
    counts = np.zeros(BINS, np.int64)
    for block in finite_blocks(values):
        places = np.zeros(block.shape) if width == 0 else (block / 2 - start / 2) / width * BINS
        # The largest value belongs to the last bin.
        counts += np.bincount(np.minimum(places.astype(np.int64), BINS - 1), minlength=BINS)
    return Histogram(start, stop, tuple(map(int, counts)))


def bars(histogram: Histogram, *, plain: bool) -> str:
    """Draw a bar for each bin, in ASCII if plain. Nonempty bins are always visible."""
    levels = _ASCII if plain else _BLOCKS
    most = max(histogram.counts)
    highest = len(levels) - 1
    return "".join(levels[-(-count * highest // most)] for count in histogram.counts)
