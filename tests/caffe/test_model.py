"""Models that are opened and edited."""

import copy
import os
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

from syncblob._blob import Blob
from syncblob.caffe import (
    Layer,
    ModelFile,
    open_model,
    save_model,
    save_solver_state,
    write_blob,
    write_prototxt,
)
from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetParameter
from syncblob.caffe.convert import from_tensors, to_tensors
from syncblob.caffe.messages.values import Runs
from syncblob.formats import memory_of
from syncblob.memory import Head


@pytest.fixture
def reads(monkeypatch):
    """The arrays of each read of values from a file."""
    calls = []
    read_into = Runs.read_into

    def spy_read_into(self, file, target, **part):
        calls.append(target)
        read_into(self, file, target, **part)

    monkeypatch.setattr(Runs, "read_into", spy_read_into)
    return calls


# --- lazy reading ---------------------------------------------------------------------------------


def test_opening_reads_no_values_and_the_host_side_is_read_into(write, reads, v2_net):
    net = open_model(write(v2_net))
    blobs = [blob for layer in net.layers for blob in layer.blobs]
    assert {blob.head for blob in blobs} == {Head.UNINITIALIZED}
    repr(net)
    assert reads == []
    weights, bias = net["conv1"].blobs
    for _ in range(2):
        assert np.shares_memory(weights.cpu_data(), reads[0])
    assert len(reads) == 1
    assert (weights.head, bias.head) == (Head.HEAD_AT_CPU, Head.UNINITIALIZED)


def test_closing(write, v2_net):
    with open_model(write(v2_net)) as net:
        weights, bias = net["conv1"].blobs
        weights.cpu_data()
    assert weights.cpu_data().sum() == 15
    with pytest.raises(ValueError, match=r"net\.caffemodel was closed before this part of it was"):
        bias.cpu_data()
    assert bias.head is Head.UNINITIALIZED
    net.close()
    assert list(net) == ["data", "conv1", "ip"]


# --- editing -------------------------------------------------------------------------------------


@pytest.fixture
def model(write, v2_net):
    return open_model(write(v2_net))


def names(model):
    return [layer.name for layer in model.layers]


# --- blobs ----------------------------------------------------------------------------------------


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


def test_of_several_layers_of_one_name_the_first_is_edited():
    model = ModelFile("n", [Layer("a", "First"), Layer("b"), Layer("a", "Second")])
    assert (model["a"].type, len(model)) == ("First", 2)
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


def test_the_message_of_a_layer_made_by_hand():
    layer = Layer("ip", "InnerProduct", ["a"], ["b"], [[1.0]])
    expected = LayerParameter(name="ip", type="InnerProduct", bottom=["a"], top=["b"])
    assert layer.proto == expected
    assert repr(Layer("x")) == "<Layer 'x' of no type, blobs: none>"


# --- wrong arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: save_model(Blob(3), "x"), "expected a ModelFile, got Blob; write_blob"),
        (lambda: write_blob(ModelFile(), "x"), "got ModelFile; save_model writes a model"),
        (lambda: write_blob("x", Blob(2)), "expected a Blob or an array, then the path, got str"),
        (lambda: save_solver_state(ModelFile(), "x"), "a SolverState, got ModelFile; save_model"),
        (lambda: write_prototxt(ModelFile(), "x"), r"a NetParameter message, got .*to_net\(\)"),
        (lambda: write_prototxt(LayerParameter(), "x"), "a NetParameter message, got LayerParam"),
        (lambda: ModelFile.from_net("x.prototxt"), "NetParameter message, got str.*read_prototxt"),
        (lambda: ModelFile.from_net(LayerParameter()), "NetParameter message, got LayerParameter"),
        (lambda: ModelFile.from_net(NetParameter(), stages="ab"), r"in a list: \['ab'\]"),
        (lambda: to_tensors("x.caffemodel"), "a ModelFile, got str"),
        (lambda: from_tensors([np.ones(2)]), r"expected a Mapping, got list; .*state_dict\(\)"),
        (lambda: Layer("x", bottoms="a"), r"a list of names as bottoms, got 'a'; .*\['a'\]"),
        (lambda: Layer("x", tops="a"), r"a list of names as tops, got 'a'; .*\['a'\]"),
        (lambda: Layer("x", blobs=Blob((2, 3))), r"blobs of layer 'x', got Blob; put it in a list"),
        (lambda: Layer.from_proto("x"), "expected a LayerParameter message, got str; layer.proto"),
        (lambda: ModelFile([Layer("a")]), "expected a str, got list; ModelFile"),
        (lambda: ModelFile("n", Layer("a")), r"a list of layers, got Layer; .*\[Layer\]"),
        (lambda: ModelFile("n", ["a"]), "expected a Layer, got str"),
        (lambda: ModelFile().copy_trained_layers_from(3), "expected the path of a file.* got int"),
        (
            lambda: open_model(b"\x0a"),
            "the path of a file, a str or os.PathLike, .*got bytes; put contents",
        ),
    ],
)
def test_what_no_model_or_layer_can_be_made_of(make, words):
    with pytest.raises(TypeError, match=words):
        make()


@pytest.mark.parametrize("layers", ["", 'layer { name: "" type: "ReLU" }'])
def test_empty_names_survive(tmp_path, layers):
    net = text_format.Parse('name: "" debug_info: true ' + layers, NetParameter())
    model = ModelFile.from_net(net)
    assert model.to_net() == net
    save_model(model, tmp_path / "x.caffemodel")
    again = open_model(tmp_path / "x.caffemodel")
    assert again.to_net() == net
    again.name = "x"
    save_model(again, tmp_path / "y.caffemodel")
    assert open_model(tmp_path / "y.caffemodel").to_net().name == "x"
    model.name = "z"
    save_model(model, tmp_path / "y.caffemodel")
    assert open_model(tmp_path / "y.caffemodel").name == "z"


def is_open(path):
    return any(link.resolve() == path for link in Path("/proc/self/fd").iterdir())


def test_a_model_that_was_read_keeps_no_file_open_and_is_copied_from_it(write, v2_net, tmp_path):
    path = write(v2_net)
    model = open_model(path)
    assert is_open(path)
    for layer in model.layers:
        for blob in layer.blobs:
            blob.cpu_data()
            if memory_of(blob, diff=True) is not None:
                blob.diff.cpu_data()
    assert not is_open(path)
    save_model(model, tmp_path / "again.caffemodel")
    assert (tmp_path / "again.caffemodel").read_bytes() == path.read_bytes()
    assert not is_open(path)
    os.utime(path, ns=(1, 1))
    save_model(model, tmp_path / "new.caffemodel")  # from memory
    assert [*open_model(tmp_path / "new.caffemodel")] == [*model]


def test_a_copy_shares_the_open_file_and_is_closed_on_its_own(write, v2_net):
    path = write(v2_net)
    model = open_model(path)
    twin = copy.deepcopy(model)
    model.close()
    assert is_open(path)
    twin.close()
    assert not is_open(path)
