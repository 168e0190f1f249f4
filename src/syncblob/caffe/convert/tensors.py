"""Conversion between models and dictionaries of named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syncblob.caffe import ModelFile
from syncblob.caffe.convert.caffe_files import for_caffe, name_layers
from syncblob.caffe.convert.checkpoint import flatten
from syncblob.caffe.convert.weights import Weights, for_others
from syncblob.caffe.nets.layer import as_named_blob
from syncblob.formats import Blob


def to_tensors(model: ModelFile, *, squeeze: bool = False) -> dict[str, Blob]:
    """Return the blobs of a model, not copied, by names such as ``"conv1.weight"``.

    Parameters
    ----------
    model
        The model.
    squeeze
        Whether to remove the leading axes of length 1 that blobs of V1 files have, but
        PyTorch's modules do not: a bias of shape (1, 1, 1, 32) becomes a view of shape (32,), the
        weight (1, 1, 10, 500) of an inner product one of (10, 500). The type of a layer determines
        the number of axes; blobs of other types are unchanged. The weight of an inner product with
        ``transpose: true`` becomes a view with the axes (outputs, inputs).

    Raises
    ------
    TypeError
        If `model` is not a ModelFile.
    """
    if not isinstance(model, ModelFile):
        raise TypeError(
            f"expected a ModelFile, got {type(model).__name__}; syncblob.open_model(path) opens "
            f"one, and open_weights(path).tensors has those of any file"
        )
    layers = name_layers(model)
    return {
        name: blob
        for each in (for_others(layers) if squeeze else layers)
        for name, blob in each.tensors.items()
    }


def from_tensors(tensors: Mapping[str, Any], name: str = "") -> ModelFile:
    """Make a model from named tensors. The names determine the layers.

    The tensors of a PyTorch BatchNorm module, such as ``bn.running_mean``, become a BatchNorm layer
    and a Scale layer ``bn_scale``, as Caffe requires.

    Parameters
    ----------
    tensors
        Arrays of any library by name, such as a ``state_dict``. Their memory is shared if possible;
        see `syncblob.Blob.asarray`. The names in nested dictionaries are joined with dots. The
        entries ``_extra_state`` of PyTorch's modules are left out.
    name
        The name of the net.

    Raises
    ------
    TypeError
        If `tensors` is not a mapping, or one of the entries is not an array.
    ValueError
        If two tensors get one name.
    """
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"expected a mapping from names to arrays, got {type(tensors).__name__}; for a PyTorch "
            f"module use module.state_dict()"
        )
    flat = flatten(tensors, lambda _: True).tensors
    blobs = {key: as_named_blob(f"tensor {key!r}", array) for key, array in flat.items()}
    layers = for_caffe(Weights.of_entries("", "", blobs).layers)
    return ModelFile(name, [each.layer for each in layers])
