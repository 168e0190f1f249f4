"""Minimum, mean, maximum and standard deviation of the finite values of a Blob."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from syncblob.caffe import blob_values
from syncblob.caffe.messages.fields import Array
from syncblob.caffe.messages.pieces import on_progress
from syncblob.formats import Blob

# The number of values converted to float64 at a time, which keeps temporary arrays small.
_BLOCK = 1 << 18


def stats_of(blob: Blob) -> dict[str, float | None]:
    """Return min, mean, max and std of the finite values; None for none; and count the others."""
    values = blob_values(blob)
    on_progress.get()(blob.nbytes)
    count, least, most = 0, np.inf, -np.inf
    for block in _finite_blocks(values):
        count += block.size
        least = min(least, float(block.min()))
        most = max(most, float(block.max()))
    if not count:
        return dict.fromkeys(("min", "mean", "max", "std")) | {"non_finite": values.size}

    # Scale to about 1, so that sums and squares neither overflow nor underflow. Powers of two are
    # exact.
    exponent = int(np.frexp(max(abs(least), abs(most)))[1])

    def scale() -> Iterator[NDArray[np.float64]]:
        for block in _finite_blocks(values):
            yield np.ldexp(block, -exponent)

    mean = sum(float(block.sum()) for block in scale()) / count
    squares = sum(float(np.square(block - mean).sum()) for block in scale())
    return {
        "min": least,
        "mean": float(np.ldexp(mean, exponent)),
        "max": most,
        "std": float(np.ldexp(np.sqrt(squares / count), exponent)),
        "non_finite": values.size - count,
    }


def _finite_blocks(values: Array) -> Iterator[NDArray[np.float64]]:
    """Yield the finite values, of complex numbers their magnitudes, in nonempty blocks."""
    flat = values.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        real = (np.abs(block) if block.dtype.kind == "c" else block).astype(np.float64)
        finite = real[np.isfinite(real)]
        if finite.size:
            yield finite
