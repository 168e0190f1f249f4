"""What is refused before anything is written, and what comes back from a file that was written."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncblob.blob import Blob
from syncblob.caffe import (
    Layer,
    ModelFile,
    _write_model,
    blobproto,
    open_model,
    plan_model,
    read_blob,
    save_model,
    write_blob,
)
from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape, LayerParameter, NetParameter
from syncblob.errors import ModelFileError
from syncblob.memory import Head

# --- what is refused ------------------------------------------------------------------------------


@pytest.fixture
def old_file(tmp_path):
    """A file that must survive."""
    path = tmp_path / "old.caffemodel"
    path.write_bytes(b"old")
    yield path
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["old.caffemodel"]  # noqa: PTH208  # names are enough


@pytest.mark.parametrize("dtype", ["int32", "bool", "complex64"])
def test_dtypes_that_are_no_floats(old_file, dtype):
    model = ModelFile("", [Layer("a", blobs=[Blob(2), Blob(2, dtype)])])
    with pytest.raises(TypeError, match=f"layer 'a': blob 1: a BlobProto holds floats.*{dtype}"):
        save_model(model, old_file)
    with pytest.raises(TypeError, match="holds floats"):
        write_blob(Blob(2, dtype), old_file.with_suffix(""))


def test_more_axes_than_caffe_has(old_file):
    with pytest.raises(ValueError, match="layer 'a': blob 0: Caffe's blobs have at most 32 axes"):
        save_model(ModelFile("", [Layer("a", blobs=[Blob((1,) * 33)])]), old_file)
    with pytest.raises(ValueError, match="at most 32 axes"):
        write_blob(Blob((1,) * 33), old_file.with_suffix(""))


def test_blobs_and_models_of_2_gib(old_file):
    half = [Blob(2**28 - 100) for _ in range(2)]
    model = ModelFile("", [Layer("a", blobs=half)])
    plan_model(model)
    model["b"] = Layer("b", blobs=[Blob(1000)])
    with pytest.raises(ValueError, match=r"a \.caffemodel holds at most 2147483647 bytes.*h5"):
        save_model(model, old_file)
    with pytest.raises(ValueError, match="layer 'a': blob 0: a BlobProto holds at most"):
        save_model(ModelFile("", [Layer("a", blobs=[Blob(2**29)])]), old_file)
    assert half[0].head is Head.UNINITIALIZED


def test_the_announced_size_of_a_model_is_its_size(monkeypatch, tmp_path, write, v2_net):
    path = write(v2_net)
    model = open_model(path)
    size = path.stat().st_size
    monkeypatch.setattr(_write_model, "MAX_MESSAGE", size)
    save_model(model, tmp_path / "again")
    monkeypatch.setattr(_write_model, "MAX_MESSAGE", size - 1)
    with pytest.raises(ValueError, match=f"this model needs {size}"):
        save_model(model, tmp_path / "again")


def test_a_model_that_was_closed(write, v2_net, old_file):
    path = write(v2_net)
    model = open_model(path)
    model.close()
    with pytest.raises(ValueError, match="was closed before this part of it was read"):
        save_model(model, old_file)
    path.unlink()


def test_a_file_that_has_become_smaller(tmp_path, write, v2_net):
    path = write(v2_net)
    model = open_model(path)
    os.truncate(path, 20)
    with pytest.raises(ModelFileError, match="somebody has written to it"):
        save_model(model, tmp_path / "new.caffemodel")
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_model(old_file):
    with pytest.raises(TypeError, match="expected a ModelFile, got Blob; write_blob"):
        save_model(Blob(3), old_file)


@pytest.mark.parametrize(
    ("name", "advice"),
    [("x.prototxt", "to_net"), ("x.BinaryProto", "write_blob")]
    + [(f"x{end}", "'syncblob convert'") for end in (".npz", ".safetensors", ".pt", ".PTH")]
    + [(f"x{end}", "does not write this") for end in (".onnx", ".json", ".npy", ".py", ".txt")]
    + [(f"x{end}", "reads the state of a solver") for end in (".solverstate", ".solverstate.h5")],
)
def test_extensions_of_other_formats(tmp_path, name, advice):
    """They would be opened as what they are not."""
    with pytest.raises(ValueError, match=rf"expected the extension \.caffemodel or \.h5.*{advice}"):
        save_model(ModelFile(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("x.caffemodel", "save_model writes a model"),
        ("x.CaffeModel.h5", "save_model writes a model"),
        ("x.prototxt", "write_prototxt writes"),
        ("x.npz", "numpy.savez"),
        ("x.pt", "to_torch"),
        ("x.solverstate", "reads the state"),
    ],
)
def test_extensions_of_what_is_no_blob(tmp_path, name, advice):
    with pytest.raises(ValueError, match=rf"expected the extension \.binaryproto, got .*{advice}"):
        write_blob(Blob(3), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x", "x.weights", "x.caffemodel.bak", "solverstate.v2"])
def test_no_extension_and_unknown_ones(tmp_path, name):
    save_model(ModelFile("n"), tmp_path / name)
    assert open_model(tmp_path / name).name == "n"
    write_blob(Blob(3), tmp_path / name)
    assert read_blob(tmp_path / name).shape == (3,)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (ModelFile(), "got ModelFile; save_model writes a model"),
        (Layer("a", blobs=[[1.0]]), r"got Layer; write one of its layer\.blobs"),
        ("x.binaryproto", r"got str; .*write_blob\(blob, path\)"),
    ],
)
def test_what_is_no_blob(tmp_path, what, words):
    with pytest.raises(TypeError, match=f"expected a Blob or an array, {words}"):
        write_blob(what, tmp_path / "x.binaryproto")


def test_writing_an_array_of_another_library(tmp_path):
    write_blob(np.ones((1, 2, 1), np.float32), tmp_path / "x.binaryproto")
    assert read_blob(tmp_path / "x.binaryproto").tolist() == [[[1], [1]]]


# --- any model ------------------------------------------------------------------------------------

dims = st.lists(st.integers(0, 4), max_size=4).map(tuple)
dtypes = st.sampled_from(["float16", "bfloat16", "float32", "float64"])


@st.composite
def blobs(draw):
    blob = Blob(draw(dims), draw(dtypes))
    size = blob.size
    blob.overwrite_cpu_data()[...] = np.arange(size).reshape(blob.shape)
    if draw(st.booleans()):
        blob.overwrite_cpu_diff()[...] = -np.arange(size).reshape(blob.shape)
    return draw(st.sampled_from([blob, blob.T, blob.diff]))


layers = st.builds(
    Layer, st.text(max_size=3), st.text(max_size=3), blobs=st.lists(blobs(), max_size=3)
)


@given(st.lists(layers, max_size=4), st.booleans())
def test_any_model_comes_back(tmp_path, layers, write_diff):
    path = tmp_path / "any.caffemodel"
    save_model(ModelFile("any", layers), path, write_diff=write_diff)
    again = open_model(path)
    assert [(layer.name, layer.type) for layer in again.layers] == [
        (layer.name, layer.type) for layer in layers
    ]
    for layer, expected in zip(again.layers, layers, strict=True):
        for blob, wanted in zip(layer.blobs, expected.blobs, strict=True):
            assert blob.shape == wanted.shape
            np.testing.assert_array_equal(blob.cpu_data(), wanted.cpu_data())
            if write_diff and blob.size:
                np.testing.assert_array_equal(blob.cpu_diff(), wanted.cpu_diff())


def test_pieces_larger_than_a_chunk(monkeypatch, tmp_path, write):
    for module in ("_lazy", "_pieces"):
        monkeypatch.setattr(f"syncblob.caffe.{module}.CHUNK", 64)
    values = np.random.default_rng(3).standard_normal((7, 30)).astype(np.float32)
    proto = BlobProto(shape=BlobShape(dim=[7, 30]), data=values.ravel())
    path = write(NetParameter(layer=[LayerParameter(name="a", blobs=[proto])]))
    model = open_model(path)
    save_model(model, tmp_path / "copied")
    assert (tmp_path / "copied").read_bytes() == path.read_bytes()
    model["half"] = Layer("half", blobs=[model["a"].blobs[0].astype("float16"), Blob((99,))])
    model["turned"] = Layer("turned", blobs=[model["a"].blobs[0].T])
    model["a"].blobs[0].mutable_cpu_data()[-1, -1] = 5
    save_model(model, tmp_path / "changed", write_diff=True)
    net = NetParameter.FromString((tmp_path / "changed").read_bytes())
    values[-1, -1] = 5
    assert list(net.layer[0].blobs[0].data) == values.ravel().tolist()
    half = net.layer[1].blobs[0].data
    assert half[:209] == values.astype(np.float16).astype(np.float32).ravel().tolist()[:209]
    assert list(net.layer[1].blobs[1].diff) == [0] * 99
    assert list(net.layer[2].blobs[0].data) == values.T.ravel().tolist()


def test_the_limit_is_that_of_protobuf():
    assert blobproto.MAX_MESSAGE == 2**31 - 1
