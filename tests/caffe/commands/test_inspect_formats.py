"""``syncblob inspect`` of files of other formats."""

import numpy as np
import pytest
from comparable_models import need_library_of

from syncblob import Blob
from syncblob.caffe._pb.caffe_pb2 import SolverState
from syncblob.caffe.convert import convert


@pytest.mark.parametrize("extension", ["safetensors", "npz", "h5", "caffemodel.h5", "pt"])
def test_files_of_other_formats(inspect_json, small_model, tmp_path, extension):
    need_library_of(extension)
    path = tmp_path / f"x.{extension}"
    convert(small_model, path)
    expected, found = inspect_json(small_model), inspect_json(path)
    assert found["format"] == {"h5": "hdf5", "pt": "torch"}.get(extension, extension)
    assert found["version"] is None
    assert found["totals"]["bytes"] == expected["totals"]["bytes"]
    if extension == "safetensors":
        assert found["layers"] == expected["layers"]
        assert found["net"] == "small"
    assert inspect_json(path.rename(tmp_path / "x"))["layers"] == found["layers"]


def test_a_solver_state(run, inspect_json, tmp_path):
    path = tmp_path / "x.solverstate"
    history = [Blob.asarray(np.ones(3, "f4")).to_proto()]
    state = SolverState(iter=7, current_step=2, learned_net="x_iter_7", history=history)
    path.write_bytes(state.SerializeToString())
    found = inspect_json(path)
    assert found["format"] == "solverstate"
    assert found["solver"] == {"iter": 7, "current_step": 2, "learned_net": "x_iter_7"}
    assert found["layers"][0]["blobs"][0]["shape"] == [3]
    out = run("inspect", path).out
    assert "learned net   x_iter_7" in out
    assert "history" in out


def test_a_tensor_that_cannot_be_read(run, inspect_json, tmp_path):
    torch = pytest.importorskip("torch")
    bad = torch.ones(2).to(torch.float8_e4m3fn)
    path = tmp_path / "x.pt"
    torch.save({"good.weight": torch.ones(2), "bad.weight": bad, "bad.bias": torch.ones(2)}, path)
    done = run("inspect", path, "--stats")
    assert done.status == 0
    assert "Not shown: the layers of 1 tensor that cannot be read: tensor 'bad.weight'" in done.out
    found = inspect_json(path)
    assert [layer["name"] for layer in found["layers"]] == ["good"]
    assert list(found["unreadable"]) == ["bad.weight"]
    done = run("diff", path, path)
    assert (done.status, done.out) == (2, "")
    assert "tensor 'bad.weight' has dtype float8_e4m3fn" in done.err
