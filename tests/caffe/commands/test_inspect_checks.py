"""``syncblob inspect --check``, and files of other formats."""

import json

import numpy as np
import pytest
from comparable_models import need_library_of

import syncblob
from syncblob import Blob
from syncblob.caffe._pb.caffe_pb2 import SolverState
from syncblob.caffe.convert import convert


def _filters(*dead, axis=0, shape=(4, 3, 2, 2), tiny=0.0):
    weights = np.random.default_rng(0).normal(size=shape).astype("f4")
    for number in dead:
        np.moveaxis(weights, axis, 0)[number] *= tiny
    return weights


# --- checks --------------------------------------------------------------------------------------


def test_troubles(run, write_model):
    bias = np.ones(4, "f4")
    bias[1], bias[3] = np.nan, -np.inf
    path = write_model(
        ("conv", "Convolution", [_filters(1, 3), bias]),
        ("bn", "BatchNorm", [np.zeros(2, "f4"), np.array([1, -1], "f4"), np.ones(1, "f4")]),
    )
    done = run("inspect", path, "--check")
    assert done.status == 1
    lines = done.out.splitlines()
    start = lines.index("Checks") + 1
    assert lines[start : start + 7] == [
        "layer  blob  kind               affected  total  where",
        "--------------------------------------------------------------",
        "conv      0  dead filters              2      4  1, 3",
        "conv      1  NaN                       1      4  first at (1,)",
        "conv      1  infinite                  1      4  first at (3,)",
        "bn        1  negative variance         1      2  first at (1,)",
        "",
    ]
    done = run("inspect", path, "--check", "--json")
    assert done.status == 1
    found = json.loads(done.out, parse_constant=pytest.fail)["troubles"]
    assert found[0] == {
        "layer": "conv",
        "blob": 0,
        "kind": "dead filters",
        "affected": 2,
        "total": 4,
        "where": "1, 3",
    }
    assert len(found) == 4


@pytest.mark.parametrize(
    ("kind", "arrays", "dead"),
    [
        ("Convolution", [_filters()], []),
        ("Convolution", [_filters(2)], [2]),
        ("Convolution", [_filters(2, tiny=1e-8)], [2]),
        ("Convolution", [_filters(2, tiny=1e-4)], []),
        ("Convolution", [_filters(0, 1, 2, 3)], [0, 1, 2, 3]),
        ("", [_filters(2)], [2]),
        ("InnerProduct", [_filters(2, shape=(4, 5))], [2]),
        ("InnerProduct", [_filters(2, shape=(4, 5))[None, None]], [2]),
        ("Deconvolution", [_filters(2, axis=1)], [2]),
        ("Deconvolution", [_filters(2)], []),
        ("Embed", [_filters(2, shape=(4, 5))], []),
        ("PReLU", [np.zeros(4, "f4")], []),
        ("Convolution", [_filters(), np.zeros((4, 1), "f4")], []),
        ("Convolution", [np.zeros((0, 3, 2, 2), "f4")], []),
    ],
)
def test_dead_filters(run, write_model, kind, arrays, dead):
    done = run("inspect", write_model(("x", kind, arrays)), "--check", "--json")
    found = json.loads(done.out)["troubles"]
    assert [trouble["kind"] for trouble in found] == ["dead filters"] * bool(dead)
    assert [trouble["where"] for trouble in found] == [", ".join(map(str, dead))] * bool(dead)
    assert done.status == bool(dead)


_STATISTICS = [np.array([-1, 1], "f4"), np.array([4, 9], "f4")]
_AFFINE = [np.array([1, -2], "f4"), np.array([-3, 5], "f4")]
_ZERO, _ONE = np.zeros(1, "f4"), np.ones(1, "f4")
_NEGATIVE = np.array([-4, 9], "f4")


def _four_axes(arrays):
    return [array.reshape(1, -1, 1, 1) for array in arrays]


@pytest.mark.parametrize("kind", ["BatchNorm", ""])
@pytest.mark.parametrize(
    ("arrays", "troubles"),
    [
        ([*_STATISTICS, _ONE], []),
        ([*_STATISTICS, _ZERO], [(2, "scale factor 0")]),
        ([_STATISTICS[0], _NEGATIVE, _ZERO], [(1, "negative variance"), (2, "scale factor 0")]),
        ([_ONE, _ONE, _ZERO], [(2, "scale factor 0")]),
        # NVCaffe since 0.16, whose correction is 0 in older files.
        ([*_STATISTICS, _ZERO, *_AFFINE], []),
        ([_STATISTICS[0], _NEGATIVE, _ONE, *_AFFINE], [(1, "negative variance")]),
        # NVCaffe before 0.16.
        (_four_axes([*_AFFINE, *_STATISTICS, _ZERO]), []),
        (_four_axes([np.zeros(2, "f4"), _STATISTICS[1], _ONE]), []),
        (_four_axes([*_AFFINE, _STATISTICS[0], _NEGATIVE, _ZERO]), [(3, "negative variance")]),
    ],
)
def test_batch_norms_of_caffe_and_nvcaffe(run, write_model, kind, arrays, troubles):
    done = run("inspect", write_model(("bn", kind, arrays)), "--check", "--json")
    found = json.loads(done.out)
    assert [(trouble["blob"], trouble["kind"]) for trouble in found["troubles"]] == troubles
    assert found["unchecked"] == []
    assert done.status == bool(troubles)


@pytest.mark.parametrize(
    ("kind", "arrays", "unclear"),
    [
        ("", [_filters()], True),
        ("", [np.eye(3)[None, None]], True),
        ("", [np.ones(3), np.ones(3)], False),
        ("", [np.ones(3)] * 4, True),
        ("", [np.ones(2), np.ones(2), np.ones(1)], False),
        ("", [], False),
        ("Convolution", [_filters()], False),
        ("LSTM", [np.ones(3)] * 4, False),
        # The order of the blobs is not guessed.
        ("BatchNorm", [*_AFFINE, *_STATISTICS], True),
        ("BatchNorm", [_ONE] * 5, True),
        ("BatchNorm", [*_STATISTICS, np.ones(3, "f4")], True),
        ("BatchNorm", [np.ones((2, 2), "f4"), np.ones((2, 2), "f4"), _ONE], True),
    ],
)
def test_what_was_not_checked_is_said(run, write_model, kind, arrays, unclear):
    path = write_model(("x", kind, arrays), ("known", "Convolution", [_filters()]))
    done = run("inspect", path, "--check")
    assert done.status == 0
    assert ("Not checked: 1 layer of unknown type or layout (x): for" in done.out) == unclear
    assert ("and no filter is dead" in done.out) != unclear
    found = json.loads(run("inspect", path, "--check", "--json").out)
    assert found["unchecked"] == ["x"] * unclear


def test_what_was_not_checked_is_said_beside_troubles_too(run, write_model):
    names = [f"x{i}" for i in range(10)]
    path = write_model(*((name, "", [_filters(2)]) for name in names))
    done = run("inspect", path, "--check")
    assert done.status == 1
    assert "Not checked: 10 layers of unknown type or layout (x0, x1, x2, x3, x4," in done.out
    assert json.loads(run("inspect", path, "--check", "--json").out)["unchecked"] == names


def test_a_check_of_nothing_finds_no_peace(run, write_model):
    path = write_model(("x", "ReLU", []))
    for more in ([], ["--json"]):
        done = run("inspect", path, "--check", *more)
        assert (done.status, done.out) == (1, "")
        assert "--check: expected blobs to check, got none" in done.err


def test_a_mean_has_no_filters(run, tmp_path):
    syncblob.write_blob(np.zeros((1, 3, 2, 2), "f4"), tmp_path / "x.binaryproto")
    done = run("inspect", tmp_path / "x.binaryproto", "--check")
    assert done.status == 0
    assert done.out.endswith("No trouble found: all values are finite.\n")


def test_only_some_of_many_dead_filters_are_named(run, write_model):
    path = write_model(("x", "Convolution", [_filters(*range(20), shape=(30, 1, 1, 1))]))
    (found,) = json.loads(run("inspect", path, "--check", "--json").out)["troubles"]
    assert found["affected"] == 20
    assert found["where"] == "0, 1, 2, 3, 4, 5, 6, 7, ..."


# --- files of other formats ----------------------------------------------------------------------


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
    out = run("inspect", path, "--check").out
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
    for arguments in (["inspect", path, "--check"], ["diff", path, path]):
        done = run(*arguments)
        assert (done.status, done.out) == (2 if arguments[0] == "diff" else 1, "")
        assert "tensor 'bad.weight' has dtype float8_e4m3fn" in done.err
