"""Nets of Caffe's older formats: their contents and their upgrades."""

import re

import pytest
from google.protobuf import text_format

from syncblob.caffe import open_model
from syncblob.caffe._pb.caffe_pb2 import (
    BlobProto,
    NetParameter,
    V0LayerParameter,
    V1LayerParameter,
)
from syncblob.caffe.messages.older_formats import upgrade_net
from syncblob.errors import ModelFileError

BIAS = BlobProto(num=1, channels=1, height=1, width=2, data=[7, 8])


def v0_layer(bottom="", top="", **settings):
    layer = V1LayerParameter(layer=V0LayerParameter(**settings))
    layer.bottom.extend(bottom.split())
    layer.top.extend(top.split())
    return layer


# --- opening --------------------------------------------------------------------------------------


def test_one_v0_layer_makes_it_a_net_of_v0(write, v0_net, v1_net, v2_net):
    """As in Caffe, V2 layers are dropped, and so are name, type and blobs of V1 layers."""
    v0_net.layers.append(v1_net.layers[0])
    v0_net.layer.extend(v2_net.layer)
    net = open_model(write(v0_net))
    assert net.version == 0
    last = net.layers[-1]
    assert (last.name, last.type, last.bottoms, len(last.blobs)) == ("", "", ("data",), 0)
    upgraded = upgrade_net(v0_net)
    assert [layer.name for layer in upgraded.layer] == ["input", *net]
    assert [layer.type for layer in upgraded.layer[1:]] == [layer.type for layer in net.layers]


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (
            [v0_layer("x", "p", type="padding"), v0_layer("p", "y", name="a", type="relu")],
            "expected a layer of type 'conv' or 'pool' after a padding layer, got 'relu'",
        ),
        (
            [v0_layer("x", "p", type="padding"), v0_layer("p q", "y", name="a", type="conv")],
            "expected one bottom of the 'conv' layer, .* got 2, 1 and 1",
        ),
        (
            [v0_layer("x y", "p", type="padding"), v0_layer("p", "y", name="a", type="pool")],
            "got 1, 2 and 1",
        ),
        (
            [v0_layer("x", "p", type="padding"), v0_layer("p", "q", name="a", type="padding")],
            "after a padding layer, got 'padding'",
        ),
        (
            [v0_layer(name="a", type="unheard of", blobs=[BIAS])],
            "expected one of the types .* got 'unheard of",
        ),
    ],
)
def test_what_caffe_does_not_upgrade(write, layers, words):
    net = NetParameter(layers=layers)
    with pytest.raises(ModelFileError, match=f"layer 'a': .*{words}"):
        open_model(write(net))
    with pytest.raises(ValueError, match=f"layer 'a': .*{words}"):
        upgrade_net(net)


def test_damage_in_what_is_dropped_is_found(write, v0_net):
    layer = b"\x3a\x03\x2a\x01\x00"  # a blob with a float of one byte
    content = v0_net.SerializeToString() + b"\xa2\x06" + bytes([len(layer)]) + layer
    with pytest.raises(ModelFileError, match="1 bytes, which is not a whole number"):
        open_model(write(content))


# --- upgrading ------------------------------------------------------------------------------------


def upgraded(text):
    return upgrade_net(text_format.Parse(text, NetParameter()))


def expect(net, text):
    assert net == text_format.Parse(text, NetParameter())


# A V0 layer, and what becomes of it.
FIRST_FORMAT = """
conv num_output: 2 biasterm: false pad: 1 kernelsize: 3 group: 2 stride: 4
    weight_filler { type: "x" } bias_filler { value: 1 }
Convolution convolution_param { num_output: 2 bias_term: false pad: 1 kernel_size: 3 group: 2
    stride: 4 weight_filler { type: "x" } bias_filler { value: 1 } }

innerproduct num_output: 2 biasterm: false
InnerProduct inner_product_param { num_output: 2 bias_term: false }

pool pool: STOCHASTIC kernelsize: 3 stride: 2 pad: 1
Pooling pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 2 pad: 1 }

dropout dropout_ratio: 0.25
Dropout dropout_param { dropout_ratio: 0.25 }

lrn local_size: 3 alpha: 2 beta: 3 k: 4
LRN lrn_param { local_size: 3 alpha: 2 beta: 3 k: 4 }

data source: "s" batchsize: 2 rand_skip: 3 scale: 4 meanfile: "m" cropsize: 5 mirror: true
Data data_param { source: "s" batch_size: 2 rand_skip: 3 }
    transform_param { scale: 4 mean_file: "m" crop_size: 5 mirror: true }

images source: "s" batchsize: 2 rand_skip: 3 shuffle_images: true new_height: 4 new_width: 5
ImageData image_data_param { source: "s" batch_size: 2 rand_skip: 3 shuffle: true new_height: 4
    new_width: 5 }

window_data source: "s" batchsize: 2 det_fg_threshold: 1 det_bg_threshold: 2 det_fg_fraction: 3
    det_context_pad: 4 det_crop_mode: "square"
WindowData window_data_param { source: "s" batch_size: 2 fg_threshold: 1 bg_threshold: 2
    fg_fraction: 3 context_pad: 4 crop_mode: "square" }

hdf5_data source: "s" batchsize: 2
HDF5Data hdf5_data_param { source: "s" batch_size: 2 }

hdf5_output hdf5_output_param { file_name: "f" }
HDF5Output hdf5_output_param { file_name: "f" }

infogain_loss source: "s"
InfogainLoss infogain_loss_param { source: "s" }

concat concat_dim: 2
Concat concat_param { concat_dim: 2 }

softmax_loss
SoftmaxWithLoss

relu num_output: 2 kernelsize: 3 pool: AVE source: "s"
ReLU
"""


@pytest.mark.parametrize("pair", FIRST_FORMAT.strip().split("\n\n"))
def test_settings_of_the_first_format(pair):
    """Settings that the type does not have are dropped."""
    (kind, settings), (new_kind, expected) = (
        part.partition(" ")[::2] for part in re.split(r"\n(?! )", pair)
    )
    net = upgraded(
        f"name: 'net' layers {{ bottom: 'b' top: 't' "
        f"layer {{ name: 'n' type: '{kind}' {settings} blobs_lr: 3 weight_decay: 4 }} }}"
    )
    expect(
        net,
        f"name: 'net' layer {{ name: 'n' bottom: 'b' top: 't' type: '{new_kind}' {expected} "
        f"param {{ lr_mult: 3 decay_mult: 4 }} }}",
    )


def test_the_second_format():
    net = upgraded(
        "force_backward: true layers { name: 'n' type: CONVOLUTION bottom: 'b' top: 't' "
        "param: 'p' param: 'q' blob_share_mode: PERMISSIVE blobs_lr: 1 blobs_lr: 2 blobs_lr: 3 "
        "weight_decay: 0 loss_weight: 5 include { phase: TEST } exclude { min_level: 1 } "
        "blobs { num: 1 data: 7 } convolution_param { num_output: 2 } loss_param { ignore_label: 1}"
        "}"
    )
    expect(
        net,
        "force_backward: true layer { name: 'n' type: 'Convolution' bottom: 'b' top: 't' "
        "param { name: 'p' share_mode: PERMISSIVE lr_mult: 1 decay_mult: 0 } "
        "param { name: 'q' lr_mult: 2 } param { lr_mult: 3 } loss_weight: 5 "
        "include { phase: TEST } exclude { min_level: 1 } blobs { num: 1 data: 7 } "
        "convolution_param { num_output: 2 } loss_param { ignore_label: 1 } }",
    )


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("DATA", "data_param"),
        ("IMAGE_DATA", "image_data_param"),
        ("WINDOW_DATA", "window_data_param"),
    ],
)
def test_how_images_are_transformed_moves(kind, settings):
    net = upgraded(
        f"layers {{ type: {kind} {settings} {{ source: 's' scale: 2 mean_file: 'm' crop_size: 3 "
        f"mirror: true }} }}"
    )
    (layer,) = net.layer
    expect(
        net,
        f"layer {{ type: '{layer.type}' {settings} {{ source: 's' }} "
        f"transform_param {{ scale: 2 mean_file: 'm' crop_size: 3 mirror: true }} }}",
    )


def test_every_setting_of_the_second_format_has_a_place():
    fields = {field.name for field in V1LayerParameter.DESCRIPTOR.fields}
    current = {field.name for field in NetParameter().layer.add().DESCRIPTOR.fields}
    assert fields - current == {"layer", "blobs_lr", "weight_decay", "blob_share_mode"}


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ("input: 'a'", "layer { name: 'n' }"),
        (
            "input: 'a' input: 'b' input_dim: [1, 2, 3, 4, 5, 6, 7, 8]",
            (
                "layer { name: 'input' type: 'Input' top: 'a' top: 'b' input_param { "
                "shape { dim: [1, 2, 3, 4] } shape { dim: [5, 6, 7, 8] } } } layer { name: 'n' }"
            ),
        ),
        (
            "input: 'a' input_shape { dim: [1, 2] }",
            (
                "layer { name: 'input' type: 'Input' top: 'a' "
                "input_param { shape { dim: [1, 2] } } } layer { name: 'n' }"
            ),
        ),
    ],
)
def test_inputs_become_a_layer(inputs, expected):
    expect(upgraded(f"{inputs} layer {{ name: 'n' }}"), expected)


@pytest.mark.parametrize(
    "inputs",
    ["input: 'a' input: 'b' input_shape { dim: 1 }", "input: 'b' input_dim: [1, 2, 3]"],
)
def test_an_input_without_a_shape(inputs):
    with pytest.raises(ValueError, match=r"expected a shape for each input .* none for 'b'"):
        upgraded(inputs)


def test_batch_norm_is_not_trained_by_its_specs():
    layer = "layer {{ type: 'BatchNorm' {} }}"
    three = "param { lr_mult: 1 } param { name: 'p' decay_mult: 3 } param {}"
    zero = "lr_mult: 0 decay_mult: 0"
    expect(
        upgraded(layer.format(three)),
        layer.format(f"param {{ {zero} }} param {{ name: 'p' {zero} }} param {{ {zero} }}"),
    )
    two = layer.format("param { lr_mult: 1 } param { lr_mult: 2 }")
    expect(upgraded(two), two)


def test_a_current_net_stays_as_it_is(v2_net):
    before = v2_net.SerializeToString()
    assert upgrade_net(v2_net).SerializeToString() == before
    assert v2_net.SerializeToString() == before


def test_upgrading_leaves_the_net_as_it_was(v0_net):
    before = v0_net.SerializeToString()
    upgrade_net(v0_net)
    assert v0_net.SerializeToString() == before
