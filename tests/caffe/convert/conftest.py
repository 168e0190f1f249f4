"""The model shared by the tests of conversion."""

import numpy as np
import pytest

import syncblob
from syncblob import Layer, ModelFile
from syncblob.caffe._pb.caffe_pb2 import LayerParameter


@pytest.fixture
def model(tmp_path):
    """Save a model with many kinds of layers, and open it."""
    random = np.random.default_rng(0)

    def values(*shape, dtype=np.float32):
        return random.normal(size=shape).astype(dtype)

    settings = LayerParameter(name="conv1", type="Convolution", bottom=["data"], top=["conv1"])
    settings.convolution_param.num_output = 4
    settings.param.add(lr_mult=2)
    made = ModelFile(
        "a net",
        [
            Layer("data", "Input", tops=["data", "label"]),
            Layer.from_proto(settings, [values(4, 3, 2, 2), values(4)]),
            Layer("bn.1", "BatchNorm", ["conv1"], ["conv1"], [values(4), values(4), values(1)]),
            Layer("ip", "InnerProduct", ["conv1"], ["ip"], [values(2, 16, dtype=np.float64)]),
            Layer("lstm", "LSTM", ["ip"], ["l"], [values(8, 2), values(8), values(8, 2)]),
            Layer("odd", "Bias", [], [], [values()]),
            Layer("empty", "Scale", [], [], [np.zeros((0, 3), np.float32)]),
        ],
    )
    path = tmp_path / "model.caffemodel"
    syncblob.save_model(made, path)
    with syncblob.open_model(path) as opened:
        yield opened
