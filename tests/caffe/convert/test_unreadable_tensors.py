"""Files with a tensor that a Blob cannot hold: the others can be read."""

import re

import numpy as np
import pytest
from comparable_models import need_library_of, safetensors_file

from syncblob import ModelFileError
from syncblob.caffe.convert import convert, open_weights

GOOD = np.arange(2, dtype="f4")


def _safetensors(path):
    entries = {
        "good.weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "bad.weight": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [8, 10]},
        "bad.bias": {"dtype": "F32", "shape": [2], "data_offsets": [10, 18]},
    }
    path.write_bytes(safetensors_file(entries, GOOD.tobytes() + bytes(2) + GOOD.tobytes()))


def _torch(path, bad=None):
    import torch

    good = torch.from_numpy(GOOD)
    bad = good.to(torch.float8_e4m3fn) if bad is None else bad
    torch.save({"good.weight": good, "bad.weight": bad, "bad.bias": good}, path)


def _npz(path):
    objects = np.array([{"a": 1}, None])
    np.savez(path, **{"good.weight": GOOD, "bad.weight": objects, "bad.bias": GOOD})


def _h5(path):
    import h5py

    with h5py.File(path, "w") as file:
        file["good.weight"] = file["bad.bias"] = GOOD
        file["bad.weight"] = np.zeros(2, [("re", "f4"), ("im", "f8")])


WRITERS = {
    "safetensors": (_safetensors, "F8_E4M3"),
    "pt": (_torch, "float8_e4m3fn"),
    "npz": (_npz, "has dtype object"),
    "h5": (_h5, r"dtype \[\('re', '<f4'\), \('im', '<f8'\)\]"),
}


@pytest.fixture(params=WRITERS)
def unreadable(request, tmp_path):
    """Write a file with a tensor that cannot be read, and return it with a part of the error."""
    need_library_of(request.param)
    write, reason = WRITERS[request.param]
    write(tmp_path / f"x.{request.param}")
    return tmp_path / f"x.{request.param}", reason


def test_the_others_can_be_read_and_the_reason_names_this_one(unreadable):
    path, reason = unreadable
    with open_weights(path) as weights:
        assert {name: blob.tolist() for name, blob in weights.tensors.items()} == {
            "good.weight": [0, 1]
        }
        assert [each.layer.name for each in weights.layers] == ["good"]
        assert list(weights.unreadable) == ["bad.weight"]
        assert re.search(rf"bad\.weight.*{reason}", weights.unreadable["bad.weight"])


def test_layers_without_it_are_converted(unreadable, tmp_path):
    path, reason = unreadable
    for target in ("out.caffemodel", "out.npz", "out.pt"):
        need_library_of(target.partition(".")[2])
        with pytest.raises(ModelFileError, match=rf"bad\.weight.*{reason}"):
            convert(path, tmp_path / target)
        convert(path, tmp_path / target, layers="good")
        with open_weights(tmp_path / target) as weights:
            assert list(weights.tensors) == ["good.weight"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _, ones: ones.to_sparse(), "is torch.sparse_coo, not dense"),
        (lambda _, ones: ones.to("meta"), "has no values"),
        (lambda torch, ones: ones.to(torch.float8_e5m2), "has dtype float8_e5m2"),
        (lambda torch, ones: torch.quantize_per_tensor(ones, 0.1, 0, torch.qint8), ""),
    ],
    ids=["sparse", "meta", "float8", "quantized"],
)
@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning")
def test_tensors_of_torch_that_cannot_be_read(tmp_path, make, reason):
    torch = pytest.importorskip("torch")
    bad = make(torch, torch.ones(2))
    _torch(tmp_path / "x.pt", bad)
    with open_weights(tmp_path / "x.pt") as weights:
        assert weights.tensors["good.weight"].tolist() == [0, 1]
        assert re.match(rf"tensor 'bad\.weight' .*{reason}", weights.unreadable["bad.weight"])
    # If there is nothing else, opening the file is the error.
    torch.save({"a": bad}, tmp_path / "x.pt")
    with pytest.raises(ModelFileError, match=f"tensor 'a' .*{reason}"):
        open_weights(tmp_path / "x.pt")


def test_a_tensor_that_repeats_few_values_many_times(tmp_path):
    torch = pytest.importorskip("torch")
    _torch(tmp_path / "x.pt", torch.zeros(1).expand(1 << 20, 1 << 20))
    with open_weights(tmp_path / "x.pt") as weights:
        assert list(weights.tensors) == ["good.weight"]
        why = weights.unreadable["bad.weight"]
    assert "claims 4398046511104 bytes, of which 4 are stored" in why
