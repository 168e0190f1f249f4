"""Shapes in a net: of each type of Caffe's layers, of whole nets, and compared with OpenCV's."""

import io
import re

import pytest
from google.protobuf import text_format

from syncblob import Layer
from syncblob.caffe import ModelFile, NetParameter, open_model, read_prototxt, save_model


def model_of(text, **state):
    return ModelFile.from_net(text_format.Parse(text, NetParameter()), **state)


# The shapes of bottoms, tops and blobs, and the settings. They follow from the rules in the sources
# of Caffe and its forks, ``LayerSetUp`` and ``Reshape`` of each type.
LAYERS = """
Convolution 2x4x5x6 -> 2x2x3x4, 2x4x3x3 2 : num_output: 2 kernel_size: 3
Convolution 2x4x5x6 2x4x5x6 -> 2x2x5x6 2x2x5x6, 2x4x1x1 2 : num_output: 2 kernel_size: 1
Convolution 2x4x5x6 -> 2x4x4x5, 4x2x2x2 : num_output: 4 kernel_size: 2 group: 2 bias_term: false
Convolution 2x4x5x6 -> 2x4x6x3, 4x2x2x2 4
  : num_output: 4 group: 2 kernel_size: 2 stride: [1, 2] pad_h: 1
Convolution 2x4x5x6 -> 2x2x1x2, 2x4x3x3 2 : num_output: 2 kernel_size: 3 dilation: 2
Convolution 2x3x9x11 -> 2x2x0x2, 2x3x10x10 2 : num_output: 2 kernel_size: 10
Convolution 2x3x9x11 -> 2x2x8x9, 2x3x2x3 2 : num_output: 2 kernel_size: [2, 3]
Convolution 2x4x5x6 -> 2x2x4x4, 2x4x2x3 2 : num_output: 2 kernel_h: 2 kernel_w: 3
Convolution 2x4x5x6 -> 2x2x15x16, 2x4x1x1 2 : num_output: 2 kernel_size: 1 pad: 5
Convolution 2x3x9x11 -> 2x3x2x10, 2x9x2 2 : num_output: 2 kernel_size: 2 axis: -2
Convolution 2x4x5x6 -> 2x4x5x6, 2x2x1x1x1 2 : num_output: 2 kernel_size: 1 axis: 0
Convolution 2x4x5x6 -> 2x2x1x1, 2x4x7x7 2 : num_output: 2 kernel_size: 7 stride: 4
Convolution 2x4x5x6 -> 2x2x0x0, 2x4x12x12 2 : num_output: 2 kernel_size: 12 stride: 4
Convolution 2x4x5x6 -> 2x2x5x6, 2x4x3x3 2 : num_output: 2 kernel_size: 3 dilation: 0
Convolution 2x4x5x6 -> 2x2x3x3, 2x4x3x3 2 : num_output: 2 kernel_size: 3 stride: 2 pad: 1
Convolution 2x4x5x6 -> 2x2x3x1, 2x4x2x3 2
  : num_output: 2 kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 0 dilation: 2
Convolution 2x6 -> 2x2, 2x6 2 : num_output: 2
Convolution 2x2x3x3x3 -> 2x2x2x1x1, 2x2x1x2x3 2 : num_output: 2 kernel_size: [1, 2, 3] stride: 2
Deconvolution 2x4x5x6 -> 2x4x9x20, 4x2x2x3 4
  : num_output: 4 group: 2 kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 0
    dilation: 2
DepthwiseConvolution 2x6x9x11 -> 2x6x7x9, 6x1x3x3 6 : num_output: 6 group: 6 kernel_size: 3
Im2col 2x4x5x6 -> 2x24x3x1
  : kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 0 dilation: 2
Pooling 2x4x5x6 -> 2x4x4x5 2x4x4x5 : kernel_size: 2
Pooling 2x4x5x6 -> 2x4x4x5 : kernel_size: 2 pool: AVE
Pooling 2x4x5x6 -> 2x4x1x1 : global_pooling: true stride: 2
Pooling 2x4x5x6 -> 2x4x5x6 : kernel_size: 3 pad: 1 pool: STOCHASTIC
Pooling 2x4x5x6 -> 2x4x8x9 : kernel_size: 3 pad: 3
Pooling 2x4x5x6 -> 2x4x4x4 : kernel_h: 2 kernel_w: 3
Pooling 2x4x5x6 -> 2x4x0x0 : kernel_size: 8 stride: 2
Pooling 2x4x5x6 -> 2x4x2x3 : kernel_size: 3 stride: 2
Pooling 2x4x5x6 -> 2x4x2x2 : kernel_size: 3 stride: 2 round_mode: FLOOR
Pooling 2x4x5x6 -> 2x4x2x2 : kernel_size: 4 stride: 3
Pooling 2x4x5x6 -> 2x4x4x5 : kernel_size: 2 kernel_h: 3
Pooling 2x4x5x6 -> 2x4x3x4 : kernel_size: 2 stride: 2 pad: 1
Pooling 2x4x5x6 -> 2x4x3x6 : kernel_h: 1 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 1
Pooling 2x4x5x6 -> 2x4x2x3 : kernel_h: 1 kernel_w: 3 stride_h: 3 stride_w: 3 pad_h: 0 pad_w: 1
SPP 2x4x5x6 -> 2x4x1x1 : pyramid_height: 1
SPP 2x4x5x6 -> 2x20 : pyramid_height: 2
SPP 2x6x9x11 -> 2x126 : pyramid_height: 3
InnerProduct 2x4x5x6 -> 2x3, 3x120 3 : num_output: 3
InnerProduct 2x4x5x6 -> 2x4x1, 1x30 1 : axis: 2 num_output: 1
InnerProduct 2x4x5x6 -> 2x4x5x2, 6x2 2 : num_output: 2 axis: -1 transpose: true
Embed 2x4x5x6 -> 2x4x5x6x3, 5x3 3 : num_output: 3 input_dim: 5
Embed 2x4 -> 2x4x2, 2x2 : num_output: 2 input_dim: 2 bias_term: false
LSTM 2x4x5x6 2x4 4 -> 2x4x3, 12x30 12 12x1 12x3 : num_output: 3
LSTM 2x3x9x11 2x3 1x3x3 1x3x3 -> 2x3x3 1x3x3 1x3x3, 12x99 12 12x3
  : num_output: 3 expose_hidden: true
RNN 2x4x5x6 2x4 -> 2x4x3, 3x30 3 3x3 3x3 3 : num_output: 3
RNN 2x3x9x11 2x3 3x5 1x3x3 -> 2x3x3 1x3x3, 3x99 3 3x5 3x3 3x3 3
  : num_output: 3 expose_hidden: true
LSTMUnit 1x2x5 1x2x20 1x2 -> 1x2x5 1x2x5
BatchNorm 2x4x5x6 -> 2x4x5x6, 4 4 1
PReLU 2x4x5x6 -> 2x4x5x6, 4
PReLU 2x4x5x6 -> 2x4x5x6, () : channel_shared: true
MVN 2x4x5x6 -> 2x4x5x6
MVN 2x6 -> 2x6x1x1 : across_channels: true
Eltwise 2x4x5x6 2x4x5x6 2x4x5x6 -> 2x4x5x6
Scale 2x4x5x6 -> 2x4x5x6, 4
Scale 2x3x9x11 3 -> 2x3x9x11 : num_axes: -1
Scale 2x3x9x11 3x9 -> 2x3x9x11, 3x9 : bias_term: true
Scale 2x4x5x6 -> 2x4x5x6, 4 4 : bias_term: true
Scale 2x4x5x6 -> 2x4x5x6, 2x4 : axis: 0 num_axes: 2
Scale 2x4x5x6 -> 2x4x5x6, () () : num_axes: 0 bias_term: true
Scale () () -> () : num_axes: 4
Bias 2x4x5x6 () -> 2x4x5x6 : axis: 0 num_axes: 2
Bias 2x4x5x6 -> 2x4x5x6, 4
Bias 2x4x5x6 -> 2x4x5x6, 4x5x6 : num_axes: -1
Concat 2x4x5x6 2x3x5x6 2x1x5x6 -> 2x8x5x6
Concat 2x3 1x3 -> 3x3 : axis: 0
Concat 2x3 1x3 -> 3x3 : concat_dim: 0
Slice 2x4x5x6 -> 2x2x5x6 2x2x5x6
Slice 2x4x5x6 -> 2x1x5x6 2x3x5x6 : slice_point: 1
Slice 2x4x5x6 -> 1x4x5x6 1x4x5x6 : axis: 0
Slice 2x4x5x6 -> 2x4x5x6 : slice_dim: 0
Slice 2x4x5x6 -> 2x4x5x6 0x4x5x6 : slice_point: 2 axis: 0
Flatten 2x4x5x6 -> 2x120
Flatten 2x4x5x6 -> 240 : axis: 0
Flatten 2x4x5x6 -> 2x4x5x6 : axis: -1
Flatten 2x4x5x6 -> 2x20x6 : axis: 1 end_axis: 2
Flatten 2x4x5x6 -> 2x4x1x5x6 : axis: 2 end_axis: 1
Reshape 2x4x5x6 -> 240 : shape { dim: -1 }
Reshape 2x4x5x6 -> 2x120 : shape { dim: [0, -1] }
Reshape 2x4x5x6 -> 2x40x3 : shape { dim: [2, -1, 3] }
Reshape 2x4x5x6 -> 2x4x5x6x1 : shape { dim: -1 } axis: -1
Reshape 2x4x5x6 -> 2x1x4x5x6 : shape { dim: 1 } axis: 1 num_axes: 0
Reshape 2x3x9x11 -> 2x3x9x1x11 : shape { dim: [3, 0, -1] } axis: 1 num_axes: 2
Reshape 2x2x3x3x3 -> 2x2x3x3x3 : shape { dim: 0 } axis: 4
Crop 2x4x5x6 2x4x3x2 -> 2x4x3x2
Crop 2x4x5x6 1x2x3x4 -> 1x2x3x4 : axis: 0
Crop 2x4x5x6 2x1x1x1 -> 2x4x1x1 : offset: 1
Crop 2x4x5x6 2x4x5x5 -> 2x4x5x5 : axis: 2 offset: [0, 1]
Tile 2x4x5x6 -> 2x8x5x6 : tiles: 2
Tile 2x4x5x6 -> 6x4x5x6 : tiles: 3 axis: 0
Reduction 2x4x5x6 -> ()
Reduction 2x4x5x6 -> 2 : axis: 1
Reduction 2x4x5x6 -> 2x4x5 : axis: -1 operation: MEAN
ArgMax 2x4x5x6 -> 2x1x1x1
ArgMax 2x4x5x6 -> 2x1x5x6 : axis: 1
ArgMax 2x9 -> 2x2x3 : top_k: 3 out_max_val: true
ArgMax 3 -> 3 : axis: 0 top_k: 3
Parameter -> (), ()
Parameter -> 2x3, 2x3 : shape { dim: [2, 3] }
BatchReindex 2x4x5x6 3 -> 3x4x5x6
Filter 2x4x5x6 2x3 2 -> 2x4x5x6 2x3
Split 2x4x5x6 -> 2x4x5x6 2x4x5x6
Silence 2x4x5x6 2x3 ->
SoftmaxWithLoss 2x4x5x6 2x5x6 -> () 2x4x5x6
SoftmaxWithLoss 2x4x5x6 2x5x6 ->
SoftmaxWithLoss 2x3 2 -> () : axis: -1
InfogainLoss 2x3x9x11 2x9x11 3x3 -> () 2x3x9x11
InfogainLoss 9 () -> () : axis: 0
EuclideanLoss 2x4x5x6 2x120 -> ()
SigmoidCrossEntropyLoss 2x4x5x6 2x4x5x6 -> ()
HingeLoss 2x4x5x6 2 -> ()
MultinomialLogisticLoss 2x4x5x6 2 -> ()
ContrastiveLoss 2x4x5x6 2 2 -> ()
Accuracy 2x4x5x6 2x5x6 -> () 4
Accuracy 3x4 4 -> () : axis: 0
DummyData -> 2x3x4x5 : num: 2 channels: 3 height: 4 width: 5
DummyData -> 2x3 2x3 : shape { dim: [2, 3] }
DummyData -> 2x1x1x1 3x1x1x1 : num: [2, 3] channels: 1 height: 1 width: 1
Input -> 2 2 : shape { dim: 2 }
Input -> 2 2x3 : shape { dim: 2 } shape { dim: [2, 3] }
Input -> 0x50000x50000 : shape { dim: [0, 50000, 50000] }
MemoryData -> 2x3x4x5 2 : batch_size: 2 channels: 3 height: 4 width: 5
ImageData -> 2x1x4x5 2 : batch_size: 2 new_height: 4 new_width: 5 is_color: false
ImageData -> 2x3x7x7 2 : batch_size: 2 } transform_param { crop_size: 7
Normalize 2x6x9x11 -> 2x6x9x11, 6 : across_spatial: false channel_shared: false
Normalize 2x6 -> 2x6, () : across_spatial: true
Permute 2x6x9x11 -> 2x9x11x6 : order: [0, 2, 3, 1]
Permute 2x6x9 -> 9x2x6 : order: 2
PriorBox 1x512x38x38 1x3x300x300 -> 1x2x34656 : min_size: 30 max_size: 60 aspect_ratio: [2, 3]
PriorBox 1x5x3x4 1x3x30x40 -> 1x2x96 : min_size: 30 aspect_ratio: [2, 1, 2] flip: false
Interp 2x6x9x11 -> 2x6x5x7 : height: 5 width: 7
Interp 2x6x9x11 -> 2x6x17x21 : zoom_factor: 2
Interp 2x6x9x11 -> 2x6x4x5 : shrink_factor: 2 pad_beg: -1
Interp 2x6x9x11 -> 2x6x13x16 : shrink_factor: 2 zoom_factor: 3
ROIPooling 1x256x9x9 300x5 -> 300x256x6x7 : pooled_h: 6 pooled_w: 7 spatial_scale: 0.0625
"""
# The shapes of bottoms, the number of tops, a part of the error, and the settings.
REFUSED = """
Convolution 2x4x5x6 -> 1 kernel_size once, or once for each of 2 spatial axes : num_output: 2
Convolution 2x4x5x6 -> 1 multiples of group, and not 0, got 0, 4, 1 : kernel_size: 1
Convolution 2x4x5x6 -> 1 multiples of group, and not 0, got 4, 4, 3 : num_output: 4 group: 3
Convolution 2x4x5x6 2x4x5 -> 2 bottoms of one shape : num_output: 2 kernel_size: 1
Convolution 3 -> 1 axis 1 is out of range : num_output: 2
Deconvolution 2x4x5x6 -> 1 image is too small : num_output: 2 kernel_size: 1 pad: 5
Im2col 2x4x5x6 -> 1 a stride of 1 or more : kernel_size: 3 stride: 0
Im2col 2x4x5x6 -> 1 kernel_h and kernel_w are for 2 spatial axes : kernel_h: 2 kernel_size: 1
Im2col 2x3 -> 1 stride once, or once for each of 0 : kernel_size: 2 stride: [1, 2]
Pooling 2x4x5x6 -> 1 image is too small : kernel_size: 20 stride: 2
Pooling 2x4x5x6 -> 1 pad_h and pad_w, or neither : kernel_size: 3 pad_h: 1
Pooling 2x4x5x6 -> 1 kernel_size and stride above 0, got [0, 0]
Pooling 2x4x5x6 -> 2 expected 1 tops, got 2 : kernel_size: 1 pool: AVE
Pooling 2x4x5 -> 1 a bottom of 4 axes
SPP 2x4x5x6 -> 1 large enough for level 2 of the pyramid : pyramid_height: 3
SPP 2x4x5x6 -> 1 a pyramid_height of 1 or more
InnerProduct 2x4x5x6 -> 1 a num_output of 1 or more
Embed 2x4 -> 1 a num_output of 1 or more : input_dim: 3
LSTM 2x4x5x6 2x4 -> 1 a num_output of 1 or more
LSTM 2x3x9 2x3 2x3 -> 1 a static input of shape (3, ...), and then 0 states : num_output: 3
LSTM 2x4x5 2 -> 1 bottoms of shapes (steps, streams, ...) and (steps, streams) : num_output: 3
RNN 2x4x5 2x4 -> 2 then 1 states of shape (1, 4, 3), got none : num_output: 3 expose_hidden: true
LSTMUnit 1x2x5 1x2x15 1x2 -> 2 4 * size
LSTMUnit 1x2x5 1x2x20 2x1 -> 2 4 * size
PReLU 3 -> 1 axis 1 is out of range
MVN 2x2x3x3x3 -> 1 at most 4 axes
ReLU 2 2 -> 1 expected 1 bottoms, got 2
Eltwise 2x4x5x6 () -> 1 bottoms of one shape
Eltwise 2 -> 1 expected 2 or more bottoms, got 1
Scale 2x4x5x6 2x4 -> 1 a second bottom of shape (4, 5)
Bias 2x4x5x6 2x4x5x6 -> 1 num_axes that (2, 4, 5, 6) has from axis 1 on, got 4
Bias 1x3x3 -> 1 num_axes that (1, 3, 3) has from axis 1 on, got -2 : num_axes: -2
Concat 2x4x5x6 2x4x5x7 -> 1 differ along axis 1 only
Concat 2x4 -> 1 axis 7 is out of range : concat_dim: 7
Slice 2x3 -> 2 axis 1, of 3 values, to be divided among 2 tops
Slice 2x3 -> 1 divided among 1 tops : slice_point: 3
Slice 2x3 -> 3 divided among 3 tops : slice_point: [2, 2]
Flatten 2x4x5x6 -> 1 end_axis at or after axis 2, got 0 : axis: 2 end_axis: 0
Reshape 2x4x5x6 -> 1 axis 4 is out of range : shape { dim: 0 } axis: 4
Reshape 2x4x5x6 -> 1 a shape for the values of (2, 4, 5, 6), got [-1, -1] : shape { dim: [-1, -1] }
Reshape 2x4x5x6 -> 1 axes of (2, 4, 5, 6), got 5 from axis 0 on : num_axes: 5
Crop 2x4x5x6 2x4x5x6 -> 1 fits into (2, 4, 5, 6) from axis 2 on : axis: 2 offset: [0, 1]
Tile 2x4x5x6 -> 1 tiles of 1 or more, got 0
ArgMax 2x4x5x6 -> 1 a top_k from 1 to 2, got 3 : axis: 0 top_k: 3
ArgMax () -> 1 axis 0 is out of range
Parameter -> 1 no negative dimension : shape { dim: -1 }
BatchReindex 2x4x5x6 () -> 1 a bottom of 1 axes
Filter 2x4x5x6 3 -> 1 a selector of shape (items,) last
Filter 2x4 2x4 2 -> 1 expected 2 tops, got 1
InfogainLoss 4x10 5 -> 1 4 labels for scores
InfogainLoss 2 2 2 2 -> 1 expected 2 to 3 bottoms, got 4
HingeLoss 2x4x5x6 () -> 1 bottoms that fit each other
EuclideanLoss 2x4 2x5 -> 1 bottoms that fit each other
HingeLoss 2 2 -> 2 expected 0 to 1 tops, got 2
Accuracy 2x4x5x6 () -> 1 60 labels for scores of shape (2, 4, 5, 6) with the classes along axis 1
Accuracy 2x4 2 -> 0 expected 1 to 2 tops, got 0
DummyData -> 2 a shape for each of 2 tops, or one, got 0
Input -> 1 a shape for each of 1 tops, or one, got 2 : shape { } shape { }
Input -> 1 at most 2147483647 values, got (50000, 50000) : shape { dim: [50000, 50000] }
ImageData -> 1 expected 2 tops, got 1 : batch_size: 2
Data -> 1 't0': (8, channels, height, width) : batch_size: 8
HDF5Data -> 1 top is in the data; give it: shapes={'t0': (...)}
Permute 2x6 -> 1 different axes : order: [0, 0]
Permute 2x6 -> 1 different axes : order: 2
PriorBox 1x2x3x4 1x2x3x4 -> 1 a min_size : clip: true
PriorBox 1x2x3x4 1x2x3x4 -> 1 a min_size : min_size: [1, 2] max_size: 3
Interp 1x2x3x4 -> 1 above 0 : height: 2
Interp 1x2x3x4 -> 1 factors of 1 : zoom_factor: 0
Interp 1x2x3x4 -> 1 of 0 or less : zoom_factor: 2 pad_end: 1
ROIPooling 1x2x3x4 5x5 -> 1 pooled_w : pooled_h: 2
Permute 2x6 -> 1 its permute_param is missing; read_prototxt(path, forks=True) reads it
Fancy 2x4 -> 1 type is not one of Caffe's; give the shape of its top: shapes={'t0': (...)}
"""
# The names of settings that are not those of the type.
SETTINGS = {
    **dict.fromkeys(("Deconvolution", "DepthwiseConvolution", "Im2col"), "convolution"),
    **dict.fromkeys(("LSTM", "RNN"), "recurrent"),
    "ArgMax": "argmax",
    "HDF5Data": "hdf5_data",
    "Normalize": "norm",
    "PReLU": "prelu",
    "ROIPooling": "roi_pooling",
    "SoftmaxWithLoss": "softmax",
}
ONE_SHAPE = """
    AbsVal BNLL Clip Dropout ELU Exp LRN Log Power ReLU Sigmoid Softmax Swish TanH Threshold
"""


def entries(table):
    """Yield the line of each layer, its type, its shapes before and after the arrow, the rest."""
    for line in table.strip().replace("\n  ", " ").split("\n"):
        head, _, settings = line.partition(" : ")
        kind, bottoms, rest = re.fullmatch(r"(\w+)(.*) ->(.*)", head).groups()
        name = SETTINGS.get(kind, re.sub("(?<=[a-z])(?=[A-Z])", "_", kind).lower())
        text = f'type: "{kind}"' + (settings and f" {name}_param {{ {settings} }}")
        yield pytest.param(text, shapes_of(bottoms), rest.strip(), id=line)


def shapes_of(text):
    return [tuple(map(int, re.findall(r"\d+", shape))) for shape in text.split()]


def layer_of(text, bottoms, tops):
    """Make a net of one layer over inputs ``b0``, ``b1`` and so on, with tops ``t0`` and so on."""
    given = {f"b{number}": shape for number, shape in enumerate(bottoms)}
    names = [f'bottom: "{name}"' for name in given] + [f'top: "t{n}"' for n in range(tops)]
    net = f'layer {{ name: "x" {text} {" ".join(names)} }}'
    return ModelFile.from_net(read_prototxt(io.BytesIO(net.encode()), forks=True)), given


@pytest.mark.parametrize(("text", "bottoms", "expected"), [*entries(LAYERS)])
def test_a_layer_has_the_shapes_of_caffe(text, bottoms, expected):
    tops, blobs = map(shapes_of, (expected + ",").split(",")[:2])
    model, given = layer_of(text, bottoms, len(tops))
    found = model.infer_shapes(given)
    assert [found.blobs[f"t{number}"] for number in range(len(tops))] == tops
    assert [*found.params.get("x", ())] == blobs
    assert not found.missing
    if not any(0 in blob for blob in blobs):
        model.fill(given)
        assert [blob.shape for blob in model["x"].blobs] == blobs
        # Without the shapes of its bottoms, the settings say less, and nothing else.
        target = ModelFile(layers=[Layer.from_proto(model["x"].proto)])
        target.copy_trained_layers_from(model)
        assert [blob.shape for blob in target["x"].blobs] == blobs


@pytest.mark.parametrize("kind", ONE_SHAPE.split())
def test_types_that_keep_any_shape(kind):
    clip = " clip_param { min: 0 max: 1 }" * (kind == "Clip")
    model, given = layer_of(f'type: "{kind}"{clip}', [(2, 1, 3, 0, 4)], 1)
    assert model.infer_shapes(given).blobs["t0"] == (2, 1, 3, 0, 4)


@pytest.mark.parametrize(("text", "bottoms", "expected"), [*entries(REFUSED)])
def test_shapes_that_do_not_fit_are_refused(text, bottoms, expected):
    tops, _, words = expected.partition(" ")
    model, given = layer_of(text, bottoms, int(tops))
    with pytest.raises(ValueError, match=rf"^layer 'x' \(\w+\): .*{re.escape(words)}"):
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


# --- partial shapes -------------------------------------------------------------------------------

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [1, 3, 8, 8] } } }
layer { name: "odd" type: "Odd" bottom: "data" top: "odd" top: "side" }
layer { name: "relu" type: "ReLU" bottom: "odd" top: "odd" }
layer { name: "odd in place" type: "Odd" bottom: "odd" top: "odd" }
layer { name: "fc" type: "InnerProduct" bottom: "odd" top: "fc"
  inner_product_param { num_output: 2 } }
layer { name: "odder" type: "Odder" bottom: "fc" top: "odder" }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { kernel_size: 2 } }
layer { name: "word" type: "Embed" bottom: "ids" top: "word"
  embed_param { num_output: 2 input_dim: 9 } }
"""


def test_shapes_go_up_to_and_beside_an_unknown_layer():
    model = model_of(NET)
    found = model.infer_shapes()
    assert found.blobs == {"data": (1, 3, 8, 8), "pool": (1, 3, 7, 7)}
    assert list(found.missing) == ["odd", "side", "odder", "ids"]
    assert "layer 'odd' (Odd): its type is not one of Caffe's" in found.missing["odd"]
    assert "shapes={'ids': (...)}" in found.missing["ids"]
    with pytest.raises(ValueError, match=r"'odd'.*'side'.*'odder'.*'ids'"):
        model.fill()
    assert not any(layer.blobs for layer in model.layers)

    shapes = {"odd": (1, 4), "side": (1,), "odder": (2,), "ids": (5,)}
    found = model.infer_shapes(shapes)
    assert not found.missing
    assert found.params == {"fc": ((2, 4), (2,)), "word": ((9, 2), (2,))}
    assert model.fill(shapes) == ("fc", "word")


def test_a_shape_in_the_middle_can_be_given():
    found = model_of(NET).infer_shapes({"fc": (1, 2), "word": (5, 2)})
    assert (found.blobs["fc"], found.blobs["word"]) == ((1, 2), (5, 2))
    assert list(found.missing) == ["odd", "side", "odder", "ids"]


def test_what_caffe_refuses_behind_an_unknown_layer_is_refused():
    wrong = 'layer { name: "r" type: "ReLU" bottom: "odd" top: "pool" }'
    with pytest.raises(ValueError, match="its top 'pool' is that of an earlier layer"):
        model_of(NET + wrong).infer_shapes()


def test_a_data_base_hides_only_what_follows():
    text = """
        layer { name: "d" type: "Data" top: "data" top: "label" data_param { batch_size: 4 } }
        layer { name: "p" type: "Parameter" top: "p" parameter_param { shape { dim: 3 } } }
    """
    found = model_of(text).infer_shapes()
    assert found.blobs == {"label": (4,), "p": (3,)}
    assert "(4, channels, height, width)" in found.missing["data"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('type: "Python" python_param { module: "m" layer: "L" }', "are in its Python code"),
        ("", "the file does not say its type"),
    ],
)
def test_why_a_shape_is_missing(text, why):
    model, given = layer_of(text, [(2,)], 1)
    assert why in model.infer_shapes(given).missing["t0"]


# --- other readers --------------------------------------------------------------------------------

# What OpenCV does otherwise: a dilation of a Deconvolution, settings for one axis alone, other
# axes, several tops, windows that are larger than the image, and settings of forks.
OTHERWISE = re.compile(
    r"Convolution 2x4x5x6 2x4|Convolution .*(pad_h: 1$|axis: 0$|kernel_size: 12)|Deconvolution|"
    r"Pooling .*stride_h: 3|MVN 2x6|Split|Permute"
)


def test_opencv_reads_the_weights_and_computes_the_same_shapes(tmp_path):
    cv2 = pytest.importorskip("cv2", reason="needs opencv-python-headless<5")
    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        pytest.skip("needs opencv-python-headless<5")
    definition, weights = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    compared = 0
    for row in entries(LAYERS):
        text, bottoms, expected = row.values
        tops = shapes_of(expected.partition(",")[0])
        if OTHERWISE.match(row.id) or not (bottoms and tops):
            continue
        model, given = layer_of(text, bottoms, len(tops))
        model.fill(given, rng=0)
        save_model(model, weights)
        inputs = [
            f'input: "{name}" input_shape {{ dim: {[*shape]} }}' for name, shape in given.items()
        ]
        definition.write_text(f"{' '.join(inputs)} {text_format.MessageToString(model.to_net())}")
        try:
            net = cv2.dnn.readNetFromCaffe(str(definition), str(weights))
            *_, shapes = net.getLayersShapes([*map(list, bottoms)])
        except cv2.error:  # it lacks many types and settings
            continue
        assert [tuple(map(int, shape)) for shape in shapes[-1]][: len(tops)] == tops, row.id
        compared += 1
    assert compared > 45


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
