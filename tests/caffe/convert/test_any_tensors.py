"""Tensors of any names, shapes and values survive two conversions, through any two formats."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy

from syncblob import Layer, ModelFile, save_model
from syncblob.caffe.convert import convert, open_weights, writable_extensions

pytest.importorskip("torch")

NAMES = st.text("abcXYZ019_-", min_size=1, max_size=8)
# A message without values does not determine a precision.
VALUES = (
    of_numpy.arrays(
        np.float32, of_numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)
    )
    | of_numpy.arrays(np.float64, of_numpy.array_shapes(max_dims=4, max_side=3))
    # Caffe's HDF5 format has a Scale's blob of the older formats with its own axis alone.
).filter(lambda values: values.ndim < 4 or values.shape[:3] != (1, 1, 1))
LAYERS = st.dictionaries(NAMES, st.lists(VALUES, max_size=3), max_size=4).filter(
    lambda layers: any(layers.values())
)


@settings(max_examples=60)
@given(layers=LAYERS, formats=st.tuples(*[st.sampled_from(writable_extensions())] * 2))
def test_they_come_back_bit_for_bit(layers, formats):
    with tempfile.TemporaryDirectory() as name:
        first, *others = [Path(name, f"{n}{x}") for n, x in enumerate((".caffemodel", *formats))]
        made = [Layer(one, "Scale", blobs=blobs) for one, blobs in layers.items()]
        save_model(ModelFile("net", made), first)
        expected = read(first)
        assert sorted(expected.values()) == sorted(
            (blob.shape, str(blob.dtype), blob.tobytes()) for one in layers.values() for blob in one
        )
        for other in others:
            convert(first, other)
            assert read(other) == expected
            first = other


def read(path):
    with open_weights(path) as weights:
        return {
            name: (blob.shape, blob.dtype.name, blob.cpu_data().tobytes())
            for name, blob in weights.tensors.items()
        }
