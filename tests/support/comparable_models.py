"""Models in comparable forms, for tests of conversion."""

import json
import struct

import numpy as np
import pytest

from syncblob.caffe import squeezed_blobs

# Formats that hold a model with all of Caffe's data about its layers.
FAITHFUL = ["caffemodel", "safetensors"]


def layers_of(model, *, squeeze=False):
    """Return the data that a conversion must keep, in a comparable form.

    With `squeeze`, blobs of the older formats have the shapes of a running net.
    """
    return [
        (
            layer.name,
            layer.type,
            layer.bottoms,
            layer.tops,
            [
                (blob.shape, blob.dtype, np.asarray(blob).tobytes())
                for blob in (squeezed_blobs(layer) if squeeze else layer.blobs)
            ],
        )
        for layer in (getattr(each, "layer", each) for each in model.layers)
    ]


def by_name(model, *, squeeze=False):
    """Return only the values, by layer, for the layers that have some."""
    return {
        layer.name: [
            (blob.shape, np.asarray(blob).tobytes())
            for blob in (squeezed_blobs(layer) if squeeze else layer.blobs)
        ]
        for layer in model.layers
        if layer.blobs
    }


def safetensors_file(header, values=b""):
    """Return the bytes of a file whose header need not be one that the package writes."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + values


def need_library_of(extension):
    """Skip a test of PyTorch's format if PyTorch is not installed; all others are."""
    if extension == "pt":
        pytest.importorskip("torch")
