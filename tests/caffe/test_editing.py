"""A model as a mapping of layers: replacing, adding, renaming and removing."""

from __future__ import annotations

import numpy as np
import pytest

from syncblob.blob import Blob
from syncblob.caffe import Layer, LayerBlobs, ModelFile, open_model
from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape, LayerParameter


@pytest.fixture
def model(write, v2_net):
    return open_model(write(v2_net))


def names(model):
    return [layer.name for layer in model.layers]


# --- blobs ----------------------------------------------------------------------------------------


def test_replacing_a_blob_leaves_the_old_one_alone(model):
    old = model["conv1"].blobs[0]
    model["conv1"].blobs[0] = np.full((2, 3), 7, np.float32)
    new = model["conv1"].blobs[0]
    assert isinstance(new, Blob)
    assert new.cpu_data().tolist() == [[7, 7, 7], [7, 7, 7]]
    assert old.cpu_data().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_blob_is_put_in_as_it_is(model):
    blob = Blob((2, 3), "float64")
    model["conv1"].blobs[-2] = blob
    assert model["conv1"].blobs[0] is blob


def test_arrays_of_torch(model):
    torch = pytest.importorskip("torch")
    tensor = torch.full((2,), 5.0)
    model["conv1"].blobs[1] = tensor
    tensor[0] = 6
    assert model["conv1"].blobs[1].cpu_data().tolist() == [6, 5]


def test_a_list_gets_the_dtype_of_the_blob_that_it_replaces(model):
    model["conv1"].blobs[1] = [1, 2]
    assert model["conv1"].blobs[1].dtype == np.float32
    model["conv1"].replace_blob(1, (3, 4, 5), resize=True)
    assert model["conv1"].blobs[1].dtype == np.float32
    assert model["conv1"].blobs[1].tolist() == [3, 4, 5]


def test_integers_do_not_replace_floats(model):
    old = model["conv1"].blobs[1]
    with pytest.raises(
        TypeError,
        match=r"'conv1', blob 1: expected floats, as float32, got int64.*astype\('float32'\)",
    ):
        model["conv1"].blobs[1] = np.ones(2, np.int64)
    assert model["conv1"].blobs[1] is old


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"bottoms": "data"}, r"a list of names as bottoms, got the string 'data'.*\['data'\]"),
        ({"tops": "a"}, r"a list of names as tops, got the string 'a'.*\['a'\]"),
        ({"blobs": np.ones((2, 3))}, r"'x': expected a list of arrays.*\(2, 3\).*\[array\]"),
        ({"blobs": Blob((2, 3))}, r"'x': expected a list of arrays.*\(2, 3\).*\[array\]"),
    ],
)
def test_one_instead_of_a_list(arguments, words):
    with pytest.raises(TypeError, match=words):
        Layer("x", **arguments)


def test_another_shape_must_be_meant(model):
    layer = model["conv1"]
    with pytest.raises(
        ValueError,
        match=r"layer 'conv1', blob 0: expected shape \(2, 3\), got \(3, 2\); replace_blob",
    ):
        layer.blobs[0] = np.zeros((3, 2), np.float32)
    assert layer.blobs[0].shape == (2, 3)
    layer.replace_blob(0, np.zeros((3, 2), np.float32), resize=True)
    assert layer.blobs[0].shape == (3, 2)


@pytest.mark.parametrize("index", [2, -3])
def test_a_blob_that_is_not_there_cannot_be_replaced(model, index):
    with pytest.raises(IndexError, match=rf"'conv1' has 2 blobs, got index {index}; append"):
        model["conv1"].replace_blob(index, [1.0], resize=True)


def test_adding_and_removing_blobs(model):
    blobs = model["conv1"].blobs
    blobs.append([1.0, 2.0])
    assert [blob.shape for blob in blobs] == [(2, 3), (2,), (2,)]
    del blobs[0]
    blobs.insert(0, np.zeros(4, np.float32))
    assert [blob.shape for blob in blobs[:2]] == [(4,), (2,)]
    with pytest.raises(TypeError, match="one by one"):
        blobs[:2] = [[1.0], [2.0]]
    blobs.clear()
    assert len(blobs) == 0


# --- layers ---------------------------------------------------------------------------------------


def test_replacing_a_layer_keeps_its_place(model):
    layer = Layer("other", "Scale", blobs=[[1.0, 2.0]])
    model["conv1"] = layer
    assert names(model) == ["data", "conv1", "ip"]
    assert model["conv1"].type == "Scale"
    assert model["conv1"].blobs[0] is layer.blobs[0]
    assert layer.name == "other"


def test_a_new_name_comes_last(model):
    model["new"] = model["conv1"]
    assert names(model) == ["data", "conv1", "ip", "new"]
    model["new"].blobs.clear()
    assert len(model["conv1"].blobs) == 2


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({}, ["data", "conv1", "ip", "new"]),
        ({"before": "data"}, ["new", "data", "conv1", "ip"]),
        ({"after": "conv1"}, ["data", "conv1", "new", "ip"]),
    ],
)
def test_adding_a_layer(model, place, expected):
    model.add(Layer("new", "Bias", ["conv1"], ["new"], [[0.0, 0.0]]), **place)
    assert names(model) == list(model) == expected
    assert (model["new"].bottoms, model["new"].tops) == (("conv1",), ("new",))


def test_what_cannot_be_added(model):
    with pytest.raises(ValueError, match="there is a layer 'ip' already"):
        model.add(Layer("ip"))
    with pytest.raises(KeyError, match="has no layer 'conv9'"):
        model.add(Layer("new"), after="conv9")
    with pytest.raises(ValueError, match="expected one of before and after"):
        model.add(Layer("new"), before="ip", after="ip")
    for wrong in ([np.zeros(2)], None):
        with pytest.raises(TypeError, match="expected a Layer, got"):
            model["new"] = wrong
        with pytest.raises(TypeError, match="expected a Layer, got"):
            model.add(wrong)
    assert names(model) == ["data", "conv1", "ip"]


def test_renaming(model):
    layer = model["conv1"]
    model.rename("conv1", "first")
    assert list(model) == ["data", "first", "ip"]
    assert model["first"] is layer
    assert layer.name == layer.proto.name == "first"
    model.rename("first", "first")
    with pytest.raises(ValueError, match="cannot rename layer 'first': there is a layer 'ip'"):
        model.rename("first", "ip")
    with pytest.raises(KeyError, match="has no layer 'conv1'"):
        model.rename("conv1", "x")
    with pytest.raises(ValueError, match="layer 'first', blob 1"):
        layer.blobs[1] = [1.0]


def test_removing(model):
    del model["conv1"]
    assert list(model) == ["data", "ip"]
    with pytest.raises(KeyError, match="has no layer 'conv1'"):
        del model["conv1"]
    model.clear()
    assert model.layers == ()


def test_of_several_layers_of_one_name_the_first_is_edited():
    model = ModelFile("n", [Layer("a", "First"), Layer("b"), Layer("a", "Second")])
    model["a"] = Layer("a", "New")
    assert [layer.type for layer in model.layers] == ["New", "", "Second"]
    del model["a"]
    assert names(model) == ["b", "a"]
    assert model["a"].type == "Second"


def test_a_model_made_from_nothing():
    model = ModelFile()
    assert (model.name, model.path, model.version, dict(model)) == ("", "", 2, {})
    with pytest.raises(KeyError, match="the model has no layer 'a'"):
        model["a"]
    with model:
        model.add(Layer("a"))
    assert list(model) == ["a"]


# --- settings -------------------------------------------------------------------------------------


def test_the_message_of_a_layer_has_its_settings_without_its_blobs(write, v2_net):
    settings = v2_net.layer[1]
    settings.convolution_param.num_output = 2
    model = open_model(write(v2_net))
    settings.ClearField("blobs")
    assert model["conv1"].proto == settings
    assert model["conv1"].proto is model["conv1"].proto


def test_the_message_of_a_layer_made_by_hand():
    layer = Layer("ip", "InnerProduct", ["a"], ["b"], [[1.0]])
    expected = LayerParameter(name="ip", type="InnerProduct", bottom=["a"], top=["b"])
    assert layer.proto == expected


def test_a_layer_made_of_a_message():
    blob = BlobProto(shape=BlobShape(dim=[2]), data=[1, 2])
    proto = LayerParameter(name="x", type="Scale", bottom=["a"], top=["b"], blobs=[blob])
    proto.scale_param.axis = 3
    layer = Layer.from_proto(proto)
    assert (layer.name, layer.type, layer.bottoms, layer.tops) == ("x", "Scale", ("a",), ("b",))
    assert [blob.tolist() for blob in layer.blobs] == [[1, 2]]
    proto.ClearField("blobs")
    assert layer.proto == proto
    assert len(Layer.from_proto(proto).blobs) == 0
    assert Layer.from_proto(proto, [[4.0]]).blobs[0].tolist() == [4]
    with pytest.raises(TypeError, match="expected a LayerParameter message, got BlobProto"):
        Layer.from_proto(blob)


def test_a_setting_is_changed_by_replacing_the_layer(model):
    proto = model["conv1"].proto
    proto.convolution_param.pad.append(1)
    model["conv1"] = Layer.from_proto(proto, model["conv1"].blobs)
    assert list(model["conv1"].proto.convolution_param.pad) == [1]
    assert model["conv1"].blobs[1].cpu_data().tolist() == [0, 1]


def test_blobs_are_a_mutable_sequence():
    blobs = LayerBlobs("x", [[1.0], [2.0]])
    blobs.reverse()
    assert [blob.tolist() for blob in blobs] == [[2], [1]]
    assert blobs.pop().tolist() == [1]


# --- what is none ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Layer.from_proto("x"), "expected a LayerParameter message, got str; layer.proto"),
        (lambda: ModelFile([Layer("a")]), r"expected the name of the net.* got list as the name"),
        (
            lambda: ModelFile("n", Layer("a")),
            r"a list of layers, got one Layer.*\[layer\]",
        ),
        (lambda: ModelFile("n", ["a"]), "expected a Layer, got str"),
        (lambda: ModelFile().copy_trained_layers_from(3), "expected the path of a file.* got int"),
        (lambda: open_model(b"\x0a"), "the path of a file, a str or os.PathLike, got bytes; write"),
    ],
)
def test_what_no_model_or_layer_can_be_made_of(make, words):
    with pytest.raises(TypeError, match=words):
        make()
