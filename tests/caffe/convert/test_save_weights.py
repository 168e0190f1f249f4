"""Edited weights are saved, with all else that their file has."""

import copy
import zipfile

import h5py
import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from comparable_models import need_library_of

import syncblob
from syncblob import Layer, ModelFile, ModelFileError
from syncblob.caffe.convert import ConversionError, open_weights, save_weights

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)
BIAS = np.arange(2, dtype=np.float64)
TENSORS = {"a.weight": WEIGHT, "a.bias": BIAS, "b.weight": WEIGHT + 10}


def _hdf5(path):
    with h5py.File(path, "w") as file:
        file.attrs["version"] = "2.1"
        for name, array in TENSORS.items():
            file.create_dataset(name, data=array).attrs["units"] = name
        file["link"] = h5py.SoftLink("/a.weight")
        file.create_dataset("big", data=WEIGHT.astype(">f4"), chunks=(1, 3), compression="gzip")


def _torch(path):
    torch = pytest.importorskip("torch")
    tensors = {name: torch.from_numpy(array.copy()) for name, array in TENSORS.items()}
    tensors["tied.weight"] = tensors["b.weight"]
    torch.save({"state_dict": tensors, "epoch": 7, "optimizer": {"lr": [0.1]}}, path)


def _caffe(path):
    layers = [Layer("a", "Scale", blobs=[WEIGHT, BIAS]), Layer("b", "Scale", blobs=[WEIGHT + 10])]
    syncblob.save_model(ModelFile("net", layers), path)


WRITERS = {
    "x.safetensors": lambda path: safetensors.numpy.save_file(TENSORS, path, metadata={"by": "me"}),
    "x.npz": lambda path: np.savez(path, text=np.array("words"), **TENSORS),
    "packed.npz": lambda path: np.savez_compressed(path, text=np.array("words"), **TENSORS),
    "x.h5": _hdf5,
    "x.pt": _torch,
    "x.caffemodel": _caffe,
    "x.caffemodel.h5": _caffe,
}


@pytest.fixture(params=WRITERS)
def path(request, tmp_path):
    need_library_of(request.param.partition(".")[2])
    WRITERS[request.param](tmp_path / request.param)
    return tmp_path / request.param


def values_of(path):
    with open_weights(path) as weights:
        return {name: np.array(blob) for name, blob in weights.tensors.items()}


@pytest.mark.parametrize("to", ["itself", "another"])
def test_edits_are_saved(path, to):
    before = values_of(path)
    target = path if to == "itself" else path.with_name(f"other_{path.name}")
    with open_weights(path) as weights:
        weights.tensors["a.weight"][1, 2] = 100
        first = next(each for each in weights.layers if each.layer.name == "b")
        first.layer.blobs[0] = WEIGHT * 2
        save_weights(weights, target)
        names = list(weights.tensors)
    after = values_of(target)
    assert list(after) == names
    changed = np.where(np.arange(6).reshape(2, 3) == 5, 100, WEIGHT)
    edited = {"a.weight": changed, "b.weight": WEIGHT * 2}
    if path.suffix == ".pt":
        edited["tied.weight"] = WEIGHT * 2  # in the file, they share their values
    for name, array in (before | edited).items():
        assert (after[name].dtype, after[name].tolist()) == (before[name].dtype, array.tolist())
    assert {each.name for each in path.parent.iterdir()} == {path.name, target.name}


def test_the_rest_of_a_file_is_kept(path):
    with open_weights(path) as weights:
        weights.tensors["a.bias"][...] = 5
        save_weights(weights, path)
    if path.suffix == ".safetensors":
        with safetensors.safe_open(path, "numpy") as file:
            assert file.metadata()["by"] == "me"
    elif path.suffix == ".npz":
        assert str(np.load(path)["text"]) == "words"
        with zipfile.ZipFile(path) as archive:
            kinds = {info.compress_type for info in archive.infolist()}
        packed = path.name.startswith("packed")
        assert kinds == {zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED}
    elif path.name == "x.h5":
        with h5py.File(path) as file:
            assert file.attrs["version"] == "2.1"
            assert file["a.bias"].attrs["units"] == "a.bias"
            assert file.get("link", getlink=True).path == "/a.weight"
            assert (file["big"].dtype, file["big"].compression) == (np.dtype(">f4"), "gzip")
            assert file["big"][()].tolist() == WEIGHT.tolist()
    elif path.suffix == ".pt":
        torch = pytest.importorskip("torch")
        loaded = torch.load(path, weights_only=True)
        assert (loaded["epoch"], loaded["optimizer"]) == (7, {"lr": [0.1]})
        tensors = loaded["state_dict"]
        assert tensors["a.bias"].tolist() == [5, 5]
        assert tensors["tied.weight"].data_ptr() == tensors["b.weight"].data_ptr()
    elif path.name == "x.caffemodel":
        model = syncblob.open_model(path)
        assert (model.name, model["a"].type) == ("net", "Scale")


def test_another_shape(path):
    with open_weights(path) as weights:
        layer = next(each for each in weights.layers if each.layer.name == "b").layer
        layer.replace_blob(0, np.ones((4, 2), np.float32), resize=True)
        save_weights(weights, path)
    assert values_of(path)["b.weight"].tolist() == [[1, 1]] * 4


def test_what_cannot_be_saved_leaves_the_file_as_it_was(path):
    contents = path.read_bytes()
    with open_weights(path) as weights:
        weights.tensors["a.weight"][...] = 3
        layer = next(each for each in weights.layers if each.layer.name == "a").layer
        with pytest.raises(TypeError, match="expected a Weights, got"):
            save_weights(weights.tensors, path)
        with pytest.raises(ConversionError, match=r"expected a name that says the format"):
            save_weights(weights, path.with_suffix(".txt"))
        blob = layer.blobs.pop()
        with pytest.raises(ConversionError, match=r"expected 2 blobs in layer 'a', named a.weight"):
            save_weights(weights, path)
        layer.blobs.append(blob)
        layer.blobs[1] = BIAS.astype(ml_dtypes.bfloat16)
        if path.suffix in {".npz", ".h5", ".pt"} and "caffemodel" not in path.name:
            with pytest.raises(ConversionError, match="bfloat16"):
                save_weights(weights, path)
    assert path.read_bytes() == contents


def test_weights_whose_file_was_closed_or_changed(path):
    weights = open_weights(path)
    weights.close()
    with pytest.raises((ConversionError, ModelFileError), match=r"closed"):
        save_weights(weights, path)
    with open_weights(path) as weights:
        path.write_bytes(path.read_bytes() + b" ")
        with pytest.raises(ModelFileError, match=r"has changed|has written to it"):
            save_weights(weights, path.with_name(f"other_{path.name}"))


def test_a_transfer_that_fails_damages_no_file(path):
    before = path.read_bytes()
    with syncblob.use_device("simulated"):
        weights = open_weights(path)
    blob = next(blob for blob in weights.tensors.values() if blob.shape == (2, 3))
    blob[...] = 5
    backend = syncblob.simulated(0)
    with backend.failing(transfer=1), pytest.raises(RuntimeError, match="injected failure"):
        save_weights(weights, path)
    assert path.read_bytes() == before


def test_a_damaged_member_that_would_be_copied(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, **TENSORS)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("text", "words")
    contents = path.read_bytes().replace(b"words", b"sword")
    path.write_bytes(contents)
    with open_weights(path) as weights, pytest.raises(ModelFileError, match=r"Bad CRC-32.*text"):
        save_weights(weights, path)
    assert path.read_bytes() == contents


def test_damaged_values_of_hdf5_that_would_be_compared(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a", data=WEIGHT, chunks=WEIGHT.shape, fletcher32=True)
        place = dataset.id.get_chunk_info(0).byte_offset
    contents = bytearray(path.read_bytes())
    contents[place] ^= 1
    path.write_bytes(contents)
    with open_weights(path) as weights:
        weights.layers[0].layer.blobs[0] = WEIGHT
        with pytest.raises(ModelFileError, match="the HDF5 library finds the file damaged"):
            save_weights(weights, path)
    assert path.read_bytes() == contents


def test_saving_again_when_all_values_have_been_read(path):
    with open_weights(path) as weights:
        for blob in weights.tensors.values():
            blob.cpu_data()
        for number in 1, 2:
            weights.tensors["a.weight"][...] = number
            save_weights(weights, path)
            assert values_of(path)["a.weight"].tolist() == [[number] * 3] * 2
        save_weights(copy.deepcopy(weights), path)
    assert values_of(path)["a.weight"].tolist() == [[2] * 3] * 2


def test_an_edit_of_a_tensor_that_repeats_one_value(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"a.weight": torch.zeros(1).expand(3)}, tmp_path / "x.pt")
    with open_weights(tmp_path / "x.pt") as weights:
        weights.tensors["a.weight"][1] = 5
        save_weights(weights, tmp_path / "x.pt")
    assert values_of(tmp_path / "x.pt")["a.weight"].tolist() == [0, 5, 0]


def test_zeros_in_a_densely_packed_archive_can_be_opened_again(tmp_path):
    np.save(tmp_path / "a.npy", WEIGHT)
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.write(tmp_path / "a.npy", "a.npy")
    with open_weights(tmp_path / "x.npz") as weights:
        weights.layers[0].layer.replace_blob(0, np.zeros((5, 1 << 20), np.float32), resize=True)
        save_weights(weights, tmp_path / "x.npz")
    assert open_weights(tmp_path / "x.npz").tensors["a"].shape == (5, 1 << 20)


@pytest.mark.parametrize("edited", ["a", "b"])
def test_zeros_under_several_filters_can_be_opened_again(tmp_path, edited):
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    count = 5 << 20
    properties.set_chunk((count,))
    for _ in range(2):
        properties.set_deflate(9)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        space, kind = h5py.h5s.create_simple((count,)), h5py.h5t.NATIVE_FLOAT
        h5py.h5d.create(file.id, b"a", kind, space, properties)
        file["a"][: 1 << 16] = np.random.default_rng(0).random(1 << 16, np.float32)
        file["a"].attrs["units"] = "m"
        file["b"] = file["a"]
    with open_weights(tmp_path / "x.h5") as weights:
        weights.tensors[edited][...] = 0
        save_weights(weights, tmp_path / "x.h5")
    with open_weights(tmp_path / "x.h5") as weights:
        assert not any(blob.cpu_data().any() for blob in weights.tensors.values())
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["a"] == file["b"]
        assert file["a"].attrs["units"] == "m"


def test_comments_of_an_archive_are_kept(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, a=WEIGHT, b=BIAS)
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"made by hand"
        archive.writestr("notes.txt", "words")
        for info in archive.infolist():
            info.comment = info.filename.encode()
    with open_weights(path) as weights:
        weights.tensors["a"][...] = 5
        save_weights(weights, path)
    with zipfile.ZipFile(path) as archive:
        assert archive.comment == b"made by hand"
        assert {info.comment for info in archive.infolist()} == {b"a.npy", b"b.npy", b"notes.txt"}
    assert values_of(path)["a"].tolist() == [[5] * 3] * 2


@pytest.mark.parametrize("name", ["x.h5", "x.npz"])
def test_axes_that_hdf5_does_not_have(tmp_path, name):
    WRITERS[name](tmp_path / name)
    before = (tmp_path / name).read_bytes()
    with open_weights(tmp_path / name) as weights:
        weights.layers[0].layer.replace_blob(0, np.ones((1,) * 33), resize=True)
        with pytest.raises(ConversionError, match="at most 32 axes, and this one would have 33"):
            save_weights(weights, tmp_path / "x.h5")
    assert (tmp_path / name).read_bytes() == before
