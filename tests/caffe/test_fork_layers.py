"""Shapes of layers of forks, and of the part of a net beside layers of unknown types."""

import numpy as np
import pytest

from syncblob import Layer, ModelFile, read_prototxt

# Computed by hand by the rules in the sources that `top_shapes` names: bottoms, tops, blobs.
FORKS = [
    (
        'type: "DepthwiseConvolution" convolution_param { num_output: 6 group: 6 kernel_size: 3 }',
        *([(2, 6, 9, 11)], [(2, 6, 7, 9)], [(6, 1, 3, 3), (6,)]),
    ),
    (
        (
            'type: "ConvolutionDepthwise" convolution_param { num_output: 8 kernel_size: 3 pad: 1 '
            "stride: 2 bias_term: false }"
        ),
        *([(2, 6, 9, 12)], [(2, 6, 5, 6)], [(6, 1, 3, 3)]),
    ),
    (
        'type: "Normalize" norm_param { across_spatial: false channel_shared: false }',
        *([(2, 6, 9, 11)], [(2, 6, 9, 11)], [(6,)]),
    ),
    ('type: "Normalize" norm_param { }', [(2, 6)], [(2, 6)], [()]),
    (
        'type: "Permute" permute_param { order: [0, 2, 3, 1] }',
        *([(2, 6, 9, 11)], [(2, 9, 11, 6)], []),
    ),
    ('type: "Permute" permute_param { order: 2 }', [(2, 6, 9)], [(9, 2, 6)], []),
    (
        'type: "PriorBox" prior_box_param { min_size: 30 max_size: 60 aspect_ratio: [2, 3] }',
        *([(1, 512, 38, 38), (1, 3, 300, 300)], [(1, 2, 38 * 38 * 6 * 4)], []),
    ),
    (
        'type: "PriorBox" prior_box_param { min_size: 30 aspect_ratio: [2, 1, 2] flip: false }',
        *([(1, 5, 3, 4), (1, 3, 30, 40)], [(1, 2, 3 * 4 * 2 * 4)], []),
    ),
    ('type: "DetectionOutput"', [(1, 8), (1, 4), (1, 2, 8)], [(1, 1, 1, 7)], []),
    ('type: "Interp" interp_param { height: 5 width: 7 }', *([(2, 6, 9, 11)], [(2, 6, 5, 7)], [])),
    ('type: "Interp" interp_param { zoom_factor: 2 }', *([(2, 6, 9, 11)], [(2, 6, 17, 21)], [])),
    (
        'type: "Interp" interp_param { shrink_factor: 2 pad_beg: -1 }',
        *([(2, 6, 9, 11)], [(2, 6, 4, 5)], []),
    ),
    (
        'type: "Interp" interp_param { shrink_factor: 2 zoom_factor: 3 }',
        *([(2, 6, 9, 11)], [(2, 6, 13, 16)], []),
    ),
    ('type: "Proposal"', [(1, 18, 4, 4), (1, 36, 4, 4), (1, 3)], [(1, 1, 1, 5)], []),
    (
        'type: "Python" python_param { module: "rpn.proposal_layer" layer: "ProposalLayer" }',
        *([(1, 18, 4, 4), (1, 36, 4, 4), (1, 3)], [(1, 5), (1, 1, 1, 1)], []),
    ),
    (
        'type: "ROIPooling" roi_pooling_param { pooled_h: 6 pooled_w: 7 spatial_scale: 0.0625 }',
        *([(1, 256, 9, 9), (300, 5)], [(300, 256, 6, 7)], []),
    ),
    ('type: "Normalize"', [(2, 6, 9, 11)], [(2, 6, 9, 11), (2, 1, 9, 11)], []),
    ('type: "Normalize" normalize_param { normalize_type: "L2" }', *([(2, 6)], [(2, 6, 1, 1)], [])),
    (
        'type: "BN" bn_param { slope_filler { type: "constant" value: 1 } frozen: true }',
        *([(2, 6, 9, 11)], [(2, 6, 9, 11)], [(1, 6, 1, 1)] * 4),
    ),
    (
        'type: "BN" bn_param { bn_mode: INFERENCE }',
        *([(2, 6, 9, 11)], [(2, 6, 9, 11)], [(1, 6, 1, 1)] * 2),
    ),
    ('type: "ReLU6" relu6_param { }', [(2, 6, 9)], [(2, 6, 9)], []),
    ('type: "Axpy"', [(2, 6, 1, 1), (2, 6, 9, 11), (2, 6, 9, 11)], [(2, 6, 9, 11)], []),
    (
        'type: "ShuffleChannel" shuffle_channel_param { group: 3 }',
        *([(2, 6, 9, 11)], [(2, 6, 9, 11)], []),
    ),
    ('type: "Reorg" reorg_param { stride: 2 }', [(1, 64, 26, 27)], [(1, 256, 13, 13)], []),
    (
        'type: "Reorg" reorg_param { stride: 2 reverse: true }',
        *([(1, 64, 26, 27)], [(1, 16, 52, 54)], []),
    ),
    ('type: "Upsample" upsample_param { scale: 3 }', [(1, 2, 4, 5)], [(1, 2, 12, 15)], []),
    (
        'type: "Upsample" upsample_param { pad_out_w: true }',
        *([(1, 2, 4, 5), (1, 2, 4, 5)], [(1, 2, 8, 9)], []),
    ),
    (
        'type: "Upsample" upsample_param { scale: 2 upsample_w: 9 upsample_h: 7 }',
        *([(1, 2, 4, 5), (1, 2, 4, 5)], [(1, 2, 7, 9)], []),
    ),
    (
        (
            'type: "Correlation" correlation_param { pad: 20 kernel_size: 1 max_displacement: 20 '
            "stride_1: 1 stride_2: 2 }"
        ),
        *([(1, 256, 48, 64), (1, 256, 48, 64)], [(1, 441, 48, 64)], []),
    ),
    (
        'type: "Correlation" correlation_param { kernel_size: 3 max_displacement: 1 stride_1: 2 }',
        *([(1, 2, 9, 12), (1, 2, 9, 12)], [(1, 9, 3, 4)], []),
    ),
    (
        'type: "Resample" resample_param { width: 7 height: 5 type: LINEAR antialias: true }',
        *([(2, 3, 4, 4)], [(2, 3, 5, 7)], []),
    ),
    (
        'type: "Resample" resample_param { type: NEAREST }',
        *([(2, 3, 4, 4), (2, 1, 8, 9)], [(2, 3, 8, 9)], []),
    ),
    (
        'type: "PSROIPooling" psroi_pooling_param { output_dim: 2 group_size: 3 }',
        *([(1, 18, 9, 9), (300, 5)], [(300, 2, 3, 3)], []),
    ),
    # Rules for Caffe's own types.
    (
        'type: "Pooling" pooling_param { kernel_size: 2 stride: 2 ceil_mode: false }',
        *([(2, 6, 9, 11)], [(2, 6, 4, 5)], []),
    ),
    (
        'type: "Pooling" pooling_param { kernel_size: 3 stride: 2 pad_type: 1 }',
        *([(2, 6, 9, 12)], [(2, 6, 5, 6)], []),
    ),
    (
        (
            'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 stride: 2 '
            "pad_type: 1 }"
        ),
        *([(2, 6, 9, 12)], [(2, 4, 5, 6)], [(4, 6, 3, 3), (4,)]),
    ),
    (
        'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 hole: 2 }',
        *([(2, 6, 9, 12)], [(2, 4, 5, 8)], [(4, 6, 3, 3), (4,)]),
    ),
]


def read(tmp_path, text, **options):
    path = tmp_path / "net.prototxt"
    path.write_text(text)
    return ModelFile.from_net(read_prototxt(path, **options))


def layer(text, bottoms, tops):
    names = [f'bottom: "b{number}"' for number in range(len(bottoms))]
    names += [f'top: "t{number}"' for number in range(tops)]
    return f'layer {{ name: "x" {text} {" ".join(names)} }}'


@pytest.mark.parametrize(("text", "bottoms", "tops", "blobs"), FORKS)
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


def test_settings_of_the_output_of_ssd(tmp_path):
    text = """
        type: "DetectionOutput" detection_output_param {
          num_classes: 21 share_location: true background_label_id: 0
          nms_param { nms_threshold: 0.45 top_k: 400 } code_type: CENTER_SIZE keep_top_k: 200
          save_output_param { output_directory: "x" output_format: "VOC" num_test_image: 4952 }
          confidence_threshold: 0.01 }
    """
    shapes = {"b0": (1, 8), "b1": (1, 4), "b2": (1, 2, 8)}
    model = read(tmp_path, layer(text, shapes, 1), forks=True)
    assert model.infer_shapes(shapes).blobs["t0"] == (1, 1, 1, 7)


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
