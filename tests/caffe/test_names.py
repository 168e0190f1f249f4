"""The names that the journal and `explain` show of the Blobs of a model."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from syncblob import Blob, record_transfers
from syncblob.caffe import Layer, ModelFile, open_model
from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape, LayerParameter, NetParameter
from syncblob.devices import use_device
from syncblob.memory import Head


def names(layer):
    return [blob.name for blob in layer.blobs]


def array():
    return np.ones(2, np.float32)


@pytest.fixture
def model():
    return ModelFile(
        "net", [Layer("conv1", blobs=[array(), array()]), Layer("ip", blobs=[array()])]
    )


def test_those_of_a_file(write, v2_net, v1_net):
    model = open_model(write(v2_net))
    assert names(model["conv1"]) == ["conv1[0]", "conv1[1]"]
    assert names(model["ip"]) == ["ip[0]"]
    (blob,) = model["ip"].blobs
    assert {blob.head, blob.diff_head} == {Head.UNINITIALIZED}
    assert blob.diff.name == "ip[0]"
    assert names(open_model(write(v1_net))["conv1"]) == ["conv1[0]"]


def test_those_of_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py, which reads HDF5, is missing")
    path = tmp_path / "net.h5"
    with h5py.File(path, "w") as file:
        file["data/conv1/3x3/0"] = array()
    (layer,) = open_model(path).layers
    assert names(layer) == ["conv1/3x3[0]"]


def test_they_are_seen(write, v2_net):
    with use_device("simulated"):
        model = open_model(write(v2_net))
    weights, bias = model["conv1"].blobs
    with record_transfers() as log:
        weights.gpu_data()
        bias[:1].gpu_data()
        weights.diff.mutable_cpu_data()[...] = 1
        weights.gpu_diff()
    assert [transfer.name for transfer in log] == ["conv1[0]", "conv1[1]", "conv1[0]"]
    assert "upload of 24 bytes of conv1[0] for gpu_data" in str(log[0])
    assert weights.explain().title == "Blob 'conv1[0]' of shape (2, 3), float32, 24 bytes"


def test_renaming(model):
    layer = model["conv1"]
    layer.blobs[0].diff[...] = 1
    model.rename("conv1", "first")
    assert names(layer) == ["first[0]", "first[1]"]
    assert layer.blobs[0].diff.name == "first[0]"
    model.rename("first", "")
    assert names(layer) == ["", ""]
    model.rename("", "conv1")
    assert names(layer) == ["conv1[0]", "conv1[1]"]


def test_editing(model):
    blobs = model["conv1"].blobs
    first, second = blobs
    blobs[1] = array()
    blobs.append(array())
    assert names(model["conv1"]) == ["conv1[0]", "conv1[1]", "conv1[2]"]
    assert second.name == "conv1[1]"  # as long as there is one of that name no more than before
    del blobs[0]
    assert names(model["conv1"]) == ["conv1[0]", "conv1[1]"]
    blobs.insert(0, array())
    assert names(model["conv1"]) == ["conv1[0]", "conv1[1]", "conv1[2]"]
    assert first.name == "conv1[0]"
    blobs.assign([array()])
    assert names(model["conv1"]) == ["conv1[0]"]
    model["conv1"].replace_blob(0, np.ones(3, np.float32), resize=True)
    assert names(model["conv1"]) == ["conv1[0]"]


def test_names_of_the_users_own_stay(model):
    mine = Blob(2, name="mine")
    model["conv1"].blobs[0] = mine
    model.rename("conv1", "first")
    assert names(model["first"]) == ["mine", "first[1]"]


def test_a_layer_without_a_name_gives_none():
    assert names(Layer("", blobs=[array()])) == [""]


def test_shared_blobs_keep_their_first_name(model):
    other = copy.copy(model)
    model["again"] = model["conv1"]
    assert names(model["again"]) == names(other["conv1"]) == ["conv1[0]", "conv1[1]"]


def test_copies_and_pickles(write, v2_net, model):
    for made in (open_model(write(v2_net)), model):
        for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert names(again["conv1"]) == ["conv1[0]", "conv1[1]"]


def test_weights_for_a_definition():
    net = ModelFile.from_net(
        NetParameter(layer=[LayerParameter(name="ip"), LayerParameter(name="x")])
    )
    source = ModelFile("", [Layer("ip", blobs=[Blob((1, 1, 2))])])
    net.copy_trained_layers_from(source)
    assert names(net["ip"]) == ["ip[0]"]
    proto = LayerParameter(name="y", blobs=[BlobProto(shape=BlobShape(dim=[1]), data=[1])])
    assert names(Layer.from_proto(proto)) == ["y[0]"]


def test_what_cannot_be_printed_is_escaped(write):
    """A name out of a file must not control the terminal that the journal is shown in."""
    blob = BlobProto(shape=BlobShape(dim=[1]), data=[1])
    path = write(NetParameter(layer=[LayerParameter(name="a\x1b[31m\n", blobs=[blob])]))
    assert names(open_model(path).layers[0]) == ["a\\x1b[31m\\n[0]"]
    content = b"\x0a\x01\xe9" + b"\x3a\x09" + b"\x3a\x02\x08\x01\x2d\x00\x00\x80\x3f"
    path = write(b"\xa2\x06" + bytes([len(content)]) + content)
    assert names(open_model(path).layers[0]) == ["\\udce9[0]"]
