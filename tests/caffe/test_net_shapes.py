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


# The text of a layer, and the shapes of its bottoms, its tops and its blobs. The expected shapes
# follow from the arithmetic in Caffe's sources.
LAYERS = [
    # Convolutions.
    (
        'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 }',
        *([IMAGE], [(2, 4, 7, 9)], [(4, 6, 3, 3), (4,)]),
    ),
    (
        (
            'type: "Convolution" convolution_param { num_output: 4 group: 2 kernel_h: 2 '
            "kernel_w: 3 stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 0 dilation: 2 bias_term: false }"
        ),
        *([IMAGE], [(2, 4, 5, 3)], [(4, 3, 2, 3)]),
    ),
    (
        'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 dilation: 0 }',
        *([IMAGE], [(2, 4, 9, 11)], [(4, 6, 3, 3), (4,)]),
    ),
    (
        'type: "Convolution" convolution_param { num_output: 4 kernel_size: [1, 2, 3] stride: 2 }',
        *([(2, 6, 5, 7, 9)], [(2, 4, 3, 3, 4)], [(4, 6, 1, 2, 3), (4,)]),
    ),
    (
        'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 axis: -1 }',
        *([(2, 3, 6)], [(2, 3, 4)], [(4, 6), (4,)]),
    ),
    (
        'type: "Convolution" convolution_param { num_output: 4 kernel_size: 9 }',
        *([IMAGE, IMAGE], [(2, 4, 1, 3)] * 2, [(4, 6, 9, 9), (4,)]),
    ),
    (
        (
            'type: "Deconvolution" convolution_param { num_output: 4 group: 2 kernel_size: 4 '
            "stride: 2 pad: 1 }"
        ),
        *([IMAGE], [(2, 4, 18, 22)], [(6, 2, 4, 4), (4,)]),
    ),
    (
        'type: "Deconvolution" convolution_param { num_output: 1 kernel_size: 3 dilation: 2 }',
        *([IMAGE], [(2, 1, 13, 15)], [(6, 1, 3, 3), (1,)]),
    ),
    (
        'type: "Im2col" convolution_param { kernel_size: [3, 2] stride: 2 pad: 1 }',
        *([IMAGE], [(2, 36, 5, 6)], []),
    ),
    # Pooling rounds up, and drops a last window that begins in the padding.
    ('type: "Pooling" pooling_param { kernel_size: 3 stride: 2 }', [IMAGE], [(2, 6, 4, 5)], []),
    (
        'type: "Pooling" pooling_param { kernel_size: 2 stride: 2 round_mode: FLOOR }',
        *([IMAGE], [(2, 6, 4, 5)], []),
    ),
    ('type: "Pooling" pooling_param { kernel_size: 2 stride: 2 }', [IMAGE], [(2, 6, 5, 6)], []),
    (
        'type: "Pooling" pooling_param { kernel_size: 2 stride: 2 pad: 1 }',
        *([IMAGE], [(2, 6, 5, 6)], []),
    ),
    (
        (
            'type: "Pooling" pooling_param { kernel_h: 1 kernel_w: 3 stride_h: 3 stride_w: 3 '
            "pad_h: 0 pad_w: 1 }"
        ),
        *([(1, 1, 8, 8)], [(1, 1, 3, 3)], []),
    ),
    # Padding on one axis is enough for Caffe to check both axes.
    (
        (
            'type: "Pooling" pooling_param { kernel_h: 1 kernel_w: 3 stride_h: 2 stride_w: 1 '
            "pad_h: 0 pad_w: 1 }"
        ),
        *([(1, 1, 8, 8)], [(1, 1, 4, 8)], []),
    ),
    (
        'type: "Pooling" pooling_param { kernel_h: 1 kernel_w: 3 stride_h: 2 stride_w: 1 }',
        *([(1, 1, 8, 8)], [(1, 1, 5, 6)], []),
    ),
    (
        'type: "Pooling" pooling_param { kernel_size: 4 stride: 3 }',
        [(1, 1, 3, 3)],
        [(1, 1, 1, 1)],
        [],
    ),
    (
        'type: "Pooling" pooling_param { pool: AVE global_pooling: true }',
        *([IMAGE], [(2, 6, 1, 1)], []),
    ),
    (
        'type: "Pooling" pooling_param { kernel_size: 3 }',
        *([IMAGE], [(2, 6, 7, 9)] * 2, []),
    ),
    ('type: "SPP" spp_param { pyramid_height: 3 }', [IMAGE], [(2, 6 * 21)], []),
    ('type: "SPP" spp_param { pyramid_height: 1 }', [IMAGE], [(2, 6, 1, 1)], []),
    # Products and sequences.
    (
        'type: "InnerProduct" inner_product_param { num_output: 5 }',
        *([IMAGE], [(2, 5)], [(5, 594), (5,)]),
    ),
    (
        (
            'type: "InnerProduct" inner_product_param { num_output: 5 axis: -2 transpose: true '
            "bias_term: false }"
        ),
        *([IMAGE], [(2, 6, 5)], [(99, 5)]),
    ),
    (
        'type: "Embed" embed_param { num_output: 5 input_dim: 7 }',
        *([(3, 2)], [(3, 2, 5)], [(7, 5), (5,)]),
    ),
    (
        'type: "LSTM" recurrent_param { num_output: 5 }',
        *([(7, 2, 3, 4), (7, 2)], [(7, 2, 5)], [(20, 12), (20,), (20, 5)]),
    ),
    (
        'type: "LSTM" recurrent_param { num_output: 5 expose_hidden: true }',
        [(7, 2, 3), (7, 2), (2, 8), (1, 2, 5), (1, 2, 5)],
        [(7, 2, 5), (1, 2, 5), (1, 2, 5)],
        [(20, 3), (20,), (20, 8), (20, 5)],
    ),
    (
        'type: "RNN" recurrent_param { num_output: 5 }',
        [(7, 2, 3), (7, 2), (2, 8, 2)],
        [(7, 2, 5)],
        [(5, 3), (5,), (5, 16), (5, 5), (5, 5), (5,)],
    ),
    (
        'type: "LSTMUnit"',
        *([(1, 2, 5), (1, 2, 20), (1, 2)], [(1, 2, 5)] * 2, []),
    ),
    # Normalisation and values.
    ('type: "BatchNorm"', [IMAGE], [IMAGE], [(6,), (6,), (1,)]),
    ('type: "BatchNorm"', [(2, 6)], [(2, 6)], [(6,), (6,), (1,)]),
    ('type: "Scale"', [IMAGE], [IMAGE], [(6,)]),
    ('type: "Scale" scale_param { bias_term: true }', [IMAGE], [IMAGE], [(6,), (6,)]),
    ('type: "Scale" scale_param { axis: 2 num_axes: -1 }', [IMAGE], [IMAGE], [(9, 11)]),
    ('type: "Scale" scale_param { axis: 0 num_axes: 0 }', [IMAGE], [IMAGE], [()]),
    (
        'type: "Scale" scale_param { axis: 0 bias_term: true }',
        *([IMAGE, (2, 6)], [IMAGE], [(2, 6)]),
    ),
    ('type: "Bias" bias_param { axis: 1 num_axes: 2 }', [IMAGE], [IMAGE], [(6, 9)]),
    ('type: "Bias" bias_param { axis: -1 }', [IMAGE, (11,)], [IMAGE], []),
    ('type: "PReLU"', [IMAGE], [IMAGE], [(6,)]),
    ('type: "PReLU" prelu_param { channel_shared: true }', [IMAGE], [IMAGE], [()]),
    ('type: "LRN"', [IMAGE], [IMAGE], []),
    ('type: "MVN"', [(2, 6)], [(2, 6, 1, 1)], []),
    ('type: "Softmax"', [IMAGE], [IMAGE], []),
    ('type: "Dropout"', [(3,)], [(3,)], []),
    ('type: "Swish"', [()], [()], []),
    ('type: "Parameter" parameter_param { shape { dim: 3 dim: 4 } }', [], [(3, 4)], [(3, 4)]),
    # Arranging.
    ('type: "Eltwise"', [IMAGE, IMAGE], [IMAGE], []),
    ('type: "Concat"', [IMAGE, (2, 3, 9, 11)], [(2, 9, 9, 11)], []),
    ('type: "Concat" concat_param { concat_dim: 0 }', [IMAGE, IMAGE], [(4, 6, 9, 11)], []),
    ('type: "Slice" slice_param { slice_point: [1, 3] }', [(2, 6)], [(2, 1), (2, 2), (2, 3)], []),
    ('type: "Slice" slice_param { slice_point: [2, 6] }', [(2, 6)], [(2, 2), (2, 4), (2, 0)], []),
    ('type: "Slice"', [(2, 0)], [(2, 0)] * 2, []),
    ('type: "Slice" slice_param { slice_dim: 0 }', [(4, 6)], [(2, 6)] * 2, []),
    ('type: "Split"', [IMAGE], [IMAGE] * 3, []),
    ('type: "Flatten"', [IMAGE], [(2, 594)], []),
    ('type: "Flatten" flatten_param { axis: 1 end_axis: 2 }', [IMAGE], [(2, 54, 11)], []),
    ('type: "Flatten" flatten_param { axis: 2 end_axis: 1 }', [IMAGE], [(2, 6, 1, 9, 11)], []),
    ('type: "Reshape" reshape_param { shape { dim: 0 dim: -1 } }', [IMAGE], [(2, 594)], []),
    (
        'type: "Reshape" reshape_param { shape { dim: 3 dim: 0 dim: -1 } axis: 1 num_axes: 2 }',
        *([(2, 6, 4, 11)], [(2, 3, 4, 2, 11)], []),
    ),
    ('type: "Reshape" reshape_param { shape { dim: 1 } axis: -1 }', [(2, 6)], [(2, 6, 1)], []),
    ('type: "Reshape" reshape_param { }', [(1, 1)], [()], []),
    ('type: "Crop"', [IMAGE, (9, 9, 7, 4, 99)], [(2, 6, 7, 4)], []),
    ('type: "Crop" crop_param { offset: 2 }', [IMAGE, (9, 9, 7, 4)], [(2, 6, 7, 4)], []),
    (
        'type: "Crop" crop_param { axis: 1 offset: [1, 0, 7] }',
        *([IMAGE, (1, 5, 9, 4)], [(2, 5, 9, 4)], []),
    ),
    ('type: "Tile" tile_param { axis: -1 tiles: 3 }', [(2, 6)], [(2, 18)], []),
    ('type: "Reduction" reduction_param { axis: -2 }', [IMAGE], [(2, 6)], []),
    ('type: "ArgMax" argmax_param { top_k: 3 out_max_val: true }', [(2, 9)], [(2, 2, 3)], []),
    ('type: "ArgMax"', [IMAGE], [(2, 1, 1, 1)], []),
    ('type: "ArgMax" argmax_param { axis: 1 top_k: 2 }', [IMAGE], [(2, 2, 9, 11)], []),
    ('type: "BatchReindex"', [IMAGE, (5,)], [(5, 6, 9, 11)], []),
    ('type: "Filter"', [IMAGE, (2, 3), (2,)], [IMAGE, (2, 3)], []),
    ('type: "Silence"', [IMAGE, IMAGE], [], []),
    # Losses.
    ('type: "SoftmaxWithLoss"', [(4, 10), (4,)], [()], []),
    ('type: "SoftmaxWithLoss"', [IMAGE, (2, 9, 11)], [()], []),
    (
        'type: "InfogainLoss" loss_weight: [1, 0]',
        *([(4, 10), (4,), (10, 10)], [(), (4, 10)], []),
    ),
    ('type: "SoftmaxWithLoss" softmax_param { axis: -1 }', [IMAGE, (2, 6, 9)], [()], []),
    ('type: "InfogainLoss" infogain_loss_param { axis: 1 }', [(4, 10), (4,), (10, 10)], [()], []),
    ('type: "Accuracy"', [(4, 10), (4, 1)], [(), (10,)], []),
    ('type: "EuclideanLoss"', [(4, 10), (4, 2, 5)], [()], []),
    ('type: "ContrastiveLoss"', [(4, 10), (4, 10), (4,)], [()], []),
    # Data.
    ('type: "Input" input_param { shape { dim: 3 } }', [], [(3,)] * 2, []),
    (
        'type: "DummyData" dummy_data_param { num: 2 channels: 3 height: [4, 5] width: 6 }',
        *([], [(2, 3, 4, 6), (2, 3, 5, 6)], []),
    ),
    (
        'type: "MemoryData" memory_data_param { batch_size: 2 channels: 3 height: 4 width: 5 }',
        *([], [(2, 3, 4, 5), (2,)], []),
    ),
    (
        (
            'type: "ImageData" image_data_param { batch_size: 2 new_height: 4 new_width: 5 '
            "is_color: false }"
        ),
        *([], [(2, 1, 4, 5), (2,)], []),
    ),
    (
        'type: "ImageData" image_data_param { batch_size: 2 } transform_param { crop_size: 7 }',
        *([], [(2, 3, 7, 7), (2,)], []),
    ),
]


@pytest.mark.parametrize(("text", "bottoms", "tops", "blobs"), LAYERS)
def test_a_layer_has_the_shapes_of_caffe(text, bottoms, tops, blobs):
    model, given = layer_of(text, bottoms, len(tops))
    found = model.infer_shapes(given)
    assert [found.blobs[f"t{number}"] for number in range(len(tops))] == tops
    assert list(found.params.get("x", ())) == blobs
    assert model.fill(given, rng=0) == (("x",) if blobs else ())
    assert [blob.shape for blob in model["x"].blobs] == blobs


REFUSED = [
    ('type: "Convolution" convolution_param { num_output: 4 }', [IMAGE], "kernel_size once"),
    (
        'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 kernel_h: 3 }',
        *([IMAGE], "kernel_h and kernel_w are for 2 spatial axes, in place of kernel_size"),
    ),
    (
        'type: "Convolution" convolution_param { num_output: 4 kernel_size: 11 }',
        *([IMAGE], r"the result would be of size \(-1, 1\)"),
    ),
    (
        'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 stride: 0 }',
        *([IMAGE], "a stride of 1 or more"),
    ),
    (
        'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 group: 4 }',
        *([IMAGE], "num_output 4 and 6 channels to be multiples of group 4"),
    ),
    (
        'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 axis: 4 }',
        *([IMAGE], "axis 4 is out of range"),
    ),
    (
        'type: "Deconvolution" convolution_param { num_output: 1 kernel_size: 1 pad: 5 }',
        *([IMAGE], r"the result would be of size \(-1, 1\)"),
    ),
    ('type: "Pooling" pooling_param { kernel_h: 3 }', [IMAGE], "or both kernel_h and kernel_w"),
    ('type: "Pooling"', [IMAGE], "expected kernel_size and stride"),
    ('type: "Pooling" pooling_param { kernel_size: 3 }', [(2, 6)], "a bottom of 4 axes"),
    (
        'type: "Pooling" pooling_param { kernel_size: 3 global_pooling: true }',
        *([IMAGE], "global_pooling has no kernel_size"),
    ),
    (
        'type: "Pooling" pooling_param { stride: 2 global_pooling: true }',
        *([IMAGE], "global_pooling has stride 1 and pad 0"),
    ),
    ('type: "Pooling" pooling_param { kernel_size: 3 pad: 3 }', [IMAGE], "a pad below kernel_size"),
    ('type: "Pooling" pooling_param { kernel_size: 20 stride: 2 }', [IMAGE], "too small"),
    ('type: "SPP"', [IMAGE], "a pyramid_height"),
    ('type: "SPP" spp_param { pyramid_height: 6 }', [IMAGE], "level 3 of the pyramid is too fine"),
    ('type: "InnerProduct"', [IMAGE], "a num_output of 1 or more"),
    ('type: "Embed" embed_param { num_output: 1 }', [(2,)], "an input_dim"),
    ('type: "LSTM" recurrent_param { num_output: 5 }', [(7, 2, 3), (2, 7)], "steps, streams"),
    (
        'type: "LSTM" recurrent_param { num_output: 5 expose_hidden: true }',
        *([(7, 2, 3), (7, 2), (1, 2, 5)], "expected 2 states"),
    ),
    (
        'type: "RNN" recurrent_param { num_output: 5 }',
        *([(7, 2, 3), (7, 2), (3, 5)], r"a static input of shape \(2, ...\)"),
    ),
    ('type: "LRN" lrn_param { local_size: 4 }', [IMAGE], "an odd local_size, got 4"),
    ('type: "MVN"', [(1,) * 5], "at most 4 axes"),
    ('type: "Eltwise"', [IMAGE, (2, 6)], "bottoms of one shape"),
    ('type: "Eltwise"', [IMAGE], "expected 2 or more bottoms, got 1"),
    ('type: "Eltwise" eltwise_param { coeff: 1 }', [IMAGE, IMAGE], "a coeff for each of 2 bottoms"),
    ('type: "Scale" scale_param { num_axes: 4 }', [IMAGE], "there are no 4 axes from axis 1 on"),
    ('type: "Scale"', [IMAGE, (9,)], "second bottom"),
    ('type: "Concat"', [IMAGE, (2, 6, 9, 12)], "differ along axis 1 only"),
    ('type: "Concat" concat_param { axis: 1 concat_dim: 1 }', [IMAGE], "axis or concat_dim"),
    ('type: "Slice" slice_param { slice_point: 6 }', [IMAGE], "divided among 1 tops"),
    ('type: "Flatten" flatten_param { axis: 3 end_axis: 1 }', [IMAGE], "end_axis at or after"),
    ('type: "Reshape" reshape_param { shape { dim: 5 dim: -1 } }', [IMAGE], "does not fit"),
    ('type: "Reshape" reshape_param { shape { dim: -1 dim: -1 } }', [IMAGE], "does not fit"),
    ('type: "Reshape" reshape_param { num_axes: 5 }', [IMAGE], "there are no num_axes 5"),
    ('type: "Reshape" reshape_param { shape { dim: 0 } axis: 4 }', [IMAGE], "no axis 4 .* to copy"),
    ('type: "Crop"', [IMAGE, (2, 6, 10, 11)], "cannot cut"),
    ('type: "Crop" crop_param { offset: [1, 2, 3] }', [IMAGE, IMAGE], "an offset for each axis"),
    ('type: "Tile"', [IMAGE], "tiles of 1 or more"),
    ('type: "ArgMax" argmax_param { top_k: 10 }', [(2, 9)], "a top_k from 1 to 9"),
    ('type: "ArgMax"', [()], "axis 0 is out of range"),
    ('type: "BatchReindex"', [IMAGE, (5, 1)], "a bottom of 1 axes"),
    ('type: "Filter"', [IMAGE, (3,)], r"a selector .* got \(2, 6, 9, 11\), \(3,\)"),
    ('type: "Filter"', [IMAGE, (2, 2)], "a selector"),
    ('type: "SoftmaxWithLoss"', [(4, 10), (5,)], r"expected 4 labels .* of shape \(5,\)"),
    ('type: "EuclideanLoss"', [(4, 10), (4, 11)], "fit each other"),
    ('type: "EuclideanLoss"', [(), ()], "as many items in both"),
    ('type: "EuclideanLoss"', [(4, 3), (3, 4)], "as many items in both"),
    ('type: "MultinomialLogisticLoss"', [(4, 10), (4, 2)], "fit each other"),
    ('type: "ContrastiveLoss"', [(4, 10), (4, 11), (4,)], "fit each other"),
    ('type: "ContrastiveLoss"', [(4, 10, 2), (4, 10), (4,)], "fit each other"),
    ('type: "ContrastiveLoss"', [(4, 10), (4, 10), (4, 2)], "fit each other"),
    ('type: "InfogainLoss"', [(4, 10)], "expected 2 to 3 bottoms, got 1"),
    ('type: "InfogainLoss"', [(4, 10), (4,), (10, 9)], "a matrix of 10 by 10 values"),
    ('type: "Input" input_param { shape { } shape { } }', [], "for each of 1 tops"),
    ('type: "Data" data_param { batch_size: 8 }', [], r"'t0': \(8, channels, height, width\)"),
    ('type: "HDF5Data"', [], r"'t0' is in the data; give it: shapes=\{'t0': \(\.\.\.\)\}"),
    ('type: "Fancy"', [IMAGE], r"not one of Caffe's; give .*: shapes=\{'t0': \(\.\.\.\)\}"),
    ("", [IMAGE], "the file does not say its type"),
    ('type: "LSTMUnit"', [(1, 2, 5), (1, 2, 15), (1, 2)], "4 \\* size"),
    ('type: "LSTMUnit"', [(1, 2, 5), (1, 2, 20), (2, 1)], "4 \\* size"),
    ('type: "ReLU"', [], "expected 1 bottoms, got 0"),
    ('type: "SoftmaxWithLoss"', [(4, 10), (2, 2)], "as many items in both bottoms"),
    ('type: "InfogainLoss"', [(4, 10), (4,)], "a source, or the matrix"),
    ('type: "InfogainLoss" loss_param { normalize: true }', [(4, 10), (4,), (100,)], "normalize"),
    ('type: "PReLU"', [(2, 3, 4, 5, 6)], "at most 4 axes"),
    ('type: "MultinomialLogisticLoss"', [(2, 3), (2, 1, 1, 1, 1)], "at most 4 axes"),
    ('type: "Im2col" convolution_param { kernel_size: 1 }', [(2, 3)], "with axes after axis 1"),
    ('type: "Filter"', [(), ()], "a selector"),
    ('type: "DummyData" dummy_data_param { num: 1 channels: 1 height: 1 }', [], "a shape for each"),
    (
        'type: "DummyData" dummy_data_param { shape { dim: 1 } num: 1 }',
        *([], "shape, or num, channels, height and width, got both"),
    ),
    (
        'type: "DummyData" dummy_data_param { shape { } data_filler { } data_filler { } }',
        *([], "a data_filler for each of 1 tops"),
    ),
    ('type: "DummyData" dummy_data_param { shape { dim: 0 } }', [], "a blob with elements"),
    ('type: "HDF5Data" transform_param { }', [], "no transform_param"),
    (f'type: "Input" input_param {{ shape {{ dim: {[1] * 33} }} }}', [], "32 axes"),
    ('type: "Reshape" reshape_param { shape { dim: 0 dim: -1 } }', [(0, 2)], "does not fit"),
]


POOLING = 'type: "Pooling" pooling_param { kernel_size: 2 pool: '
LARGE = "shape { dim: 50000 dim: 50000 }"
LABELLED = [(4, 10), (4,)]
ONE = 'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 }'


@pytest.mark.parametrize(
    ("text", "bottoms", "tops", "words"),
    [
        ('type: "ReLU"', [IMAGE], 0, "expected 1 tops, got 0"),
        (ONE, [IMAGE], 0, "expected 1 tops, got 0"),
        (ONE, [IMAGE], 2, "expected 1 tops, got 2"),
        (ONE, [IMAGE, IMAGE], 1, "expected 2 tops, got 1"),
        ('type: "Split"', [IMAGE], 0, "expected 1 tops, got 0"),
        ('type: "Filter"', [IMAGE, IMAGE, (2,)], 1, "expected 2 tops, got 1"),
        ('type: "Accuracy"', LABELLED, 0, "expected 1 to 2 tops, got 0"),
        ('type: "EuclideanLoss"', [IMAGE, IMAGE], 2, "expected 0 to 1 tops, got 2"),
        (POOLING + "AVE }", [IMAGE], 2, "expected 1 tops, got 2"),
        ('type: "SPP" spp_param { pyramid_height: 1 }', [IMAGE], 2, "expected 1 tops, got 2"),
        ('type: "ImageData" image_data_param { batch_size: 2 }', [], 1, "expected 2 tops, got 1"),
        ('type: "Data" data_param { batch_size: 2 }', [], 3, "expected 1 to 2 tops, got 3"),
        ('type: "Input"', [], 0, "expected 1 or more tops, got 0"),
        ('type: "Input"', [IMAGE], 1, "expected 0 bottoms, got 1"),
        (POOLING + "STOCHASTIC pad: 1 }", [IMAGE], 1, "a stochastic pooling has no pad"),
        ('type: "Accuracy" accuracy_param { top_k: 11 }', LABELLED, 1, "a top_k of at most 10"),
        ('type: "Input" input_param { shape { dim: -1 } }', [], 1, "no negative dimension"),
        ('type: "Parameter" parameter_param { shape { dim: -1 } }', [], 1, "no negative dimension"),
        (f'type: "Input" input_param {{ {LARGE} }}', [], 1, "at most 2147483647 values"),
        (
            'type: "InnerProduct" inner_product_param { num_output: 50000 }',
            *([(1, 50000)], 1, r"at most 2147483647 values, got shape \(50000, 50000\)"),
        ),
        (ONE + " param { } param { } param { }", [IMAGE], 1, "one param for each of 2 blobs"),
        ('type: "ReLU" param { }', [IMAGE], 1, "one param for each of 0 blobs, got 1"),
        ('type: "ReLU" loss_weight: [1, 1]', [IMAGE], 1, "one loss_weight for each of 1 to"),
        ('type: "Silence" loss_weight: 1', [IMAGE], 0, "each of 0 tops, got 1"),
        ('type: "EuclideanLoss" loss_weight: [1, 2]', [IMAGE] * 2, 0, "each of 1 tops, got 2"),
        ('type: "SoftmaxWithLoss" loss_weight: [1, 0]', [(2, 3), (2,)], 2, "expected one top"),
        ('type: "InfogainLoss" loss_weight: 1', [(2, 3), (2,), (9,)], 2, "each of 2 tops, got 1"),
        ('type: "InfogainLoss"', [(2, 3), (2,), (9,)], 2, "each of 2 tops, got 1"),
        ('type: "Eltwise" propagate_down: true', [IMAGE] * 2, 1, "one propagate_down .* 2 bottoms"),
        ('type: "ReLU" propagate_down: [true, true]', [IMAGE], 1, "of 1 bottoms, got 2"),
        ('type: "BatchNorm" param { }', [IMAGE], 1, "lr_mult: 0 for its statistics"),
        (
            *('type: "BatchNorm" param { lr_mult: 0 } param { lr_mult: 2 }', [IMAGE], 1),
            "lr_mult: 0 for its statistics",
        ),
        ('type: "Exp" exp_param { base: 0 }', [IMAGE], 1, "base above 0, or -1 for e, got 0"),
        ('type: "Exp" exp_param { base: inf }', [IMAGE], 1, "base above 0, or -1 for e, got inf"),
        ('type: "Log" log_param { base: -2 }', [IMAGE], 1, "base above 0, except 1, .* got -2"),
        ('type: "Log" log_param { base: 1 }', [IMAGE], 1, "base above 0, except 1, .* got 1"),
        ('type: "Slice" slice_param { slice_point: 7 }', [(2, 6)], 2, "among 2 tops"),
        ('type: "Slice" slice_param { slice_point: [3, 3] }', [(2, 6)], 3, "among 3 tops"),
        ('type: "Slice" slice_param { slice_point: 1 }', [(2, 1)], 2, "among 2 tops"),
    ],
)
def test_nets_that_caffe_does_not_set_up(text, bottoms, tops, words):
    model, given = layer_of(text, bottoms, tops)
    with pytest.raises(ValueError, match=rf"^layer 'x' \(\w+\): .*{words}"):
        model.infer_shapes(given)


@pytest.mark.parametrize(
    ("text", "bottoms", "tops"),
    [
        ('type: "SoftmaxWithLoss"', LABELLED, 0),
        ('type: "EuclideanLoss"', [IMAGE, IMAGE], 0),
        (POOLING + "MAX }", [IMAGE], 2),
        ('type: "Accuracy" accuracy_param { top_k: 10 }', LABELLED, 2),
        ('type: "Input" input_param { shape { dim: [0, 50000, 50000] } }', [], 1),
        ('type: "ReLU" loss_weight: 1 propagate_down: false', [IMAGE], 1),
        ('type: "EuclideanLoss" loss_weight: 1 propagate_down: [true, false]', [IMAGE] * 2, 0),
        ('type: "InfogainLoss" loss_weight: [1, 0]', [(2, 3), (2,), (9,)], 2),
        ('type: "BatchNorm" param { lr_mult: 0 }', [IMAGE], 1),
        ('type: "BatchNorm" param { } param { lr_mult: 2 } param { }', [IMAGE], 1),
        ('type: "Exp" exp_param { base: 1 }', [IMAGE], 1),
        ('type: "Log" log_param { base: -1 }', [IMAGE], 1),
    ],
)
def test_what_caffe_sets_up(text, bottoms, tops):
    model, given = layer_of(text, bottoms, tops)
    assert len(model.infer_shapes(given).blobs) == len(bottoms) + tops


@pytest.mark.parametrize("kind", ["AbsVal", "Flatten", "Reshape", "Split", "ReLU"])
def test_types_that_do_not_compute_in_place(kind):
    model = ModelFile(layers=[Layer("x", kind, ["data"], ["data"])])
    if kind == "ReLU":
        assert model.infer_shapes({"data": (1, 2)}).blobs == {"data": (1, 2)}
    else:
        with pytest.raises(ValueError, match=rf"'x' \({kind}\): expected another top .*'data'"):
            model.infer_shapes({"data": (1, 2)})


@pytest.mark.parametrize(("text", "bottoms", "words"), REFUSED)
def test_what_caffe_refuses_is_refused(text, bottoms, words):
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
    with pytest.raises(TypeError, match="tuple of integers as the shape of 'data', got 'x'"):
        old.infer_shapes({"data": "x"})
    with pytest.raises(ValueError, match="no negative dimension"):
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


IN = 'layer { name: "in" type: "Input" top: "a" top: "b" input_param { %s } }'
FC = (
    'layer { name: "%s" type: "InnerProduct" bottom: "%s" top: "%s" inner_product_param { %s } %s }'
)
TWO = "shape { dim: [2, 3] } shape { dim: [2, 4] }"
ONE_OUTPUT = "num_output: 1 bias_term: false"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ('name: "w" lr_mult: 1', 'name: "w" lr_mult: 2', "has lr_mult 2 and .* 'w', which has 1"),
        ('name: "w" decay_mult: 1', 'name: "w" decay_mult: 0', "decay_mult 0"),
        ('name: "w"', 'name: "w" lr_mult: 2', None),  # nothing that differs is set
        ('name: "w" lr_mult: 2', 'name: "w"', None),
        ('name: "w"', 'name: "v"', None),
    ],
)
def test_shared_parameters_and_their_multipliers(first, second, words):
    text = IN % TWO + FC % ("x", "a", "x", ONE_OUTPUT, f"param {{ {first} }}")
    model = model_of(text + FC % ("y", "a", "y", ONE_OUTPUT, f"param {{ {second} }}"))
    if words is None:
        assert model.infer_shapes().params == {"x": ((1, 3),), "y": ((1, 3),)}
    else:
        with pytest.raises(ValueError, match=rf"layer 'y' \(InnerProduct\): blob 0 .*{words}"):
            model.infer_shapes()


def test_shared_parameters_and_their_shapes():
    spec = 'param { name: "w" %s }'
    pair = IN % TWO + FC % ("x", "a", "x", ONE_OUTPUT, spec % "")
    with pytest.raises(ValueError, match=r"blob 0 has shape \(1, 4\) .* which has shape \(1, 3\)"):
        model_of(pair + FC % ("y", "b", "y", ONE_OUTPUT, spec % "")).infer_shapes()
    turned = FC % ("y", "a", "y", "num_output: 1 bias_term: false transpose: true", spec)
    with pytest.raises(ValueError, match=r"shape \(3, 1\)"):
        model_of(pair + turned % "").infer_shapes()
    assert model_of(pair + turned % "share_mode: PERMISSIVE").infer_shapes().params["y"] == (
        (3, 1),
    )
    # One layer that shares a parameter with itself.
    with pytest.raises(ValueError, match=r"blob 1 has shape \(1,\)"):
        model_of(IN % TWO + FC % ("x", "a", "x", "num_output: 1", spec % "" * 2)).infer_shapes()


def test_a_blob_that_is_used_twice_is_not_written_in_place():
    """Caffe splits it, and the copies have other names."""
    relu = 'layer { name: "%s" type: "ReLU" bottom: "a" top: "%s" }'
    refused = IN % TWO + relu % ("x", "x") + relu % ("y", "a")
    with pytest.raises(ValueError, match=r"layer 'y' \(ReLU\): it writes its bottom 'a' in place"):
        model_of(refused).infer_shapes()
    accepted = IN % TWO + relu % ("y", "a") + relu % ("z", "a") + relu % ("x", "x")
    assert model_of(accepted).infer_shapes().blobs["x"] == (2, 3)


@pytest.mark.parametrize(
    ("text", "bottoms", "tops"),
    [
        # C++ rounds toward zero.
        (
            'type: "Convolution" convolution_param { num_output: 4 kernel_size: 12 stride: 4 }',
            *([IMAGE], [(2, 4, 1, 1)]),
        ),
        (
            'type: "Convolution" convolution_param { num_output: 4 kernel_size: 10 }',
            *([IMAGE], [(2, 4, 0, 2)]),
        ),
        (
            'type: "Pooling" pooling_param { kernel_size: 12 stride: 4 }',
            *([IMAGE], [(2, 6, 1, 1)]),
        ),
        (
            'type: "Pooling" pooling_param { kernel_size: 3 kernel_h: 5 }',
            *([IMAGE], [(2, 6, 7, 9)]),
        ),
        ('type: "ContrastiveLoss"', [(4, 1), (4,), (4,)], [()]),
        ('type: "HingeLoss"', [(4, 10), (4, 3)], [()]),
    ],
)
def test_what_looks_wrong_and_caffe_accepts(text, bottoms, tops):
    model, given = layer_of(text, bottoms, len(tops))
    found = model.infer_shapes(given)
    assert [found.blobs[f"t{number}"] for number in range(len(tops))] == tops


def test_layers_of_other_types():
    fork = """
        layer { name: "p" type: "Permute" bottom: "data" top: "p" }
        layer { name: "q" type: "InPlace" bottom: "p" top: "p" }
        layer { name: "ip" type: "InnerProduct" bottom: "p" top: "ip"
          inner_product_param { num_output: 2 } }
    """
    model = model_of(fork)
    shapes = {"data": (2, 3, 4), "p": (2, 4, 3)}
    assert model.infer_shapes(shapes).params == {"ip": ((2, 12), (2,))}
    assert model.fill(shapes) == ("ip",)


def test_every_type_that_has_blobs_has_shapes():
    from syncblob.caffe.nets.param_shapes import _WITH
    from syncblob.caffe.nets.top_shapes import _TYPES

    assert set(_TYPES) > set(_WITH)


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
