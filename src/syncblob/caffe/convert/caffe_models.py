"""Caffe's own files: ``.caffemodel``, and ``.caffemodel.h5`` in HDF5."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from syncblob.caffe import (
    Layer,
    ModelFile,
    legacy_blobs,
    mark_legacy,
    open_model,
    plan_model,
    squeezed_blobs,
)
from syncblob.caffe.convert.naming import name_tensors
from syncblob.caffe.convert.weights import LayerWeights, Weights
from syncblob.caffe.messages import texts
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from pathlib import Path

    from syncblob.caffe import NetParameter

DTYPES = frozenset(("float32", "float64"))


def read(path: str) -> Weights:
    """Open a ``.caffemodel`` file, or one of Caffe's HDF5 files without a description."""
    model = open_model(path)
    return Weights(
        path,
        "caffemodel",
        name=model.name,
        layers=name_layers(model),
        settings=model.settings.SerializeToString(),
        close=model.close,
    )


def name_layers(model: ModelFile) -> tuple[LayerWeights, ...]:
    """Name the blobs of a model as in `naming`. Parses the settings of the layers."""
    names = name_tensors((layer.name, layer.type, len(layer.blobs)) for layer in model.layers)
    return tuple(
        LayerWeights(
            layer.name,
            layer.type,
            layer.bottoms,
            layer.tops,
            dict(zip(tensors, layer.blobs, strict=True)),
            _definition(layer),
            frozenset(tensors[number] for number in legacy_blobs(layer)),
        )
        for layer, tensors in zip(model.layers, names, strict=True)
    )


def _definition(layer: Layer) -> bytes:
    message = copy.deepcopy(layer.proto)
    for field in ("name", "type", "bottom", "top"):
        message.ClearField(field)
    definition: bytes = message.SerializePartialToString()
    return definition


def check(weights: Weights) -> None:
    """Raise ValueError or TypeError if a ``.caffemodel`` file cannot store the weights."""
    plan_model(as_model(weights), write_diff=False, upgrade=True)


def write(weights: Weights, path: Path) -> None:
    """Write a ``.caffemodel`` file."""
    plan_model(as_model(weights), write_diff=False, upgrade=True)(path)


def as_model(weights: Weights) -> ModelFile:
    """Make a model from weights. The Blobs are shared.

    Raises
    ------
    ModelFileError
        If the settings of the net or the definition of a layer are damaged.
    """
    model = ModelFile(weights.name, [as_layer(layer, weights.path) for layer in weights.layers])
    if weights.settings:
        model.settings = _settings(weights)
    return model


def names_of_settings(weights: Weights) -> list[str]:
    """Return the names of the settings of the net, apart from its name and its layers."""
    if not weights.settings:
        return []
    return [field.name for field, _ in _settings(weights).ListFields()]


def _settings(weights: Weights) -> NetParameter:
    from syncblob.caffe import NetParameter  # protobuf only when needed

    net: NetParameter = _parsed(NetParameter, weights.settings, "net", weights.path)
    for field in ("name", "layer", "layers"):
        net.ClearField(field)
    return net


def _parsed(kind: Any, message: bytes, what: str, path: str, name: str | None = None) -> Any:
    from google.protobuf.message import DecodeError  # protobuf only when needed

    try:
        return kind.FromString(message)
    except DecodeError as error:
        raise ModelFileError(
            f"the description of the {what} is damaged ({error})", path=path, layer=name
        ) from error


def names_of_parameters(definition: bytes) -> list[str]:
    """Return the names of the parameters of a layer, by which layers share them."""
    from syncblob.caffe import LayerParameter  # protobuf only when needed

    return [spec.name for spec in LayerParameter.FromString(definition).param]


def unknown_fields(weights: Weights) -> dict[str, int]:
    """Return the paths of the fields of layers that Caffe does not have, with their numbers."""
    if not any(layer.definition for layer in weights.layers):
        return {}
    from syncblob.caffe import LayerParameter  # protobuf only when needed

    messages = (
        _parsed(LayerParameter, layer.definition, "layer", weights.path, layer.name)
        for layer in weights.layers
    )
    return dict(
        Counter(path for message in messages for path in texts.unknown_fields(message, "layer."))
    )


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
    if layer.definition:
        from syncblob.caffe import LayerParameter  # protobuf only when needed

        message = _parsed(LayerParameter, layer.definition, "layer", path, layer.name)
        message.name, message.type = layer.name, layer.type
        message.bottom[:], message.top[:] = layer.bottoms, layer.tops
        made = Layer.from_proto(message, layer.blobs)
    else:
        made = Layer(layer.name, layer.type, layer.bottoms, layer.tops, layer.blobs)
    mark_legacy(made, [number for number, name in enumerate(layer.tensors) if name in layer.legacy])
    return made
