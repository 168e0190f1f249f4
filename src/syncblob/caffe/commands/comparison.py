"""Comparison of two files of weights, blob by blob."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob.caffe import Layer, equal_shapes, squeezed_blobs
from syncblob.caffe.commands.stats import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from syncblob.caffe.commands.contents import Contents
    from syncblob.formats import Blob


class Status(Enum):
    """The result of comparing a blob of two files."""

    ADDED = "added"
    REMOVED = "removed"
    RESHAPED = "reshaped"
    CHANGED = "changed"
    SAME = "same"


class Distance(NamedTuple):
    """The difference between two arrays of one shape.

    Attributes
    ----------
    values
        The number of unequal values. NaN equals NaN here.
    incomparable
        The number of those that are NaN or infinite on one side.
    maximum
        The largest difference of the other values.
    relative
        That difference, divided by the largest finite magnitude in both arrays.
    """

    values: int
    incomparable: int
    maximum: float
    relative: float


class Compared(NamedTuple):
    """A blob of one file or of both.

    Attributes
    ----------
    layer, number
        The name of the layer, with ``#2`` and so on if it is repeated, and the number of the blob.
    status
        The result of the comparison.
    before, after
        The blobs; None if a file lacks it.
    distance
        Their difference; None if there is only one blob, or the shapes differ.
    """

    layer: str
    number: int
    status: Status
    before: Blob | None
    after: Blob | None
    distance: Distance | None

    def as_json(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        described: dict[str, Any] = {
            "layer": self.layer,
            "blob": self.number,
            "status": self.status.value,
        }
        for side, blob in (("a", self.before), ("b", self.after)):
            described[f"shape_{side}"] = None if blob is None else list(blob.shape)
            described[f"dtype_{side}"] = None if blob is None else blob.dtype.name
        distance = self.distance
        # Where values became NaN or infinite, the difference of the others would look harmless.
        comparable = distance is not None and not distance.incomparable
        described |= {
            "different_values": None if distance is None else distance.values,
            "incomparable_values": None if distance is None else distance.incomparable,
            "max_difference": distance.maximum if distance and comparable else None,
            "relative_difference": distance.relative if distance and comparable else None,
        }
        return described


def compare(before: Contents, after: Contents, tolerance: float) -> Iterator[Compared]:
    """Compare the blobs of two files by layer and number; blobs only in the second come last.

    Shapes are compared as in Caffe: leading axes of length 1, which files of the older formats
    and descriptions of them have, are ignored.
    """
    ours, theirs = _blobs(before), _blobs(after)
    for (layer, index), (blob, shape) in ours.items():
        other, other_shape = theirs.pop((layer, index), (None, ()))
        if other is None:
            yield Compared(layer, index, Status.REMOVED, blob, None, None)
        elif shape != other_shape and not equal_shapes(blob, other):
            yield Compared(layer, index, Status.RESHAPED, blob, other, None)
        else:
            distance = _distance(blob, other)
            near = not distance.incomparable and distance.relative <= tolerance
            # The largest difference may be so small that the relative one is rounded to 0.
            same = not distance.values or (near and tolerance > 0)
            status = Status.SAME if same else Status.CHANGED
            yield Compared(layer, index, status, blob, other, distance)
    for (layer, index), (blob, _) in theirs.items():
        yield Compared(layer, index, Status.ADDED, None, blob, None)


def _blobs(contents: Contents) -> dict[tuple[str, int], tuple[Blob, tuple[int, ...]]]:
    """Return the blobs by layer and number, each with its shape in a running net."""
    found: dict[tuple[str, int], tuple[Blob, tuple[int, ...]]] = {}
    for layer in contents.places:
        # Formats often omit layers without blobs, so they are not counted.
        if not layer.blobs:
            continue
        name, number = layer.name, 1
        while (name, 0) in found:
            number += 1
            name = f"{layer.name}#{number}"
        in_net = squeezed_blobs(layer) if isinstance(layer, Layer) else layer.blobs
        for index, (blob, squeezed) in enumerate(zip(layer.blobs, in_net, strict=True)):
            found[name, index] = blob, squeezed.shape
    return found


def _distance(before: Blob, after: Blob) -> Distance:
    values = incomparable = 0
    maximum = largest = 0.0
    pairs = zip(blocks(np.asarray(before)), blocks(np.asarray(after)), strict=True)
    for (_, one), (_, other) in pairs:
        ours, theirs = _comparable(one, other)
        different = (ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))
        finite = np.isfinite(ours) & np.isfinite(theirs)
        values += int(np.count_nonzero(different))
        incomparable += int(np.count_nonzero(different & ~finite))
        with np.errstate(over="ignore", invalid="ignore"):
            differences = _differences(ours, theirs)
        maximum = max(maximum, float(np.max(differences, initial=0, where=finite)))
        for side in (ours, theirs):
            sizes = np.abs(side.astype(np.float64) if _integers(side) else side)
            largest = max(largest, float(np.max(sizes, initial=0, where=finite)))
    # The difference of the largest doubles overflows, and so does the magnitude of two.
    limit = float(np.finfo(np.float64).max)
    maximum, largest = min(maximum, limit), min(largest, limit)
    return Distance(values, incomparable, maximum, maximum / largest if largest else 0.0)


def _integers(*arrays: NDArray[np.generic]) -> bool:
    return all(array.dtype.kind in "biu" for array in arrays)


def _comparable(ours: NDArray[Any], theirs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both with one dtype, except integers, which NumPy compares without rounding."""
    if _integers(ours, theirs):
        return ours, theirs
    dtype = np.result_type(ours, theirs, np.float64)
    return ours.astype(dtype), theirs.astype(dtype)


def _differences(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.generic]:
    """Return the absolute differences, those of integers without rounding."""
    if not _integers(ours, theirs):
        rounded: NDArray[np.generic] = np.abs(ours - theirs)
        return rounded
    # Modulo 2**64, a signed integer becomes unsigned and back without loss.
    ours_modulo, theirs_modulo = ours.astype(np.uint64), theirs.astype(np.uint64)
    return np.where(ours > theirs, ours_modulo - theirs_modulo, theirs_modulo - ours_modulo)
