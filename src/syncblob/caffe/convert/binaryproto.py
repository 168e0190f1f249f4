"""Caffe's ``.binaryproto``: one blob, without a name, such as the mean of a data set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from syncblob.caffe import read_blob, write_blob
from syncblob.caffe.convert import caffe_models
from syncblob.caffe.convert.weights import LayerWeights, Weights
from syncblob.caffe.messages.blobproto import blob_pieces, padded

if TYPE_CHECKING:
    from pathlib import Path

DTYPES = caffe_models.DTYPES

_AXES_OF_IMAGES = (2, 3)


def read(path: str) -> Weights:
    """Open a file."""
    return Weights.of_one(path, "binaryproto", read_blob(path))


def for_caffe(layers: tuple[LayerWeights, ...]) -> tuple[LayerWeights, ...]:
    """Reshape an image, with or without channels, to the four axes that Caffe expects of a mean."""
    return tuple(
        replace(
            layer,
            tensors={
                name: blob.reshape(padded(blob.shape)) if blob.ndim in _AXES_OF_IMAGES else blob
                for name, blob in layer.tensors.items()
            },
        )
        for layer in layers
    )


def check(weights: Weights) -> None:
    """Raise ValueError unless there is exactly one tensor, and a BlobProto can hold it."""
    blob_pieces(weights.only(), write_diff=False)


def write(weights: Weights, path: Path) -> None:
    """Write a file."""
    write_blob(weights.only(), path, write_diff=False)
