"""Minimum, mean, maximum and standard deviation of the finite values of a Blob."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from syncblob.blob import Blob

__all__ = ["Stats", "blocks", "finite_blocks", "stats_of"]

# Values converted to float64 at a time: the temporary arrays stay small next to the weights.
_BLOCK = 1 << 18


class Stats(NamedTuple):
    """What a Blob holds; of its finite values, and None where there are none.

    Attributes
    ----------
    min, mean, max
        In float64.
    std
        Of the population: the divisor is the number of finite values.
    non_finite
        How many values are NaN or infinite.
    """

    min: float | None
    mean: float | None
    max: float | None
    std: float | None
    non_finite: int


def stats_of(blob: Blob) -> Stats:
    """Compute the statistics of a Blob, of magnitudes if it is complex. Reads it on the host."""
    values = np.asarray(blob).reshape(-1)
    count, least, most = 0, np.inf, -np.inf
    for block in finite_blocks(values):
        count += block.size
        least = min(least, float(block.min()))
        most = max(most, float(block.max()))
    if not count:
        return Stats(None, None, None, None, values.size)

    # Scaled to about 1, sums and squares neither overflow nor underflow; a power of two is exact.
    exponent = int(np.frexp(max(abs(least), abs(most)))[1])

    def scaled() -> Iterator[NDArray[np.float64]]:
        for block in finite_blocks(values):
            yield np.ldexp(block, -exponent)

    mean = sum(float(block.sum()) for block in scaled()) / count
    squares = sum(float(np.square(block - mean).sum()) for block in scaled())
    return Stats(
        least,
        float(np.ldexp(mean, exponent)),
        most,
        float(np.ldexp(np.sqrt(squares / count), exponent)),
        values.size - count,
    )


def finite_blocks(values: NDArray[np.generic]) -> Iterator[NDArray[np.float64]]:
    """Yield the finite values, some at a time; no empty blocks."""
    for _, block in blocks(values):
        finite = block[np.isfinite(block)]
        if finite.size:
            yield finite


def blocks(values: NDArray[np.generic]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield the values, some at a time, and how many came before them.

    Of complex numbers, the magnitudes.
    """
    flat = values.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        yield start, (np.abs(block) if block.dtype.kind == "c" else block).astype(np.float64)
