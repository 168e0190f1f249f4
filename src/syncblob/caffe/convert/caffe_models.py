"""Caffe's own files: ``.caffemodel``, ``.caffemodel.h5`` in HDF5, and ``.binaryproto``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from syncblob.caffe import Layer, ModelFile, mark_legacy, open_model, read_blob
from syncblob.caffe.convert.naming import name_tensors
from syncblob.caffe.convert.weights import LayerWeights, Weights
from syncblob.caffe.files.model import plan_consistent
from syncblob.caffe.messages.legacy_axes import padded
from syncblob.caffe.messages.pieces import write_pieces
from syncblob.caffe.messages.write_blobproto import blob_pieces

if TYPE_CHECKING:
    from pathlib import Path

_AXES_OF_IMAGES = (2, 3)


def read(path: str, kind: str = "caffemodel") -> Weights:
    """Open a file, and name the blobs of its layers as in `naming`."""
    return of_model(open_model(path), path, kind)


def of_model(model: ModelFile, path: str, kind: str) -> Weights:
    """Make weights from a model. The layers are shared."""
    layers = name_layers(model)
    return Weights(path, kind, layers, model.close, name=model.name, settings=model.settings)


def name_layers(model: ModelFile) -> Iterator[LayerWeights]:
    """Name the blobs of the layers of a model."""
    names = name_tensors((layer.name, _kind(layer), len(layer.blobs)) for layer in model.layers)
    for layer, tensors in zip(model.layers, names, strict=True):
        yield LayerWeights(layer, tuple(tensors))


def _kind(layer: Layer) -> str:
    """Return the type by which the blobs are named: a Scale of two bottoms only has a bias."""
    return "Bias" if layer.type == "Scale" and len(layer.bottoms) > 1 else layer.type


def as_model(weights: Weights) -> ModelFile:
    """Make a model from weights. The Blobs are shared."""
    model = ModelFile(weights.name, [each.layer for each in weights.layers])
    model.settings = weights.settings
    for layer in model.layers:
        mark_legacy(layer)
    return model


def plan(weights: Weights, *, hdf5: bool = False) -> Callable[[Path], None]:
    """Plan a ``.caffemodel`` file, or a ``.caffemodel.h5``."""
    return plan_consistent(as_model(weights), hdf5=hdf5, write_diff=False, upgrade=True)


# --- one array without a name ---------------------------------------------------------------------


def read_mean(path: str) -> Weights:
    """Open a ``.binaryproto``. Its array is called "mean", which it usually is, of a data set."""
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


def plan_mean(weights: Weights) -> Callable[[Path], None]:
    """Plan a ``.binaryproto``, which needs exactly one tensor that a BlobProto can hold."""
    return partial(write_pieces, blob_pieces(weights.only(), write_diff=False))
