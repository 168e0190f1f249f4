"""Checks of weights: non-finite values, dead filters, statistics of batch normalization."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from syncblob.caffe.commands.stats import finite_blocks, magnitudes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob.caffe import Layer
    from syncblob.caffe.commands.contents import Contents
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


class Trouble(NamedTuple):
    """A problem of a blob.

    Attributes
    ----------
    layer, blob
        The layer's name and the number of the blob.
    kind
        ``"NaN"``, ``"infinite"``, ``"dead filters"``, ``"negative variance"`` or ``"scale factor
        0"``, with which Caffe takes mean and variance as 0.
    affected
        The number of values or filters with the problem.
    total
        The number of all values or filters.
    where
        The indices of the first filters, or of the first value, as text.
    """

    layer: str
    blob: int
    kind: str
    affected: int
    total: int
    where: str


class Checked(NamedTuple):
    """The problems found, and the layers that could not be checked.

    Attributes
    ----------
    troubles
        The problems.
    unchecked
        The names of layers that may have variances, or filters along another axis, because the file
        does not contain their types, or the blobs of a BatchNorm layer have an unknown order.
    """

    troubles: list[Trouble]
    unchecked: list[str]


def check(contents: Contents) -> Checked:
    """Check all blobs of a file. Reads them on the host."""
    filters = contents.is_net
    unchecked = [layer.name for layer in contents.layers if filters and _is_unclear(layer)]
    return Checked(list(_check_layers(contents.places, filters=filters)), unchecked)


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


def _check_layers(layers: Iterable[Layer], *, filters: bool) -> Iterator[Trouble]:
    for layer in layers:
        statistics = _variance_and_factor(layer)
        variance, factor = statistics or (None, None)
        for index, blob in enumerate(layer.blobs):
            yield from _count(layer, index, blob, "NaN", np.isnan)
            yield from _count(layer, index, blob, "infinite", np.isinf)
            if index == variance:
                yield from _count(layer, index, blob, "negative variance", lambda x: x < 0)
            if index == factor:
                yield from _count(layer, index, blob, "scale factor 0", lambda x: x == 0)
            if index == 0 and filters and statistics is None:
                yield from _dead_filters(layer, blob)


def _count(layer: Layer, index: int, blob: Blob, kind: str, test: _Test) -> Iterator[Trouble]:
    count, first = 0, 0
    for start, block in magnitudes(np.asarray(blob)):
        found = np.flatnonzero(test(block))
        if found.size and not count:
            first = start + int(found[0])
        count += found.size
    if count:
        place = tuple(map(int, np.unravel_index(first, blob.shape)))
        yield Trouble(layer.name, index, kind, count, blob.size, f"first at {place}")


def _dead_filters(layer: Layer, blob: Blob) -> Iterator[Trouble]:
    axis = _FILTER_AXES.get(layer.type, 0)
    weights = np.asarray(blob)
    # In old files, the matrix of an InnerProduct layer has the shape (1, 1, outputs, inputs).
    while weights.ndim > _MATRIX and layer.type == "InnerProduct" and weights.shape[0] == 1:
        weights = weights[0]
    if axis is None or weights.ndim < _MATRIX or not weights.size:
        return
    filters = np.moveaxis(weights, axis, 0)
    magnitudes_of = ((np.abs(block).max() for block in finite_blocks(one)) for one in filters)
    largest = np.array([float(max(found, default=0.0)) for found in magnitudes_of])
    dead = np.flatnonzero(largest <= _DEAD * largest.max())
    if dead.size:
        shown = ", ".join(map(str, dead[:_SHOWN]))
        more = ", ..." if dead.size > _SHOWN else ""
        yield Trouble(layer.name, 0, "dead filters", dead.size, len(filters), shown + more)
