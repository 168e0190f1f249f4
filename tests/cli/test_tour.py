"""What the tour claims and shows, compared with what is measured here."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import syncblob
from syncblob import Blob, Head
from syncblob.cli import tour
from syncblob.cli._lenet import write_lenet
from syncblob.cli._steps import STEPS
from syncblob.cli._walk import walk

pytestmark = pytest.mark.usefixtures("no_cuda")

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

_LENET_SHAPES = [
    (20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (500, 800), (500,), (10, 500), (10,),
]  # fmt: skip


@pytest.fixture
def opened(monkeypatch):
    """Collect the models that the tour opens."""
    models = []
    real = syncblob.open_model

    def open_model(path):
        models.append(real(path))
        return models[-1]

    monkeypatch.setattr(syncblob, "open_model", open_model)
    return models


# --- its claims ----------------------------------------------------------------------------------


def test_the_transfers_are_those_that_the_device_counts(tour_json, simulated):
    report = tour_json()
    moved = [transfer for step in report["steps"] for transfer in step["moved"]]
    up = [transfer["bytes"] for transfer in moved if transfer["direction"] == "upload"]
    down = [transfer["bytes"] for transfer in moved if transfer["direction"] == "download"]
    downloads = 5 if "PyTorch" in report["versions"] else 2
    assert len(up) == simulated.uploads == 3
    assert len(down) == simulated.downloads == downloads
    assert sum(up) == simulated.uploaded_bytes == 3 * 500 * 800 * 4
    assert sum(down) == simulated.downloaded_bytes == downloads * 500 * 800 * 4
    assert report["totals"]["transfers"] == 3 + downloads
    assert report["totals"]["moved_bytes"] == (3 + downloads) * 500 * 800 * 4
    assert report["totals"]["copied_bytes"] == 500 * 800 * 4
    assert report["totals"]["copying_each_time_bytes"] == (
        report["totals"]["hand_overs"] * 500 * 800 * 4
    )


def test_the_addresses_are_those_of_the_blob(tour_json, opened):
    report = tour_json()
    blob = opened[0]["ip1"].blobs[0]
    homes = {
        "host": blob.cpu_data().ctypes.data,
        "accelerator": blob.gpu_data().ctypes.data,
    }
    arrays = [array for step in report["steps"] for array in step["arrays"]]
    for array in arrays:
        assert array["bytes"] == blob.nbytes
        if array["memory"] == "own copy":
            assert array["address"] not in homes.values()
        else:
            assert array["address"] == homes[array["memory"]]
    assert {array["memory"] for array in arrays} == {"host", "accelerator", "own copy"}


@needs_torch
def test_the_contents_are_those_of_the_code(tour_json, opened, tmp_path):
    write_lenet(tmp_path / "lenet.caffemodel")
    tour_json(tmp_path / "lenet.caffemodel")
    weights = np.array(syncblob.open_model(tmp_path / "lenet.caffemodel")["ip1"].blobs[0])
    # Halved on the accelerator and doubled through the alias: only the host leaves traces.
    weights = (weights + np.float32(1)) * np.float32(0.5)
    gradient = np.float32(0.1) * weights
    star = opened[0]["ip1"].blobs[0]
    np.testing.assert_array_equal(np.asarray(star), weights - gradient)
    np.testing.assert_array_equal(np.asarray(star.diff), gradient)


@needs_torch
def test_heads_and_moves_step_by_step(tour_json):
    steps = tour_json()["steps"]
    found = [
        (step["title"], [move["direction"] for move in step["moved"]], step["head"])
        for step in steps
    ]
    assert found == [
        ("NumPy reads", [], "HEAD_AT_CPU"),
        ("NumPy again", [], "HEAD_AT_CPU"),
        ("NumPy copies", [], "HEAD_AT_CPU"),
        ("accelerator reads", ["upload"], "SYNCED"),
        ("accelerator again", [], "SYNCED"),
        ("accelerator writes", [], "HEAD_AT_GPU"),
        ("NumPy reads", ["download"], "SYNCED"),
        ("torch takes it", [], "HEAD_AT_GPU"),
        ("NumPy reads", ["download"], "HEAD_AT_GPU"),
        ("torch computes", [], "HEAD_AT_GPU"),
        ("NumPy sees it", ["download"], "HEAD_AT_GPU"),
        ("torch lets go", [], "HEAD_AT_GPU"),
        ("NumPy reads", ["download"], "SYNCED"),
        ("NumPy again", [], "SYNCED"),
        ("NumPy writes", [], "HEAD_AT_CPU"),
        ("torch takes it", [], "HEAD_AT_CPU"),
        ("torch computes", [], "HEAD_AT_CPU"),
        ("torch lets go", [], "HEAD_AT_CPU"),
        ("accelerator reads", ["upload"], "SYNCED"),
        ("torch only reads", [], "SYNCED"),
        ("gradient written", ["upload"], "SYNCED"),
        ("update", [], "HEAD_AT_GPU"),
        ("NumPy reads", ["download"], "SYNCED"),
    ]
    assert [step["step"] for step in steps] == list(range(1, 24))
    assert steps[0]["head_before"] == "UNINITIALIZED"
    for before, after in itertools.pairwise(steps):
        assert after["head_before"] == before["head"]


def test_the_code_that_is_shown_gives_the_same_when_a_user_types_it(tour_json, tmp_path):
    path = tmp_path / "lenet.caffemodel"
    write_lenet(path)
    steps = tour_json(path)["steps"]
    with syncblob.use_device("simulated"):
        blob = syncblob.open_model(path)["ip1"].blobs[0]
    # A session: what a line binds stays alive. None where torch is missing: no step needs it.
    session = {"np": np, "torch": sys.modules.get("torch"), "blob": blob}
    for step in steps:
        with syncblob.record_transfers() as log:
            exec(step["code"], session)  # noqa: S102  # that is what is tested
        assert [(t.direction, t.nbytes, t.reason) for t in log] == [
            (move["direction"], move["bytes"], move["access"]) for move in step["moved"]
        ]
        assert blob.head.name == step["head"]
        assert blob.diff_head.name == step["diff_head"]


def test_reasons(tour_json):
    reasons = {(step["title"], step["why"]) for step in tour_json()["steps"]}
    assert reasons >= {
        ("NumPy reads", "read from the file"),
        ("NumPy again", "newest already there"),
        ("NumPy copies", "a copy was asked for"),
        ("accelerator reads", "newest on the host"),
        ("NumPy reads", "newest on accelerator"),
        ("gradient written", "gradient on the host"),
        ("update", "newest already there"),
    }


# --- what is shown -------------------------------------------------------------------------------


def test_it_fits_80_columns_in_plain_text(terminal):
    done = terminal("tour", NO_COLOR="1")
    assert done.status == 0
    assert done.out.isascii()
    assert "\x1b" not in done.out
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines == [line.rstrip() for line in lines]


def test_it_fits_80_columns_with_the_longest_sizes(run, write_model):
    # 1023.9 KiB: as many characters as a size can have.
    done = run("tour", write_model(("a", "B", [np.ones(262_118, "f4")])))
    assert "download 1023.9 KiB" in done.out
    lines = done.out.splitlines()
    assert max(len(line) for line in lines if not line.startswith("model")) <= 80
    newest = 3 if "PyTorch" in done.out.partition("skipped")[0] else 2
    (table,) = [i for i, line in enumerate(lines) if line.startswith("What was shared")]
    assert sum(line.endswith("  newest on accelerator") for line in lines[table:]) == newest
    step = re.compile(r"    host 0x\w+ +download 1023\.9 KiB: newest on accelerator")
    assert sum(bool(step.fullmatch(line)) for line in lines) == newest


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_shows_the_same_in_colour(terminal, spawn, columns):
    coloured = terminal("tour", columns=columns)
    assert coloured.status == 0
    assert "\x1b[" in coloured.out
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured.out)
    assert max(map(len, bare.splitlines())) <= columns
    assert _steps_and_table(bare) == _steps_and_table(spawn("tour").out)


def _steps_and_table(text):
    """Return the part from the first step on, without what differs between runs and styles."""
    text = text[text.index("NumPy opens") :]
    text = re.sub(r"0x[0-9a-f]+ *", "ADDRESS ", text)
    text = re.sub("[-\N{BOX DRAWINGS LIGHT HORIZONTAL}]{20,}", "", text)
    return [line.rstrip() for line in text.splitlines()]


def test_the_text_and_the_json_agree(tour_json, run):
    report = tour_json()
    text = run("tour").out
    for step in report["steps"]:
        line = rf"^ ?{step['step']}  {re.escape(step['code'])} +{step['head']}$"
        assert re.search(line, text, re.MULTILINE), line
    assert len(re.findall(r"^ ?\d+  .* upload 1\.5 MiB ", text, re.MULTILINE)) == 3
    assert f"in {report['totals']['transfers']} transfers" in text
    assert f"each of the {report['totals']['hand_overs']} hand-overs" in text


def test_the_layers_with_nothing_read(run):
    text = run("tour").out
    for shape in _LENET_SHAPES:
        assert re.search(rf" {re.escape(str(shape))} +float32  UNINITIALIZED$", text, re.MULTILINE)
    assert "0 of 8 Blobs have been read." in text
    assert "blob = model['ip1'].blobs[0]  # 1.5 MiB" in text


def test_a_long_list_of_layers_is_cut(run, write_model):
    path = write_model(*((f"layer{i:03}", "Scale", [[float(i)]]) for i in range(200)))
    text = run("tour", path).out
    assert "layer011" in text
    assert "layer012" not in text
    assert "... and 188 more; syncblob inspect lists them" in text


# --- the model -----------------------------------------------------------------------------------


def test_the_lenet_goes_away_again(tour_json, opened):
    tour_json()
    (model,) = opened
    assert model.path.endswith("lenet.caffemodel")
    assert not Path(model.path).exists()


def test_the_lenet_is_a_caffe_model(tmp_path):
    write_lenet(tmp_path / "lenet.caffemodel")
    model = syncblob.open_model(tmp_path / "lenet.caffemodel")
    assert list(model) == ["conv1", "conv2", "ip1", "ip2"]
    assert [blob.shape for layer in model.layers for blob in layer.blobs] == _LENET_SHAPES
    weights = np.asarray(model["conv2"].blobs[0])
    assert np.unique(weights).size > 20_000
    write_lenet(tmp_path / "again.caffemodel")
    assert (tmp_path / "again.caffemodel").read_bytes() == (
        tmp_path / "lenet.caffemodel"
    ).read_bytes()


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("mtcnn_det2.caffemodel", "conv4"),
        ("cifar10_quick_v1.caffemodel", "ip1"),
        ("tiny_v2.caffemodel", "conv1/3x3_s1"),
    ],
)
def test_a_real_model(tour_json, real_files, name, layer):
    report = tour_json(real_files / name)
    assert report["ok"]
    assert report["model"] == str(real_files / name)
    assert report["blob"]["layer"] == layer
    blob = syncblob.open_model(real_files / name)[layer].blobs[0]
    assert report["blob"]["shape"] == list(blob.shape)
    transfers = 8 if "PyTorch" in report["versions"] else 5
    assert report["totals"]["moved_bytes"] == transfers * blob.nbytes


def test_very_large_blobs_stay_in_their_file(tour_json, write_model, monkeypatch):
    path = write_model(("a", "A", [np.ones(40, "f4")]), ("b", "B", [np.ones(10, "f4")]))
    assert tour_json(path)["blob"]["layer"] == "a"
    monkeypatch.setattr(tour, "_LARGEST", 100)
    assert tour_json(path)["blob"]["layer"] == "b"
    monkeypatch.setattr(tour, "_LARGEST", 10)
    assert tour_json(path)["blob"]["layer"] == "b"


def test_weights_that_are_not_finite(spawn, write_model):
    path = write_model(
        ("a", "A", [np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 0.0], "f4")])
    )
    done = spawn("tour", path)
    assert done.status == 0
    assert "All checks passed" in done.out


def test_double_precision_with_a_gradient_in_the_file(tour_json, write_model):
    path = write_model(("a", "A", [np.array([1.0, 2.0, 3.0])]), gradient=True)
    report = tour_json(path)
    assert report["blob"]["dtype"] == "float64"
    moves = {
        step["title"]: [move["direction"] for move in step["moved"]] for step in report["steps"]
    }
    # Written on the device of the Blob, as one that did not come with the file.
    assert moves["gradient written"] == ["upload"]
    assert moves["update"] == []


def test_layers_of_one_name_are_told_apart(run, write_model):
    path = write_model(("a", "A", [[1.0]]), ("a", "A", [[1.0, 2.0]]))
    assert "blob = model.layers[1].blobs[0]  # 16 B" in run("tour", path).out


def test_a_model_without_weights(run, write_model):
    path = write_model(("data", "Input", []), ("empty", "Scale", [np.ones((0, 3), "f4")]))
    done = run("tour", path)
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        f"syncblob: error: {path}: no layer has weights, so there is nothing to show\n"
    )


def test_a_file_that_is_no_model(run, tmp_path):
    path = tmp_path / "mean.binaryproto"
    path.write_bytes(Blob.asarray(np.ones(2, "f4")).to_proto().SerializeToString())
    done = run("tour", path)
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        f"syncblob: error: {path}: expected a .caffemodel, got binaryproto, one blob; "
        f"syncblob inspect {path} shows it\n"
    )


def test_weights_of_another_format(run, tmp_path):
    np.savez(tmp_path / "x.npz", a=np.ones(2, "f4"))
    done = run("tour", tmp_path / "x.npz")
    assert (done.status, done.out) == (1, "")
    assert f"syncblob convert {tmp_path / 'x.npz'} net.caffemodel makes one of it" in done.err


# --- the script ----------------------------------------------------------------------------------


def test_the_script_leaves_the_blob_synced():
    with syncblob.use_device("simulated"):
        blob = Blob.from_source((3,), "float32", lambda: np.ones(3, "f4").view(np.uint8))
    outcomes = list(walk(blob, {}))
    assert [outcome.step for outcome in outcomes] == [s for s in STEPS if s.needs is None]
    assert not any(outcome.problems for outcome in outcomes)
    assert blob.head is Head.SYNCED
