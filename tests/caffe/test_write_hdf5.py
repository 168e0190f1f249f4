"""Caffe's HDF5 format as it is written, looked at with h5py."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from syncblob.blob import Blob
from syncblob.caffe import Layer, ModelFile, open_model, save_model
from syncblob.memory import Head

h5py = pytest.importorskip("h5py")


@pytest.fixture
def saved(tmp_path):
    """Save a model, and return its groups as dictionaries of arrays."""

    def saved(model, **options):
        path = tmp_path / "saved.caffemodel.h5"
        save_model(model, path, **options)
        with h5py.File(path) as file:
            return {
                root: {
                    name: {number: blob[()] for number, blob in layer.items()}
                    for name, layer in group.items()
                }
                for root, group in file.items()
            }

    return saved


def test_groups_and_datasets(write, v2_net, saved):
    model = open_model(write(v2_net))
    groups = saved(model, write_diff=False)
    assert list(groups) == ["data"]
    assert {name: list(layer) for name, layer in groups["data"].items()} == {
        "data": [],
        "conv1": ["0", "1"],
        "ip": ["0"],
    }
    weights = groups["data"]["conv1"]["0"]
    assert (weights.dtype, weights.tolist()) == (np.float32, [[0, 1, 2], [3, 4, 5]])
    doubles = groups["data"]["ip"]["0"]
    assert (doubles.dtype, doubles.tolist()) == (np.float64, [1, 2])
    assert {blob.head for layer in model.layers for blob in layer.blobs} == {Head.UNINITIALIZED}


def test_as_caffe_lays_it_out(tmp_path):
    save_model(ModelFile("", [Layer("a", blobs=[[1.0]])]), tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5") as file:
        dataset = file["data/a/0"]
        assert (dataset.chunks, dataset.compression, len(dataset.attrs)) == (None, None, 0)
        assert dataset.id.get_type().equal(h5py.h5t.IEEE_F64LE)
    first = (tmp_path / "x.h5").read_bytes()
    save_model(ModelFile("", [Layer("a", blobs=[[1.0]])]), tmp_path / "x.h5")
    assert (tmp_path / "x.h5").read_bytes() == first


@pytest.mark.parametrize("write_diff", [None, True])
def test_gradients(write, v2_net, saved, write_diff):
    groups = saved(open_model(write(v2_net)), write_diff=write_diff)
    assert groups["diff"]["ip"]["0"].tolist() == [3, 4]
    assert list(groups["diff"]) == list(groups["data"])
    assert list(groups["diff"]["conv1"]) == (["0", "1"] if write_diff else [])


@pytest.mark.parametrize("shape", [(), (0, 3), (1,) * 32, (3, 300)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_shapes_and_dtypes(saved, shape, dtype):
    blob = Blob(shape, dtype)
    blob.overwrite_cpu_data()[...] = np.arange(blob.size).reshape(shape)
    written = saved(ModelFile("", [Layer("a", blobs=[blob])]))["data"]["a"]["0"]
    assert written.shape == shape
    assert written.dtype == ("float64" if dtype == "float64" else "float32")
    np.testing.assert_array_equal(written, blob.cpu_data().astype(written.dtype))


def test_views(saved):
    blob = Blob.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    groups = saved(ModelFile("", [Layer("a", blobs=[blob.T, blob[:, 1]])]))
    assert groups["data"]["a"]["0"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert groups["data"]["a"]["1"].tolist() == [1, 4]


def test_names(tmp_path):
    save_model(ModelFile("", [Layer("größe"), Layer("\udcff"), Layer("..")]), tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5") as file:
        assert set(file["data"]) == {"größe", b"\xff", ".."}


@pytest.fixture
def old_file(tmp_path):
    """A file that must survive."""
    path = tmp_path / "old.H5"
    path.write_bytes(b"old")
    yield path
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", ".", "conv1/7x7_s2", "a\0b"])
def test_names_that_hdf5_cannot_hold(old_file, name):
    with pytest.raises(ValueError, match=r"cannot hold a layer of the name.*rename it"):
        save_model(ModelFile("", [Layer(name)]), old_file)


def test_two_layers_of_one_name(old_file):
    with pytest.raises(ValueError, match="cannot hold two layers of the name 'a'"):
        save_model(ModelFile("", [Layer("a"), Layer("b"), Layer("a")]), old_file)


@pytest.mark.parametrize(
    ("blob", "error", "message"),
    [
        (Blob(2, "int32"), TypeError, "holds floats, got a Blob of dtype int32"),
        (Blob((1,) * 33), ValueError, "at most 32 axes"),
        (Blob(2**31), ValueError, "at most 2147483647 elements, got shape"),
    ],
)
def test_blobs_that_caffe_cannot_hold(old_file, blob, error, message):
    with pytest.raises(error, match=f"layer 'a', blob 1: .*{message}"):
        save_model(ModelFile("", [Layer("a", blobs=[[1.0], blob])]), old_file)
    assert blob.head is Head.UNINITIALIZED


def test_without_h5py(monkeypatch, old_file):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'syncblob\[hdf5\]'"):
        save_model(ModelFile(), old_file)


# --- files that are read and written again ----------------------------------------------------


@pytest.fixture
def as_caffe(tmp_path):
    """A file with what a new one would not have: an attribute, and a gradient for one blob."""
    path = tmp_path / "caffe.h5"
    with h5py.File(path, "w") as file:
        file.attrs["by"] = "caffe"
        file["data/a/0"] = np.arange(6, dtype=np.float32).reshape(2, 3)
        file["data/a/1"] = np.arange(2, dtype=np.float32)
        file.create_group("data/empty")
        file["diff/a/1"] = np.ones(2, np.float32)
    return path


@pytest.mark.parametrize("touched", [False, True])
def test_an_unchanged_file_gives_the_same_bytes(as_caffe, tmp_path, touched):
    model = open_model(as_caffe)
    if touched:
        model["a"].blobs[0].mutable_cpu_data()
        model["a"].blobs[1].mutable_cpu_diff()
    save_model(model, tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == as_caffe.read_bytes()


def test_real_files_give_the_same_bytes(real_files, tmp_path):
    path = real_files / "cifar10_full.caffemodel.h5"
    model = open_model(path)
    for blob in (blob for layer in model.layers for blob in layer.blobs):
        blob.cpu_data()
    save_model(model, tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("edit", ["blob", "gradient", "resize", "fewer", "more", "rename", "layer"])
def test_what_has_changed_is_written(as_caffe, saved, edit):
    model = open_model(as_caffe)
    layer = model["a"]
    expected = {"0": [[0, 1, 2], [3, 4, 5]], "1": [0, 1]}
    gradient = {"1": [1, 1]}
    if edit == "blob":
        layer.blobs[1].mutable_cpu_data()[0] = expected["1"][0] = 9
    elif edit == "gradient":
        layer.blobs[1].mutable_cpu_diff()[0] = gradient["1"][0] = 9
    elif edit == "resize":
        layer.blobs[0].resize(3, 2)
        with pytest.raises(ValueError, match=r"'a', blob 0: expected shape \(2, 3\)"):
            saved(model)
        layer.replace_blob(0, layer.blobs[0], resize=True)
        expected["0"] = [[0, 1], [2, 3], [4, 5]]
    elif edit == "fewer":
        del layer.blobs[1]
        expected, gradient = {"0": expected["0"]}, None
    elif edit == "more":
        layer.blobs.append([5.0])
        expected["2"] = [5]
    elif edit == "rename":
        model.rename("a", "b")
    elif edit == "layer":
        model["a"] = Layer("a", blobs=[layer.blobs[1], layer.blobs[0]])
        expected, gradient = {"0": expected["1"], "1": expected["0"]}, {"0": [1, 1]}
    groups = saved(model)
    name = "b" if edit == "rename" else "a"
    assert {key: blob.tolist() for key, blob in groups["data"][name].items()} == expected
    found = groups.get("diff", {}).get(name)
    assert (found and {key: blob.tolist() for key, blob in found.items()}) == gradient


def test_from_one_format_to_the_other_and_back(as_caffe, tmp_path):
    model = open_model(as_caffe)
    save_model(model, tmp_path / "x.caffemodel")
    assert model["a"].blobs[0].head is Head.UNINITIALIZED
    converted = open_model(tmp_path / "x.caffemodel")
    assert converted["a"].blobs[0].cpu_data().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert converted["a"].blobs[1].cpu_diff().tolist() == [1, 1]
    save_model(converted, tmp_path / "x.h5")
    back = open_model(tmp_path / "x.h5")
    assert list(back) == ["a", "empty"]
    assert back["a"].blobs[1].cpu_diff().tolist() == [1, 1]
