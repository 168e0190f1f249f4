"""Damaged and hostile files: errors that name the file and the problem, and little memory."""

import io
import json
import pickle
import struct
import zipfile
from base64 import b64encode

import h5py
import numpy as np
import pytest
import safetensors.numpy
from comparable_models import need_library_of, safetensors_file

import syncblob
from syncblob import ModelFileError
from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape, NetParameter, SolverState
from syncblob.caffe.convert import convert, open_weights


def _npy(header, data=b""):
    return _npy_of(repr(header).encode() + b"\n") + data


def _npy_of(header):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def _npz(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, contents in members.items():
            archive.writestr(f"{name}.npy", contents)
    return buffer.getvalue()


_HUGE = {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)}
# The bytes after the signature of an archive whose first member is that of torch.save.
_TORCH_MEMBER = bytes(22) + struct.pack("<HH", 10, 0) + b"x/data.pkl"
# The end of an archive that is on several disks.
_SPANNED = b"PK\x06\x07" + b"\1" * 16 + b"PK\x05\x06" + bytes(18)


@pytest.mark.parametrize(
    ("name", "contents", "reason"),
    [
        ("x.safetensors", b"", "got an empty file"),
        ("x.safetensors", b"\xff" * 64, "truncated or damaged"),
        (
            "x.safetensors",
            safetensors_file(
                {"a": {"dtype": "F8_E5M2", "shape": [2], "data_offsets": [0, 2]}}, b"12"
            ),
            "tensor 'a' has dtype F8_E5M2, which a Blob cannot hold",
        ),
        ("x.npz", b"", "got an empty file"),
        ("x.npz", b"\xff" * 64, "the .npz file is truncated"),
        ("x.npz", b"PK\x03\x04" + bytes(100), "the .npz file is truncated"),
        ("x.npz", _npz(a=b"no array"), "'a.npy' is damaged"),
        ("x.npz", _npz(a=_npy_of(b"{'shape': (2,\n")), "'a.npy' is damaged"),
        ("x.npz", b"PK\x03\x04" + bytes(100) + _SPANNED, "the .npz file is truncated"),
        ("x.npz", _npz(a=_npy(_HUGE)), "needs 4398046511104 bytes, the file has 0"),
        ("x.npz", _npz(a=_npy({**_HUGE, "shape": (3,)}, bytes(8))), "needs 12 bytes"),
        ("x.npz", _npz(a=_npy({**_HUGE, "descr": "V2", "shape": (1,)}, b"12")), "dtype |V2, which"),
        ("x.pt", b"", "got an empty file"),
        ("x.pt", b"PK\x03\x04" + _TORCH_MEMBER + bytes(100), "failed reading zip archive"),
        (
            "x.pt",
            b"PK\x03\x04" + _TORCH_MEMBER + bytes(100) + _SPANNED,
            "failed reading zip archive",
        ),
        ("x.pt", pickle.dumps(print), "it is damaged, or was not written by torch.save"),
        ("x.pt", _npz(a=b""), "'a.npy' is damaged"),
        ("x.h5", b"", "got an empty file"),
        ("x.h5", b"\xff" * 64, "the HDF5 library finds the file damaged"),
        ("x.h5", b"\x89HDF\r\n\x1a\n" + bytes(100), "the HDF5 library finds the file damaged"),
        ("x.npz", b"# A read-me\n" * 1000, "got a text"),
        ("x.npz", b"<html>", "this is a web page"),
    ],
)
def test_damaged_files(tmp_path, name, contents, reason):
    need_library_of(name.partition(".")[2])
    path = tmp_path / name
    path.write_bytes(contents)
    with pytest.raises(ModelFileError, match=str(path)) as caught:
        open_weights(path)
    assert reason in str(caught.value)


def test_an_array_that_a_few_bytes_would_fill_the_memory_with(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.npy", _npy({**_HUGE, "shape": (1 << 23,)}, bytes(1 << 25)))
    with pytest.raises(ModelFileError, match="claims 33554432 bytes"):
        open_weights(tmp_path / "x.npz")


def test_a_compressed_header_that_is_damaged(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.arange(1000.0))
    contents = bytearray((tmp_path / "x.npz").read_bytes())
    start = contents.index(b"a.npy") + len(b"a.npy") + contents[28]
    contents[start] = 0xFF
    (tmp_path / "x.npz").write_bytes(contents)
    with pytest.raises(ModelFileError, match=r"'a.npy' is damaged"):
        open_weights(tmp_path / "x.npz")


@pytest.mark.parametrize("place", [6, 46], ids=["version", "name"])
def test_an_archive_of_a_later_version_or_with_a_bad_name(tmp_path, place):
    np.savez(tmp_path / "x.npz", a=np.arange(4.0))
    contents = bytearray((tmp_path / "x.npz").read_bytes())
    directory = contents.rindex(b"PK\x01\x02")
    contents[directory + 9] = 0x08  # the name is in UTF-8
    contents[directory + place] = 0xFF
    (tmp_path / "x.npz").write_bytes(contents)
    with pytest.raises(ModelFileError, match=r"the \.npz file is truncated or damaged"):
        open_weights(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _, ones: ones.to_sparse(), "is torch.sparse_coo, not dense"),
        (lambda _, ones: ones.to("meta"), "has no values"),
        (lambda torch, ones: ones.to(torch.float8_e5m2), "has dtype float8_e5m2, which a Blob"),
        (lambda torch, ones: torch.quantize_per_tensor(ones, 0.1, 0, torch.qint8), ""),
        (
            lambda torch, _: torch.zeros(1).expand(1 << 20, 1 << 20),
            "claims 4398046511104 bytes, of which 4 are stored",
        ),
    ],
    ids=["sparse", "meta", "float8", "quantized", "repeated"],
)
@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning")
def test_tensors_of_torch_that_cannot_be_read(tmp_path, make, reason):
    torch = pytest.importorskip("torch")
    torch.save({"good": torch.ones(2), "a": make(torch, torch.ones(2))}, tmp_path / "x.pt")
    with pytest.raises(ModelFileError, match=f"tensor 'a' .*{reason}"):
        open_weights(tmp_path / "x.pt")


def test_a_tensor_of_a_torch_file_that_is_larger_than_its_values(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"a": torch.arange(6.0), "b": torch.arange(99.0)}, tmp_path / "whole.pt")
    with (
        zipfile.ZipFile(tmp_path / "whole.pt") as whole,
        zipfile.ZipFile(tmp_path / "x.pt", "w") as damaged,
    ):
        for info in whole.infolist():  # the shape (6,) becomes (60,)
            damaged.writestr(info, whole.read(info).replace(b"K\x06\x85", b"K\x3c\x85"))
    with pytest.raises(ModelFileError, match="tensor 'a' is truncated"):
        open_weights(tmp_path / "x.pt")


def test_values_that_are_damaged_are_found_when_they_are_read(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.arange(1000.0))
    contents = bytearray((tmp_path / "x.npz").read_bytes())
    contents[4000] ^= 1
    (tmp_path / "x.npz").write_bytes(contents)
    with pytest.raises(ModelFileError, match=r"'a.npy' is damaged \(Bad CRC-32"):
        convert(tmp_path / "x.npz", tmp_path / "out.caffemodel")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npz"]


def test_code_in_a_state_dict_does_not_run(tmp_path):
    torch = pytest.importorskip("torch")
    ran = tmp_path / "ran"

    class Attack:
        def __reduce__(self):
            return (open, (str(ran), "w"))

    torch.save({"a": torch.ones(1), "b": Attack()}, tmp_path / "x.pt")
    with pytest.raises(ModelFileError, match="cannot read it as tensors") as caught:
        open_weights(tmp_path / "x.pt")
    assert not ran.exists()
    assert "it contains io.open" in str(caught.value)
    assert "weights_only" not in str(caught.value), "torch's own advice is dangerous"


def _strange(h5py, file):
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_ebias(1 << 20)
    h5py.h5d.create(file.id, b"a", kind, h5py.h5s.create_simple((2,)))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_strange, "damaged"),
        (
            lambda _, file: file.create_dataset("a", (1 << 40,), "f4", chunks=(1024,)),
            "claims 4398046511104 bytes, but only 0 are stored",
        ),
        (
            lambda _, file: file.create_dataset("a", (1,), [("re", "f4"), ("im", "f8")]),
            r"tensor 'a' has dtype \[\('re', '<f4'\), \('im', '<f8'\)\], which a Blob cannot hold",
        ),
    ],
)
def test_hdf5_that_is_damaged_or_hostile(tmp_path, make, reason):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        make(h5py, file)
    with pytest.raises(ModelFileError, match=reason):
        open_weights(tmp_path / "x.h5")


# --- the description of the layers ---------------------------------------------------------------

_LAYER = {"tensors": ["a.x"], "proto": "CgFh"}


def _described(*layers, **changes):
    return json.dumps({"version": 1, "net": "n", "settings": "", "layers": layers} | changes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "JSONDecodeError"),
        ("[" * 100_000, "RecursionError"),
        ("3", "TypeError"),
        ("{}", "KeyError"),
        (_described(_LAYER, version=2), "expected version 1, got 2"),
        (_described({**_LAYER, "proto": 1}), "TypeError"),
        (_described({**_LAYER, "proto": "?"}), "Error"),
        (_described({**_LAYER, "proto": "//8="}), "DecodeError"),
        (_described(_LAYER, settings="no base64"), "Error"),
        (_described(_LAYER, settings="/w=="), "DecodeError"),
        (_described(), "about other tensors"),
        (_described({**_LAYER, "tensors": ["a.y"]}), "about other tensors"),
        (_described(_LAYER, _LAYER), "about other tensors"),
    ],
)
def test_a_description_that_does_not_fit(tmp_path, text, reason):
    path = tmp_path / "x.safetensors"
    safetensors.numpy.save_file({"a.x": np.ones(2)}, path, metadata={"syncblob": text})
    with pytest.raises(ModelFileError, match="does not fit") as caught:
        open_weights(path)
    assert reason in str(caught.value)


def test_layers_and_a_name_among_the_settings_of_the_net_are_ignored(tmp_path):
    hidden = NetParameter(name="x", force_backward=True, layer=[{"name": "y"}])
    text = _described(_LAYER, settings=b64encode(hidden.SerializeToString()).decode())
    path = tmp_path / "x.safetensors"
    safetensors.numpy.save_file({"a.x": np.ones(2)}, path, metadata={"syncblob": text})
    convert(path, tmp_path / "x.caffemodel")
    net = syncblob.open_model(tmp_path / "x.caffemodel").to_net()
    assert (net.name, [layer.name for layer in net.layer]) == ("n", ["a"])
    assert net.force_backward


def test_a_tree_of_hdf5_that_is_damaged(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["a/b"] = np.ones(2)
    # The type of a node in a tree.
    path.write_bytes(path.read_bytes().replace(b"TREE\0", b"TREE\x77"))
    with pytest.raises(ModelFileError, match="finds the file damaged"):
        open_weights(path)


# --- files with the extension of another format --------------------------------------------------


@pytest.mark.parametrize(
    ("message", "opener"),
    [
        (SolverState(iter=7, history=[BlobProto(data=[1])]), "open_solver_state"),
        (BlobProto(shape=BlobShape(dim=[1]), data=[1]), "read_blob"),
    ],
)
def test_files_whose_blobs_have_no_names(tmp_path, message, opener):
    for name in ("x.solverstate", "x.npz", "x"):
        (tmp_path / name).write_bytes(message.SerializeToString())
        with pytest.raises(ModelFileError, match=f"weights with names, this is .*; use {opener}"):
            open_weights(tmp_path / name)
