"""Caffe's own files: ``.caffemodel``, and ``.caffemodel.h5`` in HDF5."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from syncblob.caffe import (
    Layer,
    ModelFile,
    mark_legacy,
    open_model,
    plan_model,
    squeezed_blobs,
)
from syncblob.convert._naming import name_tensors
from syncblob.convert._weights import LayerWeights, Weights
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from pathlib import Path


__all__ = [
    "DTYPES",
    "as_layer",
    "as_model",
    "check",
    "name_layers",
    "read",
    "squeezed",
    "write",
]

DTYPES = frozenset(("float32", "float64"))


def read(path: str) -> Weights:
    """Open a ``.caffemodel`` file, or one of Caffe's HDF5 files without a description."""
    model = open_model(path)
    layers = name_layers(model)
    weights = Weights(path, "caffemodel", name=model.name, layers=layers, close=model.close)
    settings = model._settings().ListFields()  # noqa: SLF001  # to_net() builds all layers, too
    weights.others = tuple(f"{field.name} of the net" for field, _ in settings)
    return weights


def name_layers(model: ModelFile) -> tuple[LayerWeights, ...]:
    """Name the blobs of a model as in `_naming`. Parses the settings of the layers."""
    names = name_tensors((layer.name, layer.type, len(layer.blobs)) for layer in model.layers)
    return tuple(
        LayerWeights(
            layer.name,
            layer.type,
            layer.bottoms,
            layer.tops,
            dict(zip(tensors, layer.blobs, strict=True)),
            _definition(layer),
        )
        for layer, tensors in zip(model.layers, names, strict=True)
    )


def _definition(layer: Layer) -> bytes:
    message = copy.deepcopy(layer.proto)
    for field in ("name", "type", "bottom", "top"):
        message.ClearField(field)
    definition: bytes = message.SerializeToString()
    return definition


def check(weights: Weights) -> None:
    """Raise ValueError or TypeError if a ``.caffemodel`` file cannot store the weights."""
    plan_model(as_model(weights), write_diff=False, upgrade=True)


def write(weights: Weights, path: Path) -> None:
    """Write a ``.caffemodel`` file."""
    plan_model(as_model(weights), write_diff=False, upgrade=True)(path)


def as_model(weights: Weights) -> ModelFile:
    """Make a model from weights. The Blobs are shared."""
    return ModelFile(weights.name, [as_layer(layer, weights.path) for layer in weights.layers])


def squeezed(layer: LayerWeights, path: str) -> LayerWeights:
    """Return a layer without the axes of the older formats that its type does not have.

    Its tensors are views then; `path` is for error messages.
    """
    if not layer.type:
        return layer  # nothing says how many axes its blobs have
    blobs = squeezed_blobs(as_layer(layer, path))
    return replace(layer, tensors=dict(zip(layer.tensors, blobs, strict=True)))


def as_layer(layer: LayerWeights, path: str = "") -> Layer:
    """Make a Caffe layer. The Blobs are shared; `path` is for error messages.

    Raises
    ------
    ModelFileError
        If the definition of the layer is damaged.
    """
    if not layer.definition:
        made = Layer(layer.name, layer.type, layer.bottoms, layer.tops, layer.blobs)
        mark_legacy(made)
        return made
    from google.protobuf.message import DecodeError  # protobuf only when needed

    from syncblob.caffe import LayerParameter  # protobuf only when needed

    try:
        message = LayerParameter.FromString(layer.definition)
    except DecodeError as error:
        raise ModelFileError(
            f"the description of the layer is damaged ({error})", path=path, layer=layer.name
        ) from error
    message.name, message.type = layer.name, layer.type
    message.bottom[:], message.top[:] = layer.bottoms, layer.tops
    made = Layer.from_proto(message, layer.blobs)
    mark_legacy(made)
    return made
