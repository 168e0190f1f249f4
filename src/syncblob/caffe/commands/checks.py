"""Checks of weights: non-finite values, dead filters, statistics of batch normalization."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.caffe.commands.stats import finite_blocks, magnitudes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob.caffe import Layer
    from syncblob.formats import Blob

    _Test = Callable[[NDArray[np.float64]], NDArray[np.bool]]

# A filter is dead if its largest weight is at most this fraction of the largest in the blob: weight
# decay shrinks unused filters, but rarely to zero.
_DEAD = 1e-6

_MATRIX = 2
# The axis of the filters in a weight, if it is not the first. An Embed layer has no filters, and
# rows of zeros are usual there.
_FILTER_AXES = {"Deconvolution": 1, "Embed": None}
_BATCH_NORM = "BatchNorm"
# The numbers of the variance and of the factor to divide it by, for the sizes of the blobs of a
# BatchNorm layer: "c" is the number of channels. NVCaffe's has five blobs if it includes a Scale
# layer: mean, variance, a correction, scale and bias; before version 0.16 scale, bias, mean,
# variance and a correction. NVCaffe does not use the correction.
_VARIANCE_AND_FACTOR = {
    "c": (None, None),
    "cc": (1, None),
    "cc1": (1, 2),
    "1": (None, None),
    "11": (1, None),
    "111": (1, 2),
    "cc1cc": (1, None),
    "cccc1": (3, None),
}
_FEWEST_TO_TELL = 3

# At most this many filters are listed.
_SHOWN = 8


def check(layers: Sequence[Layer], *, filters: bool) -> dict[str, Any]:
    """Check the blobs of layers, which are read on the host; dead filters only if `filters`.

    Returns
    -------
    dict
        The entries ``troubles`` and ``unchecked`` of ``inspect --json``.
    """
    unchecked = [layer.name for layer in layers if filters and _is_unclear(layer)]
    return {"troubles": list(_check_layers(layers, filters=filters)), "unchecked": unchecked}


def _is_unclear(layer: Layer) -> bool:
    if not layer.blobs or _variance_and_factor(layer) is not None:
        return False
    if layer.type:
        return layer.type == _BATCH_NORM
    return layer.blobs[0].ndim >= _MATRIX or len(layer.blobs) >= _FEWEST_TO_TELL


def _variance_and_factor(layer: Layer) -> tuple[int | None, int | None] | None:
    """Return the numbers of these blobs of a BatchNorm layer; None if they are not known.

    A layer without a type is recognized by the sizes of its blobs, if it has enough of them.
    """
    blobs = layer.blobs
    may_be_one = layer.type == _BATCH_NORM if layer.type else len(blobs) >= _FEWEST_TO_TELL
    if not may_be_one or any(blob.size != max(blob.shape, default=1) for blob in blobs):
        return None
    channels = blobs[0].size if blobs else 0
    sizes = ("1" if blob.size == 1 else "c" if blob.size == channels else "?" for blob in blobs)
    return _VARIANCE_AND_FACTOR.get("".join(sizes))


def _check_layers(layers: Iterable[Layer], *, filters: bool) -> Iterator[dict[str, Any]]:
    for layer in layers:
        statistics = _variance_and_factor(layer)
        variance, factor = statistics or (None, None)
        for index, blob in enumerate(layer.blobs):
            tests: dict[str, _Test] = {"NaN": np.isnan, "infinite": np.isinf}
            if index == variance:
                tests["negative variance"] = lambda values: values < 0
            if index == factor:
                tests["scale factor 0"] = lambda values: values == 0
            troubles = [_count(blob, kind, test) for kind, test in tests.items()]
            if index == 0 and filters and statistics is None:
                troubles.append(_dead_filters(layer, blob))
            place = {"layer": layer.name, "blob": index}
            yield from (place | trouble for trouble in troubles if trouble["affected"])


def _count(blob: Blob, kind: str, test: _Test) -> dict[str, Any]:
    count, first = 0, 0
    for start, block in magnitudes(np.asarray(blob)):
        found = np.flatnonzero(test(block))
        if found.size and not count:
            first = start + int(found[0])
        count += found.size
    where = f"first at {tuple(map(int, np.unravel_index(first, blob.shape)))}" if count else ""
    return {"kind": kind, "affected": count, "total": blob.size, "where": where}


def _dead_filters(layer: Layer, blob: Blob) -> dict[str, Any]:
    axis = _FILTER_AXES.get(layer.type, 0)
    weights = np.asarray(blob)
    # In old files, the matrix of an InnerProduct layer has the shape (1, 1, outputs, inputs).
    while weights.ndim > _MATRIX and layer.type == "InnerProduct" and weights.shape[0] == 1:
        weights = weights[0]
    if axis is None or weights.ndim < _MATRIX or not weights.size:
        return {"affected": 0}
    filters = np.moveaxis(weights, axis, 0)
    magnitudes_of = ((np.abs(block).max() for block in finite_blocks(one)) for one in filters)
    largest = np.array([float(max(found, default=0.0)) for found in magnitudes_of])
    dead = np.flatnonzero(largest <= _DEAD * largest.max())
    where = ", ".join(map(str, dead[:_SHOWN])) + ", ..." * (dead.size > _SHOWN)
    return {"kind": "dead filters", "affected": dead.size, "total": len(filters), "where": where}
