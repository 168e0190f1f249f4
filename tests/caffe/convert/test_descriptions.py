"""Descriptions of the layers that are not text, and bfloat16 for PyTorch."""

from __future__ import annotations

import json
from base64 import b64encode

import numpy as np
import pytest

from syncblob import Layer, ModelFile, ModelFileError, open_model, save_model
from syncblob.caffe import NetParameter
from syncblob.caffe.convert import convert, open_weights
from syncblob.caffe.convert.structure import STRUCTURE

h5py = pytest.importorskip("h5py", reason="h5py, which reads HDF5, is missing")


@pytest.fixture
def with_description(tmp_path):
    """Write a file with one tensor and a description; return its path."""

    def write(description):
        path = tmp_path / "net.h5"
        with h5py.File(path, "w") as file:
            file["ip.weight"] = np.ones((2, 3), np.float32)
            file[STRUCTURE] = description
        return path

    return write


@pytest.mark.parametrize("description", [7, np.zeros(3)], ids=["a number", "an array"])
def test_what_is_no_text_is_no_description(with_description, description):
    with open_weights(with_description(description)) as weights:
        assert sorted(weights.tensors) == ["ip.weight", STRUCTURE]
        assert np.array_equal(weights.tensors[STRUCTURE], description)


@pytest.mark.parametrize("description", [b"", b"\xff\xfe"], ids=["nothing", "no UTF-8"])
def test_text_that_describes_nothing_is_damage(with_description, description):
    with pytest.raises(ModelFileError, match="description"):
        open_weights(with_description(np.bytes_(description)))


@pytest.mark.parametrize("name", ["data", "diff", STRUCTURE])
def test_tensors_named_as_the_entries_of_caffes_layout(tmp_path, name):
    np.savez(tmp_path / "net.npz", **{name: np.ones(2, np.float32)})
    convert(tmp_path / "net.npz", tmp_path / "net.caffemodel.h5")
    with open_weights(tmp_path / "net.caffemodel.h5") as weights:
        assert weights.kind == "caffemodel.h5"
        assert weights.tensors[name].tolist() == [1, 1]


def _described(**settings):
    layer = {"name": "ip", "type": "", "bottoms": [], "tops": [], "definition": ""}
    layers = [{**layer, "tensors": ["ip.weight"]}]
    return json.dumps({"version": 1, "net": "n", "layers": layers, **settings})


@pytest.mark.parametrize("settings", ["no base64", 7, "/w=="])
def test_damaged_settings_of_the_net(with_description, tmp_path, settings):
    with pytest.raises(ModelFileError, match="description"):
        convert(with_description(_described(settings=settings)), tmp_path / "x.caffemodel")


def test_layers_and_a_name_among_the_settings_of_the_net_are_ignored(with_description, tmp_path):
    hidden = NetParameter(name="x", force_backward=True, layer=[{"name": "y"}])
    text = b64encode(hidden.SerializeToString()).decode()
    for settings in ({}, {"settings": text}):
        convert(with_description(_described(**settings)), tmp_path / "x.caffemodel")
        net = open_model(tmp_path / "x.caffemodel").to_net()
        assert (net.name, [layer.name for layer in net.layer]) == ("n", ["ip"])
        assert net.force_backward is bool(settings)


def test_torch_reads_bfloat16(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    source = tmp_path / "net.caffemodel"
    save_model(ModelFile("net", [Layer("ip", "InnerProduct", blobs=[values])]), source)
    convert(source, tmp_path / "net.pt", dtype="bfloat16")
    state = torch.load(tmp_path / "net.pt", weights_only=True)
    assert state["ip.weight"].dtype is torch.bfloat16
    assert state["ip.weight"].tolist() == values.tolist()
