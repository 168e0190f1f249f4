"""Blobs with num, channels, height and width in place of a shape, which have always four axes.

Those of the older formats are such: a bias of 32 values is (1, 1, 1, 32). Caffe compares them with
the shape in a net as if that had four axes too, the first of them 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncblob.caffe._fields import LEGACY_AXES
from syncblob.caffe._origins import origin_of
from syncblob.caffe._param_shapes import expected_blobs

if TYPE_CHECKING:
    from syncblob.blob import Blob
    from syncblob.caffe._layer import Layer

__all__ = ["equal_shapes", "is_legacy", "mark_legacy", "squeezed"]


def is_legacy(blob: Blob) -> bool:
    """Tell whether a Blob has the four dimensions of the message that it was read from."""
    origin = origin_of(blob)
    return origin is not None and origin.index.legacy


def _padded(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with as many axes of 1 in front as make it four."""
    return (1,) * (LEGACY_AXES - len(shape)) + shape


def equal_shapes(
    ours: tuple[int, ...], theirs: tuple[int, ...], *, our_legacy: bool, their_legacy: bool
) -> bool:
    """Compare two shapes, each of which may be a legacy one, as Caffe's ShapeEquals does."""
    return (
        ours == theirs
        or (their_legacy and _padded(ours) == theirs)
        or (our_legacy and ours == _padded(theirs))
    )


def squeezed(layer: Layer) -> list[Blob]:
    """Return the blobs of a layer without the axes of 1 in front that its type does not have."""
    return [
        blob if blob.shape == shape else blob.reshape(shape)
        for blob, shape in zip(layer.blobs, _own_shapes(layer), strict=True)
    ]


def mark_legacy(layer: Layer) -> None:
    """Have those blobs written with the four dimensions that Caffe would not take as a shape."""
    entries = layer.blobs._entries
    for number, shape in enumerate(_own_shapes(layer)):
        if entries[number].shape != shape:
            entries[number] = entries[number]._replace(legacy=True)


def _own_shapes(layer: Layer) -> list[tuple[int, ...]]:
    """Return the shapes that the blobs of a layer have in a running net."""
    shapes = [blob.shape for blob in layer.blobs]
    if all(len(shape) != LEGACY_AXES for shape in shapes):
        return shapes
    expected = expected_blobs(layer._definition.message())
    if expected is None or len(expected) != len(shapes):
        return shapes
    return [
        shape[LEGACY_AXES - len(place.dims) :]
        if len(shape) == LEGACY_AXES > len(place.dims)
        and not place.repeats
        and shape == _padded(shape[LEGACY_AXES - len(place.dims) :])
        else shape
        for shape, place in zip(shapes, expected, strict=True)
    ]
