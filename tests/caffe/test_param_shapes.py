"""Blobs with the four axes of the older formats, and without leading axes of size 1."""

import numpy as np
import pytest

from syncblob._blob import Blob
from syncblob.caffe import (
    Layer,
    LayerParameter,
    ModelFile,
    equal_shapes,
    mark_legacy,
    open_model,
    save_model,
)


@pytest.fixture
def inner_product():
    """A layer with blobs in the shapes of an older format, made of arrays."""
    settings = LayerParameter(name="ip", type="InnerProduct")
    settings.inner_product_param.num_output = 2
    return Layer.from_proto(
        settings, [np.ones((1, 1, 2, 3), np.float32), np.ones((1, 1, 1, 2), np.float32)]
    )


@pytest.mark.parametrize("marked", [False, True])
def test_marked_blobs_are_written_with_the_old_dimensions(inner_product, tmp_path, marked):
    if marked:
        mark_legacy(inner_product)
    save_model(ModelFile("net", [inner_product]), tmp_path / "x.caffemodel")
    read = open_model(tmp_path / "x.caffemodel")["ip"].blobs[1]
    assert read.shape == (1, 1, 1, 2)
    assert equal_shapes(Blob(2), read) is equal_shapes(read, Blob(2)) is marked
