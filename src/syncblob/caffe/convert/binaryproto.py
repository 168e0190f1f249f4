"""Caffe's ``.binaryproto``, which holds one array without a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from syncblob.caffe import Layer, read_blob
from syncblob.caffe.convert.weights import LayerWeights, Weights
from syncblob.caffe.messages.legacy_axes import padded
from syncblob.caffe.messages.pieces import write_pieces
from syncblob.caffe.messages.write_blobproto import blob_pieces

if TYPE_CHECKING:
    from pathlib import Path

_AXES_OF_IMAGES = (2, 3)


def read(path: str) -> Weights:
    """Open a file. Its array is called "mean", because it usually is that of a data set."""
    layer = LayerWeights.of(Layer("mean"), {"mean": read_blob(path)})
    return Weights(path, "binaryproto", [layer])


def as_mean(layers: Iterable[LayerWeights]) -> tuple[LayerWeights, ...]:
    """Reshape images, with or without channels, to the four axes that Caffe expects of a mean."""
    return tuple(
        layer.with_blobs(
            blob.reshape(padded(blob.shape)) if blob.ndim in _AXES_OF_IMAGES else blob
            for blob in layer.tensors.values()
        )
        for layer in layers
    )


def plan(weights: Weights) -> Callable[[Path], None]:
    """Plan a file, which needs exactly one tensor that a BlobProto can hold."""
    return partial(write_pieces, blob_pieces(weights.only(), write_diff=False))
