"""PyTorch's batch normalization in Caffe's form: a BatchNorm layer followed by a Scale layer.

PyTorch's module has the statistics and the factors. In Caffe, the first layer has the mean and the
variance, both to be divided by a third blob with one value; the second layer has the factors and
the biases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from syncblob.caffe import Layer
from syncblob.caffe.convert.weights import LayerWeights
from syncblob.formats import Blob

_MEAN, _VARIANCE = "running_mean", "running_var"
_FACTORS = ("weight", "bias")
# The number of batches, which Caffe does not store.
_COUNT = "num_batches_tracked"


def for_caffe(layers: Iterable[LayerWeights]) -> tuple[LayerWeights, ...]:
    """Replace each layer with the tensors of a PyTorch BatchNorm module by two layers.

    The second one is named ``<layer>_scale``. It is omitted if the module has no factors.
    """
    layers = tuple(layers)
    taken = {each.layer.name for each in layers}
    return tuple(made for each in layers for made in _parts(each, taken))


def _parts(each: LayerWeights, taken: set[str]) -> Iterator[LayerWeights]:
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
        tensors = {f"{name}.{part}": blob for part, blob in factors.items()}
        scale = Layer(name, "Scale")
        scale.proto.scale_param.bias_term = "bias" in factors
        yield LayerWeights.of(scale, tensors)
