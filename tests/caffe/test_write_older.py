"""Writing what was read from older formats and from forks of Caffe."""

from __future__ import annotations

import numpy as np
import pytest

from syncblob.caffe import Layer, open_model, save_model
from syncblob.caffe._pb.caffe_pb2 import (
    BlobProto,
    BlobShape,
    LayerParameter,
    NetParameter,
    V1LayerParameter,
)
from syncblob.memory import Head


def test_upgrading_writes_the_current_format(write, v1_net, saved):
    model = open_model(write(v1_net))
    net = saved(model, upgrade=True)
    assert not net.layers
    assert [(layer.name, layer.type) for layer in net.layer] == [
        ("conv1", "Convolution"),
        ("loss", "SoftmaxWithLoss"),
        ("untyped", ""),
    ]
    assert net.layer[0].blobs[0] == v1_net.layers[0].blobs[0]
    assert model["conv1"].blobs[0].head is Head.UNINITIALIZED


def test_a_layer_added_to_an_old_net_upgrades_it(write, v1_net, saved):
    v1_net.layers.append(V1LayerParameter(name="last", bottom=["l"]))
    model = open_model(write(v1_net))
    model.add(Layer("new", "Swish"))
    net = saved(model)
    assert not net.layers
    assert [layer.name for layer in net.layer] == ["conv1", "loss", "untyped", "last", "new"]


@pytest.fixture
def v0_net():
    """A net of the first format, whose padding layer belongs to the convolution."""
    net = NetParameter(name="first", input=["data"], input_dim=[1, 3, 8, 8])
    for name, kind, bottom, top in (
        ("pad1", "padding", "data", "pad1"),
        ("conv1", "conv", "pad1", "conv1"),
        ("relu1", "relu", "conv1", "conv1"),
    ):
        net.layers.add(bottom=[bottom], top=[top], layer={"name": name, "type": kind})
    net.layers[0].layer.pad = 2
    conv1 = net.layers[1].layer
    conv1.num_output, conv1.kernelsize = 2, 1
    conv1.blobs.add(num=2, channels=3, height=1, width=1, data=range(6))
    return net


def test_the_first_format_is_copied(write, v0_net, tmp_path):
    content = v0_net.SerializeToString()
    model = open_model(write(content))
    model["conv1"].blobs[0].mutable_cpu_data()
    save_model(model, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == content


@pytest.mark.parametrize("edit", ["blob", "remove", "rename", "upgrade"])
def test_an_edited_net_of_the_first_format_is_upgraded(write, v0_net, saved, edit):
    v0_net.input_shape.add(dim=[9])
    v0_net.layer.add(name="dropped")
    model = open_model(write(v0_net))
    if edit == "blob":
        model["conv1"].blobs[0].mutable_cpu_data()[0] = 7
    elif edit == "remove":
        del model["relu1"]
    elif edit == "rename":
        model.rename("relu1", "other")
    net = saved(model, upgrade=edit == "upgrade")
    assert (net.name, list(net.input), list(net.input_dim)) == ("first", ["data"], [1, 3, 8, 8])
    assert not net.layers
    assert not net.input_shape
    conv1 = net.layer[0]
    assert (conv1.name, conv1.type, conv1.bottom) == ("conv1", "Convolution", ["data"])
    assert conv1.convolution_param.pad == [2]
    expected = [7, 7, 7, 3, 4, 5] if edit == "blob" else [0, 1, 2, 3, 4, 5]
    assert list(conv1.blobs[0].data) == expected
    assert conv1.blobs[0].num == 2
    names = {"remove": [], "rename": ["other"]}.get(edit, ["relu1"])
    assert [layer.name for layer in net.layer[1:]] == names


# --- NVCaffe ------------------------------------------------------------------------------------


@pytest.fixture
def raw_net():
    """A net whose blob has its values in half precision, as raw bytes."""
    values = np.array([1, 2, 0.5], "<f2").tobytes()
    blob = BlobProto(shape=BlobShape(dim=[3]), raw_data_type=2, raw_data=values)
    return NetParameter(layer=[LayerParameter(name="a", blobs=[blob])])


@pytest.mark.parametrize("touched", [False, True])
def test_raw_values_are_copied(write, raw_net, saved, touched):
    model = open_model(write(raw_net))
    assert model["a"].blobs[0].dtype == np.float16
    if touched:
        model["a"].blobs[0].mutable_cpu_data()
    assert saved(model) == raw_net


def test_changed_raw_values_are_written_as_caffe_can_read_them(write, raw_net, saved):
    model = open_model(write(raw_net))
    model["a"].blobs[0].mutable_cpu_data()[0] = 7
    (blob,) = saved(model).layer[0].blobs
    assert blob == BlobProto(shape=BlobShape(dim=[3]), data=[7, 2, 0.5])
