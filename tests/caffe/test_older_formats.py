"""Nets of Caffe's older formats: their contents and their upgrades."""

import pytest
from google.protobuf import text_format

from syncblob.caffe import open_model
from syncblob.caffe._pb.caffe_pb2 import BlobProto, NetParameter, V1LayerParameter
from syncblob.caffe.messages.upgrade_old_nets import DATA_LAYERS, V1_LAYER_TYPES, upgrade_net
from syncblob.errors import ModelFileError

BIAS = BlobProto(num=1, channels=1, height=1, width=2, data=[7, 8])


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ({"layers": [{"layer": {"name": "a", "blobs": [BIAS]}}]}, "V0.* upgrade_net_proto_binary"),
        ({"layers": [{}], "layer": [{}]}, "layers of two formats, 'layers' and 'layer'"),
    ],
)
def test_what_is_refused(write, layers, words):
    net = NetParameter(**layers)
    with pytest.raises(ModelFileError, match=words):
        open_model(write(net))
    with pytest.raises(ValueError, match=words):
        upgrade_net(net)


# --- upgrading ------------------------------------------------------------------------------------


def upgraded(text):
    return upgrade_net(text_format.Parse(text, NetParameter()))


def expect(net, text):
    assert net == text_format.Parse(text, NetParameter())


def test_the_previous_format():
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


@pytest.mark.parametrize("kind", ["Data", "ImageData", "WindowData"])
def test_how_images_are_transformed_moves(kind):
    number = {name: number for number, name in V1_LAYER_TYPES.items()}[kind]
    settings, moved = DATA_LAYERS[kind], "scale: 2 mean_file: 'm' crop_size: 3 mirror: true"
    expect(
        upgraded(f"layers {{ type: {number} {settings} {{ source: 's' {moved} }} }}"),
        f"layer {{ type: '{kind}' {settings} {{ source: 's' }} transform_param {{ {moved} }} }}",
    )


def test_every_setting_of_the_previous_format_has_a_place():
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
    "inputs", ["input: 'a' input: 'b' input_shape { dim: 1 }", "input: 'b' input_dim: [1, 2, 3]"]
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


def test_upgrading_leaves_the_net_as_it_was(v1_net, v2_net):
    for net in v1_net, v2_net:
        before = net.SerializeToString()
        assert (upgrade_net(net).SerializeToString() == before) is (net is v2_net)
        assert net.SerializeToString() == before
