"""A small net with weights, for a tour without a user's file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from syncblob.caffe import Layer, ModelFile, save_model

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["write_lenet"]

# Name, type, input and the shape of the weights; each layer also has a bias for each output. These
# are the learned layers of Caffe's example LeNet.
_LAYERS = (
    ("conv1", "Convolution", "data", (20, 1, 5, 5)),
    ("conv2", "Convolution", "conv1", (50, 20, 5, 5)),
    ("ip1", "InnerProduct", "conv2", (500, 800)),
    ("ip2", "InnerProduct", "ip1", (10, 500)),
)


def write_lenet(path: Path) -> None:
    """Write a ``.caffemodel`` of 1.6 MiB, whose random weights are always the same."""
    random = np.random.default_rng(seed=0)
    layers = []
    for name, kind, bottom, shape in _LAYERS:
        # Like Caffe's "xavier" filler.
        limit = math.sqrt(3 / math.prod(shape[1:]))
        weights = random.uniform(-limit, limit, shape).astype(np.float32)
        layers.append(
            Layer(name, kind, [bottom], [name], [weights, np.zeros(shape[0], np.float32)])
        )
    save_model(ModelFile("LeNet", layers), path)
