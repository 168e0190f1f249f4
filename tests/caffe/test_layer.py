"""Editing layers, and the names of their Blobs."""

import copy
import pickle

import numpy as np
import pytest

from syncblob import Blob, record_transfers
from syncblob.caffe import Layer, ModelFile, open_model
from syncblob.caffe._pb.caffe_pb2 import (
    BlobProto,
    BlobShape,
    LayerParameter,
    NetParameter,
    V1LayerParameter,
)
from syncblob.devices import use_device
from syncblob.memory import Head

TYPES = V1LayerParameter.LayerType


def edit(layer):
    layer.type = "Deconvolution"
    layer.bottoms = ["image", "mask"]
    layer.tops = ("result",)


def outline(layer):
    return layer.name, layer.type, list(layer.bottom), list(layer.top)


def test_what_is_assigned_and_then_taken_back_changes_nothing(write, v1_net, saved):
    model = open_model(write(v1_net))
    layer = model["conv1"]
    before = layer.type, layer.bottoms, layer.tops
    edit(layer)
    layer.type, layer.bottoms, layer.tops = before
    assert saved(model) == v1_net


def test_what_was_not_there_is_added_and_what_was_is_taken_away(write, saved):
    net = NetParameter(layers=[V1LayerParameter(name="a", bottom=["x"], top=["y"])])
    net.layers.add(name="b", type=TYPES.RELU)
    model = open_model(write(net))
    model["a"].type, model["a"].bottoms, model["a"].tops = "ReLU", [], []
    model["b"].type, model["b"].bottoms, model["b"].tops = "", ["x"], ["y"]
    net = saved(model)
    assert [outline(layer) for layer in net.layer] == [
        ("a", "ReLU", [], []),
        ("b", "", ["x"], ["y"]),
    ]
    _, again = (layer.proto for layer in model.layers)
    assert not again.HasField("type")


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("bottoms", "data", r"a list of names as bottoms, got 'data'; .*\['data'\]"),
        ("tops", ["a", 1], "expected strings as tops of a layer, got 1"),
        ("type", None, "expected strings as the type of a layer, got None"),
    ],
)
def test_what_cannot_be_assigned(write, v2_net, attribute, value, words):
    layer = open_model(write(v2_net))["conv1"]
    before = getattr(layer, attribute)
    for _ in range(2):
        with pytest.raises(TypeError, match=words):
            setattr(layer, attribute, value)
        assert getattr(layer, attribute) == before
        assert layer.proto.type == "Convolution"


def test_the_name_is_changed_by_the_model(write, v2_net):
    model = open_model(write(v2_net))
    with pytest.raises(AttributeError, match=r"model\.rename\('conv1', 'first'\) changes it"):
        model["conv1"].name = "first"
    with pytest.raises(TypeError, match="expected strings as the name of a layer, got 1"):
        model.rename("conv1", 1)
    with pytest.raises(TypeError, match="expected strings as the name of a layer, got 1"):
        Layer(1)
    assert list(model) == ["data", "conv1", "ip"]


# --- settings -------------------------------------------------------------------------------------


def test_settings_that_a_fork_has_stay_with_those_that_are_changed(write, saved):
    fork = b"\xca\x3e\x03abc"
    net = NetParameter(layer=[LayerParameter.FromString(b"\x0a\x01a" + fork)])
    model = open_model(write(net))
    model["a"].proto.convolution_param.num_output = 3
    net.layer[0].convolution_param.num_output = 3
    assert saved(model) == net


def test_what_does_not_belong_into_the_message(write, v2_net, saved):
    model = open_model(write(v2_net))
    settings = model["conv1"].proto
    settings.name = "conv2"
    for use in (saved, ModelFile.to_net):
        with pytest.raises(ValueError, match=r"'conv1': .*got 'conv2'; model\.rename.*deepcopy"):
            use(model)
    model["conv2"] = Layer.from_proto(copy.deepcopy(settings))
    settings.name = "conv1"
    settings.blobs.add(data=[1])
    for use in (saved, ModelFile.to_net):
        with pytest.raises(ValueError, match=r"no blobs in its proto, got 1; .*layer\.blobs"):
            use(model)
    settings.ClearField("blobs")
    assert len(saved(model).layer) == 4


# --- names ---------------------------------------------------------------------------------------


def names(layer):
    return [blob.name for blob in layer.blobs]


def array():
    return np.ones(2, np.float32)


@pytest.fixture
def model():
    return ModelFile(
        "net", [Layer("conv1", blobs=[array(), array()]), Layer("ip", blobs=[array()])]
    )


def test_those_of_a_file_are_seen(write, v2_net, v1_net):
    assert names(open_model(write(v1_net))["conv1"]) == ["conv1[0]"]
    with use_device("simulated"):
        model = open_model(write(v2_net))
    weights, bias = model["conv1"].blobs
    assert {weights.head, weights.diff_head} == {Head.UNINITIALIZED}
    with record_transfers() as log:
        weights.gpu_data()
        bias[:1].gpu_data()
        weights.diff.mutable_cpu_data()[...] = 1
        weights.gpu_diff()
    assert [transfer.name for transfer in log] == ["conv1[0]", "conv1[1]", "conv1[0]"]
    assert "upload of 24 bytes of conv1[0] for gpu_data" in str(log[0])
    assert weights.explain().title == "Blob 'conv1[0]' of shape (2, 3), float32, 24 bytes"
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert names(again["conv1"]) == ["conv1[0]", "conv1[1]"]


def test_renaming(model):
    layer, mine = model["conv1"], Blob(2, name="mine")
    layer.blobs[0].diff[...] = 1
    model.rename("conv1", "first")
    assert names(layer) == ["first[0]", "first[1]"]
    assert layer.blobs[0].diff.name == "first[0]"
    model.rename("first", "")
    assert names(layer) == ["", ""]
    layer.blobs[0] = mine
    model.rename("", "conv1")
    assert names(layer) == ["mine", "conv1[1]"]


def test_editing(model):
    blobs, (first, second) = model["conv1"].blobs, model["conv1"].blobs
    other = copy.copy(model)
    model["again"] = model["conv1"]  # shared Blobs keep their first name
    assert names(model["again"]) == names(other["conv1"]) == ["conv1[0]", "conv1[1]"]
    blobs[1] = array()
    assert second.name == "conv1[1]"  # the replaced Blob keeps its name
    for edit_blobs, count in (
        (lambda: blobs.append(array()), 3),
        (lambda: blobs.pop(0), 2),
        (lambda: blobs.insert(0, array()), 3),
        (lambda: blobs.assign([array()]), 1),
        (lambda: model["conv1"].replace_blob(0, np.ones(3, np.float32), resize=True), 1),
    ):
        edit_blobs()
        assert names(model["conv1"]) == [f"conv1[{number}]" for number in range(count)]
    assert first.name == "conv1[0]"


def test_what_cannot_be_printed_is_escaped(write):
    """A name from a file must not control the terminal that shows the journal."""
    blob = BlobProto(shape=BlobShape(dim=[1]), data=[1])
    path = write(NetParameter(layer=[LayerParameter(name="a\x1b[31m\n", blobs=[blob])]))
    assert names(open_model(path).layers[0]) == ["a\\x1b[31m\\n[0]"]
    content = b"\x0a\x01\xe9" + b"\x3a\x09" + b"\x3a\x02\x08\x01\x2d\x00\x00\x80\x3f"
    path = write(b"\xa2\x06" + bytes([len(content)]) + content)
    assert names(open_model(path).layers[0]) == ["\N{REPLACEMENT CHARACTER}[0]"]


def test_integers_in_place_of_floats_are_refused_however_they_come():
    layer = Layer("ip", blobs=[np.ones((2, 2), np.float32), np.ones(2)])
    integers = np.array([3, 4], np.int32)

    def put_one():
        layer.blobs[1] = integers

    others = [np.zeros((2, 2)), integers]
    for put in (
        put_one,
        lambda: layer.blobs.assign(others),
        lambda: layer.blobs.assign(Layer("other", blobs=others).blobs),
    ):
        with pytest.raises(TypeError, match="layer 'ip', blob 1: expected floats, as float64, got"):
            put()
        assert [blob.tolist() for blob in layer.blobs] == [[[1, 1], [1, 1]], [1, 1]]
    # Python numbers have no dtype. After the last Blob there is no Blob to replace.
    layer.blobs.assign([[1, 2, 3], [4], integers])
    assert [blob.dtype for blob in layer.blobs] == [np.float32, np.float64, np.int32]
    layer.blobs.assign([])
    layer.blobs.assign([integers])
    assert layer.blobs[0].dtype == np.int32


def test_the_number_of_a_blob_that_is_not_there():
    layer = Layer("ip", blobs=[np.ones(2, np.float32)])
    for use in (layer.blobs.__getitem__, lambda index: layer.replace_blob(index, [1.0])):
        for index in (1, -2):
            with pytest.raises(IndexError, match=f"layer 'ip' has 1 blobs, got index {index}; app"):
                use(index)
    assert list(layer.blobs) == [layer.blobs[-1]]


def test_parameters_of_torch_are_refused():
    torch = pytest.importorskip("torch")
    layer = Layer("ip", blobs=[np.ones(2, np.float32)])
    parameter = torch.nn.Parameter(torch.zeros(2))
    for put in (
        lambda: layer.blobs.__setitem__(0, parameter),
        lambda: layer.blobs.insert(0, parameter),
        lambda: layer.blobs.assign([parameter]),
        lambda: Layer("ip", blobs=[parameter]),
    ):
        with pytest.raises(BufferError, match=r"tensor\.detach\(\)"):
            put()
    layer.blobs[0] = parameter.detach()
    assert layer.blobs[0].tolist() == [0, 0]


def test_blobs_are_added_in_place():
    layer = Layer("a", blobs=[np.ones(2)])
    blobs = layer.blobs
    layer.blobs += [np.zeros(3)]
    assert layer.blobs is blobs
    assert [blob.shape for blob in blobs] == [(2,), (3,)]
    with pytest.raises(AttributeError, match=r"layer\.blobs\.assign\(arrays\)"):
        layer.blobs = [np.ones(2)]
    assert len(layer.blobs) == 2
