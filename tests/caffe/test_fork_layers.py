"""Shapes of layers of forks, and of the part of a net beside layers of unknown types."""

import re

import numpy as np
import pytest

from syncblob import Layer, ModelFile, read_prototxt

# Computed by hand by the rules in the sources that `layer_types` names: shapes of bottoms, tops and
# blobs, and the settings.
FORKS = """
DepthwiseConvolution 2x6x9x11 -> 2x6x7x9, 6x1x3x3 6
  convolution_param { num_output: 6 group: 6 kernel_size: 3 }
ConvolutionDepthwise 2x6x9x12 -> 2x6x5x6, 6x1x3x3
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 stride: 2 bias_term: false }
Normalize 2x6x9x11 -> 2x6x9x11, 6
  norm_param { across_spatial: false channel_shared: false }
Normalize 2x6 -> 2x6, ()
  norm_param { }
Permute 2x6x9x11 -> 2x9x11x6
  permute_param { order: [0, 2, 3, 1] }
Permute 2x6x9 -> 9x2x6
  permute_param { order: 2 }
PriorBox 1x512x38x38 1x3x300x300 -> 1x2x34656
  prior_box_param { min_size: 30 max_size: 60 aspect_ratio: [2, 3] }
PriorBox 1x5x3x4 1x3x30x40 -> 1x2x96
  prior_box_param { min_size: 30 aspect_ratio: [2, 1, 2] flip: false }
DetectionOutput 1x8 1x4 1x2x8 -> 1x1x1x7
  detection_output_param { num_classes: 21 share_location: true background_label_id: 0 nms_param
  { nms_threshold: 0.45 top_k: 400 } code_type: CENTER_SIZE keep_top_k: 200 save_output_param {
  output_directory: "x" output_format: "VOC" num_test_image: 4952 } confidence_threshold: 0.01 }
Interp 2x6x9x11 -> 2x6x5x7
  interp_param { height: 5 width: 7 }
Interp 2x6x9x11 -> 2x6x17x21
  interp_param { zoom_factor: 2 }
Interp 2x6x9x11 -> 2x6x4x5
  interp_param { shrink_factor: 2 pad_beg: -1 }
Interp 2x6x9x11 -> 2x6x13x16
  interp_param { shrink_factor: 2 zoom_factor: 3 }
Proposal 1x18x4x4 1x36x4x4 1x3 -> 1x1x1x5
Python 1x18x4x4 1x36x4x4 1x3 -> 1x5 1x1x1x1
  python_param { module: "rpn.proposal_layer" layer: "ProposalLayer" }
ROIPooling 1x256x9x9 300x5 -> 300x256x6x7
  roi_pooling_param { pooled_h: 6 pooled_w: 7 spatial_scale: 0.0625 }
Normalize 2x6x9x11 -> 2x6x9x11 2x1x9x11
Normalize 2x6 -> 2x6x1x1
  normalize_param { normalize_type: "L2" }
BN 2x6x9x11 -> 2x6x9x11, 1x6x1x1 1x6x1x1 1x6x1x1 1x6x1x1
  bn_param { slope_filler { type: "constant" value: 1 } frozen: true }
BN 2x6x9x11 -> 2x6x9x11, 1x6x1x1 1x6x1x1
  bn_param { bn_mode: INFERENCE }
ReLU6 2x6x9 -> 2x6x9
  relu6_param { }
Axpy 2x6x1x1 2x6x9x11 2x6x9x11 -> 2x6x9x11
ShuffleChannel 2x6x9x11 -> 2x6x9x11
  shuffle_channel_param { group: 3 }
Reorg 1x64x26x27 -> 1x256x13x13
  reorg_param { stride: 2 }
Reorg 1x64x26x27 -> 1x16x52x54
  reorg_param { stride: 2 reverse: true }
Upsample 1x2x4x5 -> 1x2x12x15
  upsample_param { scale: 3 }
Upsample 1x2x4x5 1x2x4x5 -> 1x2x8x9
  upsample_param { pad_out_w: true }
Upsample 1x2x4x5 1x2x4x5 -> 1x2x7x9
  upsample_param { scale: 2 upsample_w: 9 upsample_h: 7 }
Correlation 1x256x48x64 1x256x48x64 -> 1x441x48x64
  correlation_param { pad: 20 kernel_size: 1 max_displacement: 20 stride_1: 1 stride_2: 2 }
Correlation 1x2x9x12 1x2x9x12 -> 1x9x3x4
  correlation_param { kernel_size: 3 max_displacement: 1 stride_1: 2 }
Resample 2x3x4x4 -> 2x3x5x7
  resample_param { width: 7 height: 5 type: LINEAR antialias: true }
Resample 2x3x4x4 2x1x8x9 -> 2x3x8x9
  resample_param { type: NEAREST }
PSROIPooling 1x18x9x9 300x5 -> 300x2x3x3
  psroi_pooling_param { output_dim: 2 group_size: 3 }
Pooling 2x6x9x11 -> 2x6x4x5
  pooling_param { kernel_size: 2 stride: 2 ceil_mode: false }
Pooling 2x6x9x12 -> 2x6x5x6
  pooling_param { kernel_size: 3 stride: 2 pad_type: 1 }
Convolution 2x6x9x12 -> 2x4x5x6, 4x6x3x3 4
  convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad_type: 1 }
Convolution 2x6x9x12 -> 2x4x5x8, 4x6x3x3 4
  convolution_param { num_output: 4 kernel_size: 3 hole: 2 }
"""


def shapes_of(text):
    return [tuple(map(int, re.findall(r"\d+", shape))) for shape in text.split()]


def entries(table):
    """Yield the text of each layer, and its shapes."""
    for entry in re.split(r"\n(?=\S)", table.strip()):
        head, _, settings = entry.partition("\n")
        kind, bottoms, tops, blobs = re.fullmatch(r"(\w+) (.*) -> ([^,]*),?(.*)", head).groups()
        yield f'type: "{kind}" {settings}', *map(shapes_of, (bottoms, tops, blobs))


def read(tmp_path, text, **options):
    path = tmp_path / "net.prototxt"
    path.write_text(text)
    return ModelFile.from_net(read_prototxt(path, **options))


def layer(text, bottoms, tops):
    names = [f'bottom: "b{number}"' for number in range(len(bottoms))]
    names += [f'top: "t{number}"' for number in range(tops)]
    return f'layer {{ name: "x" {text} {" ".join(names)} }}'


@pytest.mark.parametrize(("text", "bottoms", "tops", "blobs"), [*entries(FORKS)])
def test_shapes_by_the_rules_of_forks(tmp_path, text, bottoms, tops, blobs):
    model = read(tmp_path, layer(text, bottoms, len(tops)), forks=True, ignore_unknown=True)
    found = model.infer_shapes({f"b{number}": shape for number, shape in enumerate(bottoms)})
    assert [found.blobs[f"t{number}"] for number in range(len(tops))] == tops
    assert list(found.params.get("x", ())) == blobs
    assert not found.missing


@pytest.mark.parametrize(
    ("text", "bottoms", "words"),
    [
        ('type: "Permute" permute_param { order: [0, 0] }', [(2, 6)], "different axes"),
        ('type: "Permute" permute_param { order: 2 }', [(2, 6)], "different axes"),
        ('type: "PriorBox" prior_box_param { }', [(1, 2, 3, 4)] * 2, "a min_size"),
        (
            'type: "PriorBox" prior_box_param { min_size: [1, 2] max_size: 3 }',
            *([(1, 2, 3, 4)] * 2, "a min_size"),
        ),
        ('type: "Interp" interp_param { height: 2 }', [(1, 2, 3, 4)], "above 0"),
        ('type: "Interp" interp_param { zoom_factor: 0 }', [(1, 2, 3, 4)], "factors of 1"),
        (
            'type: "Interp" interp_param { zoom_factor: 2 pad_end: 1 }',
            [(1, 2, 3, 4)],
            "of 0 or less",
        ),
        (
            'type: "ROIPooling" roi_pooling_param { pooled_h: 2 }',
            [(1, 2, 3, 4), (5, 5)],
            "pooled_w",
        ),
        ('type: "Normalize" norm_param { }', [(1,) * 5], "at most 4 axes"),
        ('type: "Axpy"', [(2, 6), (2, 5, 3), (2, 5, 3)], "one factor for each channel"),
        ('type: "Reorg" reorg_param { }', [(1, 2, 3, 4)], "a stride of 1 or more"),
        ('type: "Upsample" upsample_param { }', [(1, 2, 3, 4), (1, 2, 3, 5)], "a mask of the"),
        ('type: "Correlation" correlation_param { kernel_size: 2 }', [(1, 2, 3, 4)] * 2, "odd"),
        (
            'type: "Correlation" correlation_param { kernel_size: 1 max_displacement: 2 }',
            *([(1, 2, 3, 4), (1, 2, 3, 4)], "larger than the border, 4"),
        ),
        ('type: "Resample" resample_param { width: 1 }', [(1, 2, 3, 4)], "height and width above"),
        (
            'type: "PSROIPooling" psroi_pooling_param { output_dim: 2 group_size: 3 }',
            *([(1, 17, 9, 9), (300, 5)], r"output_dim \* group_size\*\*2 channels"),
        ),
    ],
)
def test_what_forks_refuse(tmp_path, text, bottoms, words):
    shapes = {f"b{number}": shape for number, shape in enumerate(bottoms)}
    with pytest.raises(ValueError, match=words):
        read(tmp_path, layer(text, bottoms, 1), forks=True).infer_shapes(shapes)


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


def test_shapes_go_up_to_and_beside_an_unknown_layer(tmp_path):
    model = read(tmp_path, NET)
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


def test_a_shape_in_the_middle_can_be_given(tmp_path):
    found = read(tmp_path, NET).infer_shapes({"fc": (1, 2), "word": (5, 2)})
    assert (found.blobs["fc"], found.blobs["word"]) == ((1, 2), (5, 2))
    assert list(found.missing) == ["odd", "side", "odder", "ids"]


def test_what_caffe_refuses_behind_an_unknown_layer_is_refused(tmp_path):
    wrong = 'layer { name: "r" type: "ReLU" bottom: "odd" top: "pool" }'
    with pytest.raises(ValueError, match="its top 'pool' is that of an earlier layer"):
        read(tmp_path, NET + wrong).infer_shapes()


def test_settings_that_were_left_out_are_missing(tmp_path):
    text = layer('type: "Permute" permute_param { order: 1 }', [(2, 3)], 1)
    found = read(tmp_path, text, ignore_unknown=True).infer_shapes({"b0": (2, 3)})
    assert found.blobs == {"b0": (2, 3)}
    assert "read_prototxt(path, forks=True) reads it" in found.missing["t0"]
    text = layer('type: "Normalize" norm_param { channel_shared: false }', [(2, 3)], 1)
    found = read(tmp_path, text, ignore_unknown=True).infer_shapes({"b0": (2, 3)})
    assert (found.blobs["t0"], found.params) == ((2, 3), {})


def test_a_data_base_hides_only_what_follows(tmp_path):
    text = """
        layer { name: "d" type: "Data" top: "data" top: "label" data_param { batch_size: 4 } }
        layer { name: "p" type: "Parameter" top: "p" parameter_param { shape { dim: 3 } } }
    """
    found = read(tmp_path, text).infer_shapes()
    assert found.blobs == {"label": (4,), "p": (3,)}
    assert "(4, channels, height, width)" in found.missing["data"]


def test_layers_in_python_say_so(tmp_path):
    text = layer('type: "Python" python_param { module: "m" layer: "L" }', [(2,)], 1)
    found = read(tmp_path, text).infer_shapes({"b0": (2,)})
    assert "its shapes are in its Python code" in found.missing["t0"]


@pytest.mark.parametrize("shape", [(1, 6, 1, 1), (1, 6)])  # of PSPNet and of TSN
def test_the_four_blobs_of_bn(tmp_path, shape):
    text = layer('type: "BN" bn_param { slope_filler { value: 1 } frozen: true }', [0], 1)
    model = read(tmp_path, text, forks=True)
    trained = ModelFile(layers=[Layer("x", "BN", blobs=[np.full(shape, 3, np.float32)] * 4)])
    assert model.copy_trained_layers_from(trained).copied == ("x",)
    assert [blob.shape for blob in model["x"].blobs] == [shape] * 4
    model.fill({"b0": (2, 6, 3, 3)})
    made = read(tmp_path, text, forks=True)
    made.fill({"b0": (2, 6, 3, 3)})
    assert [np.unique(blob).tolist() for blob in made["x"].blobs] == [[1], [0], [0], [1]]
    unknown = read(tmp_path, layer('type: "BN"', [0], 1), forks=True)
    assert unknown.copy_trained_layers_from(trained).copied == ("x",)
