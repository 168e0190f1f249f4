"""Models as dictionaries of named tensors, without a file between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.caffe import Layer, ModelFile
from syncblob.convert._naming import group_names, name_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncblob.blob import Blob

__all__ = ["from_tensors", "to_tensors"]


def to_tensors(model: ModelFile) -> dict[str, Blob]:
    """Return the blobs of a model by names such as ``"conv1.weight"``. They are shared.

    Parameters
    ----------
    model
        The model.
    """
    layers = model.layers
    names = name_tensors((layer.name, layer.type, len(layer.blobs)) for layer in layers)
    return {
        name: blob
        for layer, of_layer in zip(layers, names, strict=True)
        for name, blob in zip(of_layer, layer.blobs, strict=True)
    }


def from_tensors(tensors: Mapping[str, Any], name: str = "") -> ModelFile:
    """Make a model of named tensors. The layers are those that the names tell.

    Parameters
    ----------
    tensors
        Arrays of any library by name, such as a ``state_dict``. Their memory is taken over where
        that is possible; see `syncblob.Blob.asarray`.
    name
        The name of the net.
    """
    return ModelFile(
        name,
        [
            Layer(layer, kind, blobs=[tensors[key] for key in names])
            for layer, kind, names in group_names(tensors)
        ],
    )
