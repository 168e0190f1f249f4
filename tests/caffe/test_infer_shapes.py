"""Shapes in a net: of each type of Caffe's layers, of whole nets, and compared with OpenCV's."""

import os
import re

import numpy as np
import pytest
from google.protobuf import text_format
from random_nets import random_net

from syncblob import Layer
from syncblob.caffe import ModelFile, NetParameter, open_model, save_model
from syncblob.caffe._pb.caffe_pb2 import LayerParameter

IMAGE = (2, 6, 9, 11)


def model_of(text, **state):
    return ModelFile.from_net(text_format.Parse(text, NetParameter()), **state)


def layer_of(text, bottoms, tops):
    """Make a net of one layer over inputs ``b0``, ``b1`` and so on, with tops ``t0`` and so on."""
    layer = text_format.Parse(text, LayerParameter(name="x"))
    layer.bottom.extend(f"b{number}" for number in range(len(bottoms)))
    layer.top.extend(f"t{number}" for number in range(tops))
    given = {f"b{number}": shape for number, shape in enumerate(bottoms)}
    return ModelFile(layers=[Layer.from_proto(layer)]), given


# The text of a layer that `test_acceptance` lacks, and the shapes of its bottoms and its
# tops. The expected shapes follow from the arithmetic in Caffe's sources.
LAYERS = [
    ('type: "SPP" spp_param { pyramid_height: 3 }', [IMAGE], [(2, 6 * 21)]),
    ('type: "ArgMax" argmax_param { top_k: 3 out_max_val: true }', [(2, 9)], [(2, 2, 3)]),
    ('type: "LSTMUnit"', *([(1, 2, 5), (1, 2, 20), (1, 2)], [(1, 2, 5)] * 2)),
    (
        'type: "MemoryData" memory_data_param { batch_size: 2 channels: 3 height: 4 width: 5 }',
        *([], [(2, 3, 4, 5), (2,)]),
    ),
    (
        (
            'type: "ImageData" image_data_param { batch_size: 2 new_height: 4 new_width: 5 '
            "is_color: false }"
        ),
        *([], [(2, 1, 4, 5), (2,)]),
    ),
    (
        'type: "ImageData" image_data_param { batch_size: 2 } transform_param { crop_size: 7 }',
        *([], [(2, 3, 7, 7), (2,)]),
    ),
]


@pytest.mark.parametrize(("text", "bottoms", "tops"), LAYERS)
def test_a_layer_has_the_shapes_of_caffe(text, bottoms, tops):
    model, given = layer_of(text, bottoms, len(tops))
    found = model.infer_shapes(given)
    assert [found.blobs[f"t{number}"] for number in range(len(tops))] == tops
    assert not found.params


REFUSED = [
    ('type: "Concat"', [(2, 6, 9, 11), (2, 6, 9, 12)], "differ along axis 1 only"),
    ('type: "ImageData" image_data_param { batch_size: 2 }', [], "expected 2 tops, got 1"),
    ('type: "Data" data_param { batch_size: 8 }', [], r"'t0': \(8, channels, height, width\)"),
    ('type: "HDF5Data"', [], r"top is in the data; give it: shapes=\{'t0': \(\.\.\.\)\}"),
    ('type: "Fancy"', [IMAGE], r"not one of Caffe's; give .*: shapes=\{'t0': \(\.\.\.\)\}"),
    ("", [IMAGE], "the file does not say its type"),
    ('type: "LSTMUnit"', [(1, 2, 5), (1, 2, 15), (1, 2)], "4 \\* size"),
    ('type: "LSTMUnit"', [(1, 2, 5), (1, 2, 20), (2, 1)], "4 \\* size"),
    ('type: "InfogainLoss"', [(4, 10), (5,)], "4 labels for scores"),
    ('type: "Pooling" pooling_param { kernel_size: 3 pad_h: 1 }', [IMAGE], "pad_h and pad_w"),
    ('type: "SPP" spp_param { pyramid_height: 5 }', [IMAGE], "large enough for level 3"),
    ('type: "Slice" slice_param { slice_point: 3 }', [IMAGE], "divided among 1 tops"),
    ('type: "Reshape" reshape_param { num_axes: 5 }', [IMAGE], "axes of .*5 from axis 0"),
]


@pytest.mark.parametrize(("text", "bottoms", "words"), REFUSED)
def test_shapes_that_do_not_fit_are_refused(text, bottoms, words):
    model, given = layer_of(text, bottoms, 1)
    with pytest.raises(ValueError, match=rf"^layer 'x' \((\w+|of no type)\): .*{words}"):
        model.fill(given)
    assert not model["x"].blobs


LENET = """
name: "LeNet"
layer { name: "mnist" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  data_param { batch_size: 64 } transform_param { scale: 0.00390625 } }
layer { name: "mnist" type: "Data" top: "data" top: "label" include { phase: TEST }
  data_param { batch_size: 100 } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip1" bottom: "label" top: "accuracy"
  include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss" }
"""


def test_a_net_in_each_phase():
    train = model_of(LENET, phase="TRAIN")
    with pytest.raises(ValueError, match=r"\(Data\).*'data': \(64, channels, height, width\)"):
        train.fill()
    found = train.infer_shapes({"data": (8, 1, 28, 28)})
    assert found.blobs == {
        "data": (8, 1, 28, 28),
        "label": (8,),
        "conv1": (8, 20, 24, 24),
        "pool1": (8, 20, 12, 12),
        "ip1": (8, 10),
        "loss": (),
    }
    assert found.params == {"conv1": ((20, 1, 5, 5), (20,)), "ip1": ((10, 2880), (10,))}
    assert not train.params
    assert "accuracy" in model_of(LENET, phase="TEST").infer_shapes({"data": (8, 1, 28, 28)}).blobs
    with pytest.raises(ValueError, match=r"'data' is that of an earlier layer.*phase='TEST'"):
        model_of(LENET).infer_shapes({"data": (8, 1, 28, 28)})


def test_shapes_of_inputs():
    text = 'layer { name: "r" type: "ReLU" bottom: "data" top: "r" }'
    old = model_of('input: "data" input_dim: [1, 3, 4, 5] ' + text)
    assert old.infer_shapes().blobs["r"] == (1, 3, 4, 5)
    assert old.infer_shapes({"data": [2, 3]}).blobs["r"] == (2, 3)
    assert model_of('input: "data" ' + text).infer_shapes({"data": (7,)}).blobs["r"] == (7,)
    with pytest.raises(ValueError, match=r"'data' is not the top of an earlier layer.*\{'data': "):
        model_of(text).fill()
    with pytest.raises(ValueError, match="no blob 'date' in the net"):
        old.infer_shapes({"date": (1,)})
    with pytest.raises(ValueError, match=r"its top 'r' has shape \(1, 3, 4, 5\), not \(1,\)"):
        old.infer_shapes({"r": (1,)})
    with pytest.raises(TypeError, match=r"the shape of 'data': .*tuple of integers, got 'x'"):
        old.infer_shapes({"data": "x"})
    with pytest.raises(ValueError, match="are non-negative"):
        old.infer_shapes({"data": (-1,)})


@pytest.mark.parametrize("dims", ["input_dim: [1, 3, 4, 5]", "input_shape { dim: [1, 3, 4, 5] }"])
def test_shapes_of_the_inputs_of_a_file(tmp_path, dims):
    layer = LayerParameter(name="ip", type="InnerProduct", bottom=["data"], top=["ip"])
    layer.inner_product_param.num_output = 2
    net = text_format.Parse(f'input: "data" {dims}', NetParameter(layer=[layer]))
    path = tmp_path / "net.caffemodel"
    path.write_bytes(net.SerializeToString())
    model = open_model(path)
    assert model.infer_shapes().blobs == {"data": (1, 3, 4, 5), "ip": (1, 2)}
    assert model.infer_shapes({"data": (7, 2)}).params == {"ip": ((2, 2), (2,))}
    assert model.fill() == ("ip",)
    assert model["ip"].blobs[0].shape == (2, 60)
    assert list(model) == ["ip"]


# --- other readers --------------------------------------------------------------------------------


def exceeds_its_image(layer, found):
    """Return whether a pooling window exceeds its image: Caffe may get a size of 1, OpenCV 0."""
    window = layer.proto.pooling_param
    kernels = window.kernel_h or window.kernel_size, window.kernel_w or window.kernel_size
    pads = window.pad_h or window.pad, window.pad_w or window.pad
    sizes = found.blobs[layer.bottoms[0]][2:] if layer.type == "Pooling" else ()
    return any(
        kernel > size + 2 * pad for kernel, size, pad in zip(kernels, sizes, pads, strict=False)
    )


@pytest.mark.parametrize("first", range(0, int(os.environ.get("SYNCBLOB_NETS", "40")), 20))
def test_opencv_reads_the_weights_and_computes_the_same_shapes(tmp_path, first):
    dnn = pytest.importorskip("cv2", reason="needs opencv-python-headless<5").dnn
    if not hasattr(dnn, "readNetFromCaffe"):
        pytest.skip("needs opencv-python-headless<5")
    compared = 0
    definition, weights = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    for seed in range(first, first + 20):
        model = model_of(random_net(seed))
        try:
            found = model.infer_shapes()
        except ValueError as error:
            expected = "image is too small"
            assert re.search(expected, str(error))  # noqa: PT017  # for some seeds
            continue
        if any(exceeds_its_image(layer, found) for layer in model.layers):
            continue
        model.fill(rng=seed)
        definition.write_text(random_net(seed))
        save_model(model, weights)
        net = dnn.readNetFromCaffe(str(definition), str(weights))
        numbers, _, shapes = net.getLayersShapes([list(found.blobs["in"])])
        theirs = {
            net.getLayer(int(number)).name: [tuple(map(int, shape)) for shape in of_layer]
            for number, of_layer in zip(np.ravel(numbers), shapes, strict=True)
        }
        for layer in model.layers[1:]:
            mine = [found.blobs[name] for name in layer.tops]
            assert theirs[layer.name][: len(mine)] == mine, (seed, layer.proto)
            compared += 1
    assert compared > 100


def test_blobs_that_are_there_must_fit(tmp_path):
    model = model_of(LENET, phase="TRAIN")
    model.fill({"data": (1, 1, 28, 28)}, rng=0)
    save_model(model, tmp_path / "x.caffemodel")
    again = open_model(tmp_path / "x.caffemodel")
    assert again.fill({"data": (64, 1, 28, 28)}) == ()
    with pytest.raises(ValueError, match=r"'ip1' .*blob 0: expected shape \(10, 3920\), got"):
        again.fill({"data": (1, 1, 32, 32)})
    del again["conv1"].blobs[1]
    with pytest.raises(ValueError, match=r"'conv1' .*expected 2 blobs, got 1"):
        again.fill({"data": (64, 1, 28, 28)})
