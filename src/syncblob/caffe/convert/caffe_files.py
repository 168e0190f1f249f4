"""Caffe's own files, and models as weights: the blobs of layers get names as in `weights`.

PyTorch's batch normalization gets Caffe's form: a BatchNorm layer with the mean and the variance,
both to be divided by a third blob with one value, and a Scale layer with the factors and the
biases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from syncblob.caffe import Layer, ModelFile, mark_legacy, open_model
from syncblob.caffe.convert.pytorch import flatten
from syncblob.caffe.convert.weights import LayerWeights, Weights, for_others, name_tensors
from syncblob.caffe.files.caffe_hdf5 import plan_edit, plan_tree, read_tree
from syncblob.caffe.files.model import plan_new
from syncblob.caffe.messages.fields import Write
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.string_fields import require_type
from syncblob.caffe.nets.layer import as_named_blob
from syncblob.formats import Blob

_MEAN, _VARIANCE = "running_mean", "running_var"
_FACTORS = ("weight", "bias")
# The number of batches, which Caffe does not store.
_COUNT = "num_batches_tracked"


def read(path: str) -> Weights:
    return of_model(open_model(path), path, "caffemodel")


def of_model(model: ModelFile, path: str, kind: str) -> Weights:
    """Make weights from a model. The layers are shared."""
    file = None if model.origin is None else model.origin.file
    layers = tuple(name_layers(model))
    return Weights(path, kind, layers, model.name, model.settings, file=file)


def name_layers(model: ModelFile) -> Iterator[LayerWeights]:
    """Name the blobs of the layers of a model."""
    # A Scale of two bottoms only has a bias.
    kinds = [
        "Bias" if layer.type == "Scale" and len(layer.bottoms) > 1 else layer.type
        for layer in model.layers
    ]
    names = name_tensors(
        (layer.name, kind, len(layer.blobs))
        for layer, kind in zip(model.layers, kinds, strict=True)
    )
    return map(LayerWeights, model.layers, map(tuple, names))


def as_model(weights: Weights) -> ModelFile:
    """Make a model from weights. The Blobs are shared."""
    model = ModelFile(weights.name, [each.layer for each in weights.layers])
    model.settings = weights.settings
    for layer in model.layers:
        mark_legacy(layer)
    return model


def plan(weights: Weights, *, hdf5: bool = False) -> Write:
    """Plan a ``.caffemodel`` file, or a ``.caffemodel.h5``."""
    return plan_new(as_model(weights), hdf5=hdf5, write_diff=False)


def for_caffe(layers: Iterable[LayerWeights]) -> tuple[LayerWeights, ...]:
    """Replace each layer with the tensors of a PyTorch BatchNorm module by two layers."""
    layers = tuple(layers)
    taken = {each.layer.name for each in layers}
    return tuple(made for each in layers for made in _batch_norm(each, taken))


def _batch_norm(each: LayerWeights, taken: set[str]) -> Iterator[LayerWeights]:
    found = {name.rpartition(".")[2]: blob for name, blob in each.tensors.items()}
    factors = {part: found[part] for part in _FACTORS if part in found}
    if (
        each.layer.type
        or not found.keys() >= {_MEAN, _VARIANCE}
        or found.keys() - {_MEAN, _VARIANCE, _COUNT, *_FACTORS}
        or list(factors) == ["bias"]
    ):
        yield each
        return
    name = each.layer.name
    statistics = {
        f"{name}.mean": found[_MEAN],
        f"{name}.variance": found[_VARIANCE],
        f"{name}.scale_factor": Blob.asarray(np.ones(1, found[_MEAN].dtype)),
    }
    yield LayerWeights.of(Layer(name, "BatchNorm"), statistics)
    if factors:
        name += "_scale"
        while name in taken:
            name += "_"
        taken.add(name)
        scale = Layer(name, "Scale")
        scale.proto.scale_param.bias_term = "bias" in factors
        yield LayerWeights.of(scale, {f"{name}.{part}": blob for part, blob in factors.items()})


def to_tensors(model: ModelFile, *, squeeze: bool = False) -> dict[str, Blob]:
    """Return the blobs of a model, not copied, by names such as ``"conv1.weight"``.

    Parameters
    ----------
    model
        The model.
    squeeze
        Whether to return views as PyTorch's modules have them: without the leading axes of length 1
        of blobs of V1 files, as the type of the layer determines; and with the axes (outputs,
        inputs) for the weight of an inner product with ``transpose: true``.
    """
    advice = "open_model(path) opens one, and open_weights(path).tensors has those of any file"
    require_type(model, ModelFile, advice)
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
        see `syncblob.Blob.asarray`. The names in nested dictionaries are joined with dots; two of
        one name raise ValueError. The entries ``_extra_state`` of PyTorch's modules are left out.
    name
        The name of the net.
    """
    require_type(tensors, Mapping, "a PyTorch module has state_dict()")
    flat = flatten(tensors, lambda _: True).tensors
    blobs = {key: as_named_blob(f"tensor {key!r}", array) for key, array in flat.items()}
    layers = for_caffe(Weights.of_entries("", "", blobs).layers)
    return ModelFile(name, [each.layer for each in layers])


# --- HDF5 in another layout than Caffe's ----------------------------------------------------------


def read_hdf5(path: str) -> Weights:
    """Open HDF5, also in Caffe's layout. Reads its tree, but no values."""
    file = OpenFile(path)
    tree = read_tree(file)
    if tree is None:
        return of_model(open_model(path), path, "caffemodel.h5")
    datasets, others = tree
    return Weights.of_entries(path, "hdf5", datasets, file, others=tuple(others))


def plan_tensors_hdf5(weights: Weights) -> Write:
    """Plan HDF5 with a dataset for each tensor."""
    source, write = weights.source_file(), plan_tree(weights.tensors)
    return write if source is None else plan_edit(source, weights.tensors)
