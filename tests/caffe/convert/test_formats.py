"""Files of other programs can be read, and other programs can read files of syncblob."""

import zipfile

import h5py
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from comparable_models import need_library_of

import syncblob
from syncblob import ModelFileError
from syncblob.caffe._pb.caffe_pb2 import BlobProto, NetParameter, SolverState
from syncblob.caffe.convert import convert, format_of, open_weights, plan_conversion, to_tensors
from syncblob.caffe.messages.wire import length_field

_DTYPES = """
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64
complex128 bfloat16
""".split()


def _arrays(*without):
    names = [name for name in _DTYPES if name not in without]
    arrays = {
        name: np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
        for name in names
    }
    return arrays | {"scalar": np.array(1.5), "none": np.zeros((0, 2), np.float32)}


def _assert_equal(found, arrays):
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        blob = found[name]
        assert (blob.shape, blob.dtype) == (array.shape, array.dtype)
        assert np.asarray(blob).tobytes() == array.tobytes()


# --- reading files of other programs -------------------------------------------------------------


def test_safetensors_of_every_dtype(tmp_path):
    arrays = _arrays("complex128")
    safetensors.numpy.save_file(arrays, tmp_path / "x.safetensors", metadata={"format": "pt"})
    with open_weights(tmp_path / "x.safetensors") as found:
        assert found.kind == "safetensors"
        _assert_equal(found.tensors, arrays)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_of_every_dtype(tmp_path, save):
    arrays = _arrays("bfloat16")
    arrays["fortran"] = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    save(tmp_path / "x.npz", **arrays, big=np.arange(3, dtype=">f4"))
    with open_weights(tmp_path / "x.npz") as found:
        _assert_equal(found.tensors, arrays | {"big": np.arange(3, dtype="<f4")})


def test_hdf5_of_any_tree(tmp_path):
    arrays = _arrays("bfloat16")
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        for name, array in arrays.items():
            file[f"a/b/{name}"] = array
        file["big"] = np.arange(3, dtype=">f4")
        chunks = np.arange(100.0)
        file.create_dataset("a/chunks", data=chunks, compression="gzip", chunks=(7,))
    expected = {f"a/b/{name}": array for name, array in arrays.items()}
    expected |= {"big": np.arange(3, dtype="<f4"), "a/chunks": chunks}
    with open_weights(tmp_path / "x.hdf5") as found:
        _assert_equal(found.tensors, expected)


def test_links_in_hdf5_are_named_and_not_followed(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["a/layer/0"] = np.ones(2)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a/weight"] = np.ones(2)
        file["b/weight"] = file["a/weight"]
        file["data"] = h5py.ExternalLink("other.h5", "/a")  # as a group of Caffe's
        file["c"] = file["a"]
        file["d"] = h5py.SoftLink("/a/weight")
        file["f/nowhere"] = h5py.SoftLink("/a/bias")
        file["f/elsewhere"] = h5py.ExternalLink("other.h5", "/a")
    with open_weights(tmp_path / "x.h5") as found:
        assert {name: blob.tolist() for name, blob in found.tensors.items()} == {
            "a/weight": [1, 1],
            "b/weight": [1, 1],
            "c/weight": [1, 1],
        }
        links = ("d", "data", "f/elsewhere", "f/nowhere")
        assert found.others == tuple(f"the link {name!r}" for name in links)
    with plan_conversion(tmp_path / "x.h5", tmp_path / "x.npz") as planned:
        assert planned.left_out == ", and ".join(found.others)


def test_names_in_hdf5_that_are_not_utf8(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file[b"\xb5/weight"] = np.ones(2)
        file.id.links.create_soft(b"link", b"/\xb5/weight")
    with open_weights(tmp_path / "x.h5") as found:
        assert {name: blob.tolist() for name, blob in found.tensors.items()} == {
            "\udcb5/weight": [1, 1]
        }
        assert found.others == ("the link 'link'",)
    convert(tmp_path / "x.h5", tmp_path / "y.h5")
    with h5py.File(tmp_path / "y.h5") as file:
        assert file[b"\xb5/weight"][:].tolist() == [1, 1]


def test_texts_in_hdf5_are_named_and_left_out(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["fc/weight"] = np.ones(2)
        file["classes"] = np.array([b"cat", b"dog"])
        file["fc/notes"] = "hello"
        file["none"] = h5py.Empty("f4")
        file.create_dataset("lists", (1,), h5py.vlen_dtype("f4"))
    with open_weights(tmp_path / "x.h5") as found:
        assert list(found.tensors) == ["fc/weight"]
        assert found.others == (
            "the text 'classes'",
            "the dataset without numbers 'lists'",
            "the dataset without numbers 'none'",
            "the text 'fc/notes'",
        )


@pytest.mark.parametrize("size", [512, 8192])
def test_hdf5_after_a_block_of_matlabs(tmp_path, size):
    path = tmp_path / "x.mat"
    with h5py.File(path, "w", userblock_size=size) as file:
        file["a"] = np.arange(6.0).reshape(2, 3)
        file.create_dataset("b", data=np.arange(6.0), chunks=(4,))
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(128))
    with open_weights(path) as found:
        expected = {"a": [[0, 1, 2], [3, 4, 5]], "b": [0, 1, 2, 3, 4, 5]}
        assert {name: blob.tolist() for name, blob in found.tensors.items()} == expected


@pytest.mark.parametrize(
    "names",
    [
        ["data/ip/0", "other/x"],
        ["data/images"],
        ["data/ip/0", "data/ip/weight"],
        ["data/ip/0", "diff/x.weight"],
        ["history/0"],
    ],
)
def test_trees_of_which_only_a_part_looks_like_caffes(tmp_path, names):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name in names:
            file[name] = np.ones(2)
    with open_weights(tmp_path / "x.h5") as found:
        assert (found.kind, list(found.tensors)) == ("hdf5", names)


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({}, "hdf5"),
        ({"learned_net": b"x", "current_step": 0, "weight": [1.0]}, "hdf5"),
        ({"learned_net": b"x", "current_step": 0}, "solverstate"),
    ],
)
def test_a_tree_is_a_solver_state_if_it_has_all_parts_of_one(tmp_path, more, kind):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["history/0"] = np.ones(2)
        for name, value in {"iter": 5, **more}.items():
            file[name] = np.array(value)
    assert format_of(tmp_path / "x.h5") == kind
    (tmp_path / "x.h5").rename(tmp_path / "x.solverstate.h5")
    assert format_of(tmp_path / "x.solverstate.h5") == "solverstate"


def test_a_tree_with_a_named_datatype(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["group/type"] = np.dtype(np.float32)
        file.create_dataset("group/weight", (2,), file["group/type"])
    with open_weights(tmp_path / "x.h5") as found:
        assert found.tensors["group/weight"].tolist() == [0, 0]
        assert found.others == ("the datatype 'group/type'",)


@pytest.mark.parametrize("content", [b"\x08\x07", b"\x08\x07\x10\x02"])
@pytest.mark.parametrize("name", ["x", "x.pb"])
def test_a_message_of_a_few_numbers_is_no_blob(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelFileError, match="message of another program"):
        open_weights(tmp_path / name)


def test_state_dicts_of_every_dtype(tmp_path):
    torch = pytest.importorskip("torch")
    tensors = {
        name: torch.arange(6).reshape(3, 2).to(getattr(torch, name)).T
        for name in _DTYPES
        if name != "bool"
    }
    tensors["conj"] = torch.tensor([1 + 2j]).conj()
    tensors["parameter"] = torch.nn.Parameter(torch.ones(2))
    path = tmp_path / "x.pt"
    torch.save(tensors, path)
    with open_weights(path) as found:
        assert list(found.tensors) == list(tensors)
        for name, blob in found.tensors.items():
            assert blob.dtype.name == str(tensors[name].dtype).removeprefix("torch.")
            expected = tensors[name].detach().resolve_conj()
            assert torch.equal(torch.from_dlpack(blob), expected)


def test_a_state_dict_of_before_pytorch_1_6(tmp_path):
    torch = pytest.importorskip("torch")
    tensors = {"a.weight": torch.ones(2, 3), "a.bias": torch.arange(2)}
    torch.save(tensors, tmp_path / "x.pth", _use_new_zipfile_serialization=False)
    with open_weights(tmp_path / "x.pth") as found:
        _assert_equal(found.tensors, {name: one.numpy() for name, one in tensors.items()})


def converted(model, tmp_path, extension):
    """Convert a model to a format and return the file. Skip the test if a library is missing."""
    need_library_of(extension)
    path = tmp_path / f"x.{extension}"
    convert(model.path, path)
    return path


# --- other programs read files of syncblob -------------------------------------------------------


def _load(path):
    """Read a file by the library that its format belongs to."""
    if path.suffix == ".npz":
        return dict(np.load(path))
    if path.suffix == ".safetensors":
        return safetensors.numpy.load_file(path)
    if path.suffix == ".pt":
        found = pytest.importorskip("torch").load(path, weights_only=True)
        return {name: tensor.numpy() for name, tensor in found.items()}
    with h5py.File(path) as file:
        return {name: file[name][()] for name in file}


@pytest.mark.parametrize("extension", ["safetensors", "npz", "h5", "pt"])
def test_its_library_reads_it(model, tmp_path, extension):
    found = _load(converted(model, tmp_path, extension))
    expected = {name: np.asarray(blob) for name, blob in to_tensors(model).items()}
    _assert_equal(found, expected)
    if extension in {"npz", "pt"}:  # which have an order
        assert list(found) == list(expected)


@pytest.mark.parametrize("name", ["conv1/7x7_s2.weight", "data/x.weight", "data.x/0"])
def test_a_name_with_a_slash_makes_a_group_also_if_it_looks_like_caffes(tmp_path, name):
    np.savez(tmp_path / "x.npz", **{name: np.ones(2)})
    convert(tmp_path / "x.npz", tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5") as file:
        group, _, dataset = name.partition("/")
        assert file[group][dataset].shape == (2,)
    with open_weights(tmp_path / "x.h5") as found:
        assert list(found.tensors) == [name]


# --- choice of the format ------------------------------------------------------------------------


def test_a_zip_archive_that_cannot_be_listed_is_no_reason_to_give_up(tmp_path):
    with zipfile.ZipFile(tmp_path / "x", "w") as archive:
        archive.writestr("readme", "text")
    assert format_of(tmp_path / "x") == "npz"
    with pytest.raises(syncblob.ModelFileError, match="zip archive without arrays"):
        open_weights(tmp_path / "x")


# Weak evidence: fields that also occur in other messages.
_V1_NET = length_field(2, b"\x22\x01a" + length_field(6, b"\x3a\x02\x08\x02"))  # no values
_ONE_NUMBER = b"\x08\x05"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.caffemodel", _V1_NET, r"layer 'a', byte 7: a blob of shape \(2,\) needs 2 values"),
        ("x", _V1_NET, r"layer 'a', byte 7: a blob of shape \(2,\) needs 2 values"),
        ("x.binaryproto", _ONE_NUMBER + b"\x10\x03\x2d", "is truncated"),
    ],
)
def test_weak_evidence_for_another_message_does_not_hide_the_error(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelFileError, match=words):
        open_weights(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (SolverState(iter=5, learned_net="x"), "solverstate"),
        (SolverState(history=[BlobProto(data=[1])]), "solverstate"),
        (BlobProto(num=1, channels=1, height=1, width=1, data=[1]), "binaryproto"),
        (BlobProto(shape={"dim": [2, 3]}, double_data=[1] * 6), "binaryproto"),
        (NetParameter(name="x"), "caffemodel"),
    ],
)
@pytest.mark.parametrize(
    "name",
    ["x", "x.bin", "X.CAFFEMODEL", "x.BinaryProto", "x.Solverstate", "x.npz", "x.h5", "x.pt"],
)
def test_messages_are_known_by_their_contents(tmp_path, content, kind, name):
    (tmp_path / name).write_bytes(content.SerializeToString())
    assert format_of(tmp_path / name) == kind
