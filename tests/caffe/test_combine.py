"""Trained weights for the layers of another model or of a definition, as Caffe copies them."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import text_format

from syncblob.blob import Blob
from syncblob.caffe import CopyReport, Layer, ModelFile, open_model
from syncblob.caffe._pb.caffe_pb2 import BlobProto, LayerParameter, NetParameter
from syncblob.memory import Head


def blobs(*shapes):
    return [Blob(shape) for shape in shapes]


def definition(*layers):
    return ModelFile.from_net(
        NetParameter(layer=[text_format.Parse(layer, LayerParameter()) for layer in layers])
    )


def test_what_is_reported():
    source = ModelFile(
        "trained",
        [
            Layer("data", "Input"),
            Layer("conv1", "Convolution", blobs=blobs((2, 3, 5, 5), (2,))),
            Layer("relu1", "ReLU"),
            Layer("old", "InnerProduct", blobs=blobs((1, 2))),
        ],
    )
    target = definition(
        'name: "conv1" type: "Convolution" convolution_param { num_output: 2 kernel_size: 5 }',
        'name: "relu1" type: "ReLU"',
        'name: "drop" type: "Dropout"',
        'name: "new" type: "InnerProduct" inner_product_param { num_output: 10 }',
        'name: "own" type: "Mystery"',
    )
    report = target.copy_trained_layers_from(source)
    assert report == CopyReport(copied=("conv1",), missing=("new",), ignored=("data", "old"))
    assert list(target["conv1"].blobs) == list(source["conv1"].blobs)
    assert len(target["new"].blobs) == 0


def test_weights_stay_in_the_file(write, v2_net):
    source = open_model(write(v2_net))
    target = ModelFile("t", [Layer("ip", "Mystery")])
    target.copy_trained_layers_from(source)
    assert target["ip"].blobs[0].head is Head.UNINITIALIZED
    assert target["ip"].blobs[0].cpu_data().tolist() == [1, 2]


def test_models_with_blobs():
    target = ModelFile("t", [Layer("a", blobs=blobs((2, 3))), Layer("b", blobs=blobs((4,)))])
    ones = np.ones((2, 3), np.float32)
    report = target.copy_trained_layers_from(ModelFile("s", [Layer("a", blobs=[ones])]))
    assert report == CopyReport(copied=("a",), missing=("b",), ignored=())
    assert target["a"].blobs[0].cpu_data().sum() == 6


def test_of_source_layers_of_one_name_the_last_wins():
    source = ModelFile("s", [Layer("a", blobs=[[1.0]]), Layer("a", blobs=[[2.0]])])
    target = ModelFile("t", [Layer("a", blobs=[[0.0]])])
    target.copy_trained_layers_from(source)
    assert target["a"].blobs[0].tolist() == [2]


def test_nothing_changes_when_one_layer_does_not_fit():
    target = ModelFile("t", [Layer("a", blobs=[[0.0]]), Layer("b", blobs=blobs((10, 21)))])
    source = ModelFile("s", [Layer("a", blobs=[[1.0]]), Layer("b", blobs=blobs((1, 1, 10, 20)))])
    with pytest.raises(
        ValueError,
        match=r"layer 'b', blob 0: expected shape \(10, 21\), the source has \(1, 1, 10, 20\)",
    ):
        target.copy_trained_layers_from(source)
    assert target["a"].blobs[0].tolist() == [0]


CONVOLUTION = 'name: "x" type: "Convolution" convolution_param {'
DECONVOLUTION = 'name: "x" type: "Deconvolution" convolution_param {'
INNER_PRODUCT = 'name: "x" type: "InnerProduct" inner_product_param {'

FITTING = [
    (CONVOLUTION + "num_output: 4 kernel_size: 3 group: 2 }", [(4, 1, 3, 3), (4,)]),
    (CONVOLUTION + "num_output: 4 kernel_size: 3 }", [(4, 1, 3, 3, 3), (4,)]),
    (CONVOLUTION + "num_output: 4 kernel_size: [3, 2] bias_term: false }", [(4, 1, 3, 2)]),
    (CONVOLUTION + "num_output: 4 kernel_h: 1 kernel_w: 7 }", [(4, 9, 1, 7), (4,)]),
    (DECONVOLUTION + "num_output: 4 kernel_size: 3 group: 2 }", [(9, 2, 3, 3), (4,)]),
    (INNER_PRODUCT + "num_output: 4 }", [(4, 9), (4,)]),
    (INNER_PRODUCT + "num_output: 4 transpose: true bias_term: false }", [(9, 4)]),
    ('name: "x" type: "Embed" embed_param { num_output: 4 input_dim: 7 }', [(7, 4), (4,)]),
    ('name: "x" type: "BatchNorm"', [(9,), (9,), (1,)]),
    ('name: "x" type: "Scale" bottom: "a"', [(9,)]),
    ('name: "x" type: "Scale" bottom: "a" scale_param { bias_term: true }', [(9,), (9,)]),
    ('name: "x" type: "Scale" bottom: "a" scale_param { num_axes: 0 }', [()]),
    ('name: "x" type: "Scale" bottom: "a" scale_param { num_axes: -1 }', [(1, 2, 3)]),
    ('name: "x" type: "Scale" bottom: "a" bottom: "b"', []),
    ('name: "x" type: "Bias" bottom: "a"', [(9,)]),
    ('name: "x" type: "Bias" bottom: "a" bottom: "b"', []),
    ('name: "x" type: "Bias" bottom: "a" bias_param { num_axes: -1 }', [(1, 2)]),
    ('name: "x" type: "PReLU"', [(9,)]),
    ('name: "x" type: "PReLU" prelu_param { channel_shared: true }', [()]),
    (
        'name: "x" type: "Parameter" parameter_param { shape { dim: 2 dim: 5 } }',
        [(2, 5)],
    ),
    ('name: "x" type: "ReLU"', []),
    ('name: "x" type: "Mystery"', [(1,), (2, 3)]),
]


@pytest.mark.parametrize(("layer", "shapes"), FITTING)
def test_what_the_settings_ask_for(layer, shapes):
    target = definition(layer)
    report = target.copy_trained_layers_from(ModelFile("s", [Layer("x", blobs=blobs(*shapes))]))
    assert [blob.shape for blob in target["x"].blobs] == shapes
    assert report.copied == (("x",) if shapes else ())


@pytest.mark.parametrize(
    ("layer", "shapes", "message"),
    [
        (
            CONVOLUTION + "num_output: 4 kernel_size: 3 }",
            [(5, 1, 3, 3), (4,)],
            r"blob 0: expected shape \(4, \?, 3, \.\.\.\), the source has \(5, 1, 3, 3\)",
        ),
        (CONVOLUTION + "num_output: 4 kernel_size: 3 }", [(4, 1, 3, 5), (4,)], "blob 0"),
        (CONVOLUTION + "num_output: 4 kernel_size: 3 }", [(4, 1), (4,)], "blob 0"),
        (CONVOLUTION + "num_output: 4 kernel_size: 3 }", [(4, 1, 3, 3)], "expected 2 blobs"),
        (INNER_PRODUCT + "num_output: 4 }", [(4, 9), (5,)], r"blob 1: expected shape \(4,\)"),
        (INNER_PRODUCT + "num_output: 4 }", [], "expected 2 blobs, the source has 0"),
        ('name: "x" type: "ReLU"', [(1,)], "expected 0 blobs, the source has 1"),
        ('name: "x" type: "BatchNorm"', [(9,), (9,), (2,)], "blob 2"),
    ],
)
def test_what_does_not_fit_the_settings(layer, shapes, message):
    target = definition(layer)
    with pytest.raises(ValueError, match=f"layer 'x'.*{message}.*rename it"):
        target.copy_trained_layers_from(ModelFile("s", [Layer("x", blobs=blobs(*shapes))]))
    assert len(target["x"].blobs) == 0


@pytest.mark.parametrize(
    ("dims", "layer", "fits"),
    [
        ((1, 1, 4, 6), INNER_PRODUCT + "num_output: 4 bias_term: false }", True),
        ((1, 4, 1, 6), INNER_PRODUCT + "num_output: 4 bias_term: false }", False),
        ((1, 1, 1, 24), 'name: "x" type: "PReLU"', True),
        ((4, 6, 1, 1), CONVOLUTION + "num_output: 4 kernel_size: 1 bias_term: false }", True),
    ],
)
def test_legacy_dims_are_aligned_to_the_right(write, dims, layer, fits):
    num, channels, height, width = dims
    blob = BlobProto(num=num, channels=channels, height=height, width=width, data=[0] * 24)
    path = write(NetParameter(layer=[LayerParameter(name="x", blobs=[blob])]))
    target = definition(layer)
    if fits:
        assert target.copy_trained_layers_from(open_model(path)).copied == ("x",)
    else:
        with pytest.raises(ValueError, match="blob 0"):
            target.copy_trained_layers_from(open_model(path))
