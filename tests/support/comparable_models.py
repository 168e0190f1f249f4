"""Models in comparable forms, for tests of conversion."""

from __future__ import annotations

import numpy as np
import pytest

# Formats that can hold a model with all of Caffe's data about its layers.
FAITHFUL = ["caffemodel", "caffemodel.h5", "h5", "npz", "safetensors"]


def layers_of(model):
    """Return the data that a conversion must keep, in a comparable form."""
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
    """Return only the values, by layer, for the layers that have some."""
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
    """Skip the test if the library that owns a format is not installed."""
    for extension in extensions:
        if extension in _LIBRARIES:
            pytest.importorskip(_LIBRARIES[extension])
