"""Nets of Caffe's older formats: their contents and their upgrades."""

import pytest
from google.protobuf import text_format

from syncblob.caffe import open_model
from syncblob.caffe._pb.caffe_pb2 import BlobProto, NetParameter, V0LayerParameter, V1LayerParameter
from syncblob.caffe.messages.upgrade_old_nets import upgrade_net
from syncblob.errors import ModelFileError

BIAS = BlobProto(num=1, channels=1, height=1, width=2, data=[7, 8])


V0 = NetParameter(layers=[V1LayerParameter(layer=V0LayerParameter(name="a", blobs=[BIAS]))])


def test_the_first_format_is_refused(write):
    with pytest.raises(ModelFileError, match=r"format V0.* upgrade_net_proto_binary"):
        open_model(write(V0))
    with pytest.raises(ValueError, match="format V0"):
        upgrade_net(V0)


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


def test_a_current_net_stays_as_it_is(v2_net):
    before = v2_net.SerializeToString()
    assert upgrade_net(v2_net).SerializeToString() == before
    assert v2_net.SerializeToString() == before


def test_upgrading_leaves_the_net_as_it_was(v1_net):
    before = v1_net.SerializeToString()
    upgrade_net(v1_net)
    assert v1_net.SerializeToString() == before
