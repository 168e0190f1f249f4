"""Squeezes blobs: they lose the leading axes of 1 that the older formats add.

The settings of the layer tell which of their four axes are padding.
"""

from __future__ import annotations

from syncblob.caffe.messages.fields import LEGACY_AXES, padded
from syncblob.caffe.nets.layer import Layer
from syncblob.caffe.nets.param_shapes import expected_blobs
from syncblob.formats import Blob


def squeezed_blobs(layer: Layer) -> list[Blob]:
    """Return the blobs of a layer without the leading axes of 1 that the older formats add.

    A bias of shape (1, 1, 1, 32) becomes a view of shape (32,). If the settings do not determine
    the number of axes, the blobs are returned as they are.
    """
    return [
        blob if blob.shape == shape else blob.reshape(shape)
        for blob, shape in zip(layer.blobs, own_shapes(layer), strict=True)
    ]


def mark_legacy(layer: Layer) -> None:
    """Mark the blobs that `squeezed_blobs` would change, to be written with four old dimensions.

    Caffe accepts these for the shape in a running net. It would refuse them in a `shape` message.
    """
    entries = layer.blobs.entries
    for number, shape in enumerate(own_shapes(layer)):
        if entries[number].blob.shape != shape:
            entries[number] = entries[number]._replace(legacy=True)


def own_shapes(layer: Layer) -> list[tuple[int, ...]]:
    """Return the shapes that the blobs of a layer have in a running net, without axes in front."""
    shapes = [blob.shape for blob in layer.blobs]
    if all(len(shape) != LEGACY_AXES for shape in shapes):
        return shapes
    expected = expected_blobs(layer.proto)
    # Without settings, it is not known that a layer has no bias, which comes last.
    if expected is None or len(expected) < len(shapes):
        return shapes
    return [
        shape[LEGACY_AXES - len(place.dims) :]
        if len(shape) == LEGACY_AXES > len(place.dims)
        and not place.repeats
        and shape == padded(shape[LEGACY_AXES - len(place.dims) :])
        else shape
        for shape, place in zip(shapes, expected, strict=False)
    ]
