"""Models in forms that tests of conversion can compare."""

from __future__ import annotations

import numpy as np
import pytest

# Each can hold a model with everything that Caffe says about its layers.
FAITHFUL = ["caffemodel", "caffemodel.h5", "h5", "npz", "safetensors"]


def layers_of(model):
    """Return what a conversion must keep, in a form that can be compared."""
    return [
        (
            layer.name,
            layer.type,
            layer.bottoms,
            layer.tops,
            [(blob.shape, blob.dtype, np.asarray(blob).tobytes()) for blob in layer.blobs],
        )
        for layer in model.layers
    ]


def by_name(model):
    """Return values alone, by layer; of the layers that have some."""
    return {
        layer.name: [(blob.shape, np.asarray(blob).tobytes()) for blob in layer.blobs]
        for layer in model.layers
        if layer.blobs
    }


_LIBRARIES = {
    "caffemodel.h5": "h5py",
    "h5": "h5py",
    "pt": "torch",
    "pth": "torch",
    "safetensors": "safetensors",
}


def need_library_of(*extensions):
    """Skip the test where the library that owns a format is not installed."""
    for extension in extensions:
        if extension in _LIBRARIES:
            pytest.importorskip(_LIBRARIES[extension])
