"""The claims and the output of the tour, compared with measurements."""

from __future__ import annotations

import importlib.util
import io
import itertools
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import syncblob
from syncblob import Blob
from syncblob.cli import tour
from syncblob.cli._lenet import write_lenet
from syncblob.cli._tour_walk import walk
from syncblob.devices.simulated import SimulatedBackend
from syncblob.interop.side_view import SideView
from syncblob.memory import Access

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


def blob_of(values):
    with syncblob.use_device("simulated"):
        return Blob.from_source(
            (len(values),), "float32", np.array(values, "f4").view(np.uint8).copy
        )


# --- claims --------------------------------------------------------------------------------------


def test_the_transfers_are_those_that_the_device_counts(tour_json, simulated):
    report = tour_json()
    moved = [transfer for step in report["steps"] for transfer in step["moved"]]
    up = [transfer["bytes"] for transfer in moved if transfer["direction"] == "upload"]
    down = [transfer["bytes"] for transfer in moved if transfer["direction"] == "download"]
    downloads = 5 if "PyTorch" in report["versions"] else 2
    nbytes = 500 * 800 * 4
    assert len(up) == simulated.uploads == 3
    assert len(down) == simulated.downloads == downloads
    assert sum(up) == simulated.uploaded_bytes == 3 * nbytes
    assert sum(down) == simulated.downloaded_bytes == downloads * nbytes
    totals = report["totals"]
    assert totals["transfers"] == 3 + downloads
    assert totals["moved_bytes"] == (3 + downloads) * nbytes
    assert totals["copied_bytes"] == nbytes
    assert totals["copying_each_time_bytes"] == totals["hand_overs"] * nbytes


def test_the_addresses_are_those_of_the_blob(tour_json, opened):
    report = tour_json()
    blob = opened[0]["ip1"].blobs[0]
    homes = {"host": blob.cpu_data().ctypes.data, "accelerator": blob.gpu_data().ctypes.data}
    arrays = [array for step in report["steps"] for array in step["arrays"]]
    for array in arrays:
        assert array["bytes"] == blob.nbytes
        if array["memory"] == "own copy":
            assert array["address"] not in homes.values()
        else:
            assert array["address"] == homes[array["memory"]]
    assert {array["memory"] for array in arrays} == {"host", "accelerator", "own copy"}


_STEPS = """
NumPy reads         |          | HEAD_AT_CPU |             | read from the file
NumPy again         |          | HEAD_AT_CPU |             | newest already there
NumPy copies        |          | HEAD_AT_CPU |             | a copy was asked for
accelerator reads   | upload   | SYNCED      |             | newest on the host
accelerator again   |          | SYNCED      |             | newest already there
accelerator writes  |          | HEAD_AT_GPU |             | newest already there
NumPy reads         | download | SYNCED      |             | newest on accelerator
torch takes it      |          | HEAD_AT_GPU | accelerator | newest already there
NumPy reads         | download | HEAD_AT_GPU | accelerator | an alias may write
torch computes      |          | HEAD_AT_GPU | accelerator | through the alias
NumPy sees it       | download | HEAD_AT_GPU | accelerator | an alias may write
torch lets go       |          | HEAD_AT_GPU |             | the alias is gone
NumPy reads         | download | SYNCED      |             | newest on accelerator
NumPy again         |          | SYNCED      |             | newest already there
NumPy writes        |          | HEAD_AT_CPU |             | newest already there
torch takes it      |          | HEAD_AT_CPU | host        | newest already there
torch computes      |          | HEAD_AT_CPU | host        | newest already there
torch lets go       |          | HEAD_AT_CPU |             | the alias is gone
accelerator reads   | upload   | SYNCED      |             | newest on the host
torch only reads    |          | SYNCED      |             | newest already there
gradient written    | upload   | SYNCED      |             | gradient on the host
update              |          | HEAD_AT_GPU |             | newest already there
NumPy reads         | download | SYNCED      |             | newest on accelerator
"""


@needs_torch
def test_what_happens_step_by_step(tour_json):
    steps = tour_json()["steps"]
    found = [
        (
            step["title"],
            " ".join(move["direction"] for move in step["moved"]),
            step["head"],
            " ".join(step["aliased"]),
            step["why"],
        )
        for step in steps
    ]
    rows = _STEPS.strip().splitlines()
    assert found == [tuple(cell.strip() for cell in row.split("|")) for row in rows]
    assert [step["step"] for step in steps] == list(range(1, 24))
    assert steps[0]["head_before"] == "UNINITIALIZED"
    for before, after in itertools.pairwise(steps):
        assert after["head_before"] == before["head"]


def test_the_code_that_is_shown_gives_the_same_when_a_user_types_it(tour_json, opened, tmp_path):
    path = tmp_path / "lenet.caffemodel"
    write_lenet(path)
    steps = tour_json(path)["steps"]
    with syncblob.use_device("simulated"):
        blob = syncblob.open_model(path)["ip1"].blobs[0]
    # Variables of earlier lines stay alive. torch is None if it is missing: then no step needs it.
    session = {"np": np, "torch": sys.modules.get("torch"), "blob": blob}
    for step in steps:
        with syncblob.record_transfers() as log:
            exec(step["code"], session)  # noqa: S102  # the code under test
        assert [(t.direction, t.nbytes, t.reason) for t in log] == [
            (move["direction"], move["bytes"], move["access"]) for move in step["moved"]
        ]
        assert blob.head.name == step["head"]
        assert blob.diff_head.name == step["diff_head"]
    shown = opened[0]["ip1"].blobs[0]
    np.testing.assert_array_equal(np.asarray(shown), np.asarray(blob))
    np.testing.assert_array_equal(np.asarray(shown.diff), np.asarray(blob.diff))


@pytest.mark.parametrize(
    "names", ["", "cupy", "torch", "torch accelerator", "cupy torch", "cupy torch accelerator"]
)
def test_every_choice_of_libraries(names):
    # This replaces CuPy. It works on memory that NumPy can access.
    cupy = SimpleNamespace(asarray=np.asarray) if "cupy" in names else None
    torch = pytest.importorskip("torch") if "torch" in names else None
    blob = blob_of([0, 1, 2])
    steps = list(walk(blob, cupy, torch, torch_on_accelerator="accelerator" in names))
    assert [problem for step in steps for problem in step.problems] == []
    codes = " ".join(step.code for step in steps)
    assert ("cupy" in codes, "torch" in codes) == (cupy is not None, torch is not None)
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert blob.head is syncblob.Head.SYNCED
    assert not blob.memory.aliased


# --- output --------------------------------------------------------------------------------------


def test_it_fits_80_columns_in_plain_text(terminal):
    done = terminal("tour", NO_COLOR="1")
    assert done.status == 0
    assert done.out.isascii()
    assert "\x1b" not in done.out
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines == [line.rstrip() for line in lines]


def test_it_fits_80_columns_with_the_longest_sizes(run, write_model):
    # No size takes more characters than 1023.9 KiB.
    done = run("tour", write_model(("a", "B", [np.ones(262_118, "f4")])))
    lines = done.out.splitlines()
    assert max(len(line) for line in lines if not line.startswith("model")) <= 80
    newest = 3 if "PyTorch" in done.out.partition("skipped")[0] else 2
    step = re.compile(r"    host 0x\w+ +download 1023\.9 KiB: newest on accelerator")
    assert sum(bool(step.fullmatch(line)) for line in lines) == newest


def test_a_terminal_shows_the_same_in_colour(terminal, run):
    coloured = terminal("tour", columns=80)
    assert coloured.status == 0
    assert "\x1b[" in coloured.out
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured.out)
    assert max(map(len, bare.splitlines())) <= 80
    assert _steps_of(bare) == _steps_of(run("tour").out)


def _steps_of(text):
    """Return the output from the first step on, without the addresses."""
    text = re.sub(r"0x[0-9a-f]+ *", "ADDRESS ", text[text.index("NumPy opens") :])
    return [line.rstrip() for line in text.splitlines()]


def test_the_text_and_the_json_agree(tour_json, run):
    report = tour_json()
    text = run("tour").out
    for step in report["steps"]:
        line = (
            rf"^ ?{step['step']}  {re.escape(step['code'])} +{step['head']}\n    .*{step['why']}$"
        )
        assert re.search(line, text, re.MULTILINE), line
    assert len(re.findall(r"upload 1\.5 MiB: ", text)) == 3
    assert f"in {report['totals']['transfers']} transfers" in text
    assert f"each of the {report['totals']['hand_overs']} hand-overs" in text
    assert "0 of 8 Blobs have been read." in text
    assert "blob = model['ip1'].blobs[0]  # (500, 800), 1.5 MiB, UNINITIALIZED" in text


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
    assert np.unique(np.asarray(model["conv2"].blobs[0])).size > 20_000
    write_lenet(tmp_path / "again.caffemodel")
    assert (tmp_path / "again.caffemodel").read_bytes() == Path(model.path).read_bytes()


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


def test_weights_that_are_not_finite(run, write_model):
    path = write_model(
        ("a", "A", [np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 0.0], "f4")])
    )
    done = run("tour", path)
    assert done.status == 0
    assert "All checks passed" in done.out


def test_double_precision_with_a_gradient_in_the_file(tour_json, write_model):
    path = write_model(("a", "A", [np.array([1.0, 2.0, 3.0])]), gradient=True)
    report = tour_json(path)
    assert report["blob"]["dtype"] == "float64"
    # It is written on the Blob's device, like any gradient that did not come with the file.
    (written,) = [step for step in report["steps"] if step["title"] == "gradient written"]
    assert [move["direction"] for move in written["moved"]] == ["upload"]


def test_a_weight_without_axes(tour_json, write_model):
    report = tour_json(write_model(("a", "A", [np.float32(3)])))
    assert (report["blob"]["shape"], report["problems"]) == ([], [])
    (written,) = [step for step in report["steps"] if step["title"] == "gradient written"]
    assert (written["moved"], written["why"]) == ([], "a number is no array")


def test_layers_of_one_name_are_told_apart(run, write_model):
    path = write_model(("a", "A", [[1.0]]), ("a", "A", [[1.0, 2.0]]))
    assert "blob = model.layers[1].blobs[0]  # (2,), 16 B" in run("tour", path).out


def _npz():
    file = io.BytesIO()
    np.savez(file, a=np.ones(2, "f4"))
    return file.getvalue()


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (
            lambda path: syncblob.save_model(syncblob.ModelFile("", [syncblob.Layer("a")]), path),
            "no layer has weights, so there is nothing to show",
        ),
        (
            lambda path: syncblob.write_blob(np.ones(2, "f4"), path),
            "expected a .caffemodel, got binaryproto, one blob; syncblob inspect {} shows it",
        ),
        (
            lambda path: path.write_bytes(_npz()),
            "expected a .caffemodel, got npz; syncblob convert {} net.caffemodel makes one of it",
        ),
    ],
)
def test_a_file_without_a_model(run, tmp_path, write, reason):
    path = tmp_path / "file"
    write(path)
    done = run("tour", path)
    assert (done.status, done.out) == (1, "")
    assert done.err == f"syncblob: error: {path}: {reason.format(path)}\n"


# --- the accelerator and the libraries -----------------------------------------------------------


def test_the_simulated_device_is_named_with_the_reason(tour_json, run):
    text = run("tour").out
    assert "simulated:0, made of ordinary memory: this is a test" in text
    assert "skipped      CuPy: needs a CUDA device and pip install 'syncblob[cuda13]'" in text
    report = tour_json()
    assert (report["accelerator"], report["simulated"]) == ("simulated:0", True)


def test_why_there_is_no_cuda(monkeypatch):
    monkeypatch.undo()
    if any(device.type == "cuda" for device in syncblob.devices()):
        pytest.skip("there is a CUDA device")
    why = tour._why_no_cuda()
    with pytest.raises(syncblob.NoDeviceError) as error:
        syncblob.Blob(1, device="cuda:0")
    assert why in str(error.value)
    assert not why.startswith("cuda:0")
    assert "Select another device" not in why


def test_a_cuda_device_that_fails_when_it_is_used(monkeypatch):
    monkeypatch.undo()

    def out_of_order(*_, **__):
        raise RuntimeError("cudaErrorNotReady")

    monkeypatch.setattr(syncblob, "Blob", out_of_order)
    assert tour._why_no_cuda() == "cudaErrorNotReady"


def test_without_torch_it_says_so_and_goes_on(tour_json, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    report = tour_json()
    assert report["ok"]
    assert "PyTorch" not in report["versions"]
    why = "is not installed; pip install 'syncblob[torch]'"
    assert {"library": "PyTorch", "why": why} in report["skipped"]
    assert not any("torch" in step["code"] for step in report["steps"])
    assert report["totals"]["transfers"] == 5
    assert f"skipped      PyTorch: {why}" in run("tour").out


def test_a_torch_that_cannot_be_imported(tour_json, monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libc10.so: not there')")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (skipped,) = [s for s in tour_json()["skipped"] if s["library"] == "PyTorch"]
    assert skipped["why"].startswith("cannot be imported (libc10.so: not there)")


def test_a_torch_without_cuda_next_to_a_cuda_device(monkeypatch):
    torch = pytest.importorskip("torch")
    cupy = SimpleNamespace(__version__="13.0")
    monkeypatch.setattr(tour, "_why_no_cuda", lambda: None)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    stage = tour._set_stage()
    assert stage.accelerator == "cuda:0"
    assert (stage.libraries, stage.shares) == ((cupy, torch), False)
    assert list(stage.skipped) == ["PyTorch on cuda:0"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert tour._set_stage().shares


@needs_torch
def test_a_torch_that_takes_no_read_only_arrays(tour_json, run, monkeypatch):
    real = SideView.__dlpack__

    def dlpack(side, **keywords):
        if side._access is Access.CONST:
            raise BufferError("DLPack 1.0 is needed")
        return real(side, **keywords)

    monkeypatch.setattr(SideView, "__dlpack__", dlpack)
    report = tour_json()
    assert report["ok"]
    (refused,) = [step for step in report["steps"] if step["refused"]]
    assert refused["title"] == "torch only reads"
    assert refused["code"] == "tensor = torch.from_dlpack(blob.cpu.const)"
    assert "refused: DLPack 1.0 is needed" in run("tour").out


@pytest.mark.gpu
def test_on_a_real_device(tour_json, monkeypatch):
    monkeypatch.undo()
    report = tour_json()
    assert report["ok"]
    assert (report["accelerator"], report["simulated"]) == ("cuda:0", False)
    assert any(step["code"] == "array = cupy.asarray(blob.gpu)" for step in report["steps"])
    alias = any(step["chapter"] == "An alias stays coherent" for step in report["steps"])
    assert report["totals"]["transfers"] == (8 if alias else 5)


# --- detected faults -----------------------------------------------------------------------------


def _copy(real):
    return lambda blob, *_, **__: real(blob).copy()


def _part(real):
    return lambda blob, *_, **__: real(blob)[1:]


def _spoilt(_real):
    def upload(_backend, host, buffer):
        buffer[:] = host
        buffer[:4] = 0

    return upload


def _lost(real):
    seen = itertools.count(1)

    def download(backend, buffer, host):
        # Drop the third of every five downloads: the host keeps the contents of the second.
        if next(seen) % 5 != 3:
            real(backend, buffer, host)

    return download


def _uploads_anew(real):
    def gpu_data(blob):
        # With an alias on the accelerator, this would warn.
        if not blob.memory.aliased:
            blob.mutable_cpu_data()
        return real(blob)

    return gpu_data


def _raises(error):
    def update(_blob):
        raise error

    return lambda _real: update


def _downloads(real):
    def gpu_data(blob):
        real(blob)
        return blob.cpu_data()

    return gpu_data


def _writes(_real):
    return lambda blob: blob.mutable_gpu_data()


_COPIED = "arrays on: expected host, got own copy"
_ONE_BUFFER = "buffers: expected 2, got 1"
_SHARED = "arrays on: expected own copy, got host"
_DIFFERS = "{} does not hold what NumPy computes"
_WRONG_HEAD = "the head: expected SYNCED, got HEAD_AT_GPU"
_MOVED = "transfers: expected none, got upload"


@pytest.mark.parametrize(
    ("fault", "step", "problems"),
    [
        ((Blob, "__array__", _copy), "NumPy reads", [_COPIED]),
        ((Blob, "__array__", _part), "NumPy reads", [_COPIED, _DIFFERS.format("weights")]),
        ((np, "array", lambda _: np.asarray), "NumPy copies", [_SHARED]),
        ((SimulatedBackend, "upload", _spoilt), "accelerator reads", [_DIFFERS.format("gpu")]),
        ((Blob, "cpu_data", _copy), "NumPy reads", [_COPIED]),
        ((Blob, "gpu_data", _downloads), "accelerator reads", [_ONE_BUFFER]),
        ((Blob, "gpu_data", _writes), "accelerator reads", [_WRONG_HEAD]),
        ((Blob, "gpu_data", _uploads_anew), "accelerator again", [_MOVED]),
        ((Blob, "update", _raises(ArithmeticError("no"))), "update", ["ArithmeticError: no"]),
        ((Blob, "update", _raises(BufferError("no"))), "update", ["BufferError: no"]),
    ],
)
def test_it_notices(tour_json, run, monkeypatch, fault, step, problems):  # noqa: PLR0913, PLR0917  # fixtures
    where, name, broken = fault
    monkeypatch.setattr(where, name, broken(getattr(where, name)))
    report = tour_json(status=1)
    assert not report["ok"]
    first = next(one for one in report["steps"] if one["problems"])
    assert (first["title"], first["problems"]) == (step, problems)
    text = run("tour")
    assert text.status == 1
    assert "All checks passed" not in text.out
    assert "Traceback" not in text.out + text.err
    # Join wrapped lines.
    assert f"WRONG: step {first['step']}: {problems[0]}" in " ".join(text.out.split())


@needs_torch
def test_it_notices_contents_that_an_alias_wrote_and_nobody_fetched(tour_json, monkeypatch):
    monkeypatch.setattr(SimulatedBackend, "download", _lost(SimulatedBackend.download))
    first = next(step for step in tour_json(status=1)["steps"] if step["problems"])
    assert first["title"] == "NumPy sees it"
    assert first["problems"] == ["weights does not hold what NumPy computes"]


def test_it_notices_an_alias_that_does_not_go(tour_json, monkeypatch):
    torch = pytest.importorskip("torch")
    kept = []
    real = torch.from_dlpack

    def from_dlpack(lender):
        kept.append(real(lender))
        return kept[-1]

    monkeypatch.setattr(torch, "from_dlpack", from_dlpack)
    # The tour ends early: the first access that makes the alias stale warns.
    steps = tour_json(status=1)["steps"]
    first = next(step for step in steps if step["problems"])
    assert first["title"] == "torch lets go"
    assert first["problems"] == ["aliases on: expected none, got accelerator"]
    assert steps[-1]["title"] == "NumPy writes"
    assert steps[-1]["problems"][0].startswith("StaleAliasWarning: mutable_cpu_data makes a")


@pytest.mark.usefixtures("exact_parts")
def test_more_bytes_than_those_of_the_blob_are_noticed():
    with syncblob.use_device("simulated"):
        whole = Blob((2, 3))
    # The bytes in the gaps move too.
    *_, upload = itertools.islice(walk(whole[:, 0]), 4)
    assert upload.problems == ["bytes: expected 8, got 16"]
