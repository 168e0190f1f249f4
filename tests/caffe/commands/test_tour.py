"""The tour shows what runs: its lines, their values, and the transfers that devices count."""

import builtins
import importlib.util
import io
import sys
import tempfile
from contextlib import redirect_stdout
from types import SimpleNamespace

import numpy as np
import pytest

import syncblob
from syncblob.caffe.commands import tour

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

_NBYTES = 500 * 800 * 4


def lines_of(text):
    """Return each line of the script in the output, with its value and its transfers."""
    return [
        (line, [one for one in below if not one.startswith("#")])
        for line, *below in (one.split("\n") for one in text.replace("\n\n", "\n").split("\n>>> "))
    ][1:]


def moved(below):
    """Return the transfers among the lines below a line of the script."""
    lines = [one.split(" for ") for one in below if one.startswith("    ")]
    return [[*moved.split()[:4:3], reason] for moved, reason in lines]


# --- what is shown -------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_cuda")
@needs_torch
def test_the_transfers_are_those_that_the_device_counts(run, simulated):
    out = run("tour").out
    assert out.count("upload of 1.5 MiB for ") == simulated.uploads == 3
    assert out.count("download of 1.5 MiB for ") == 4
    assert out.count("download of 4 B for ") == simulated.downloads - 4 == 2
    assert simulated.uploaded_bytes == 3 * _NBYTES
    assert simulated.downloaded_bytes == 4 * _NBYTES + 2 * 4
    assert out.endswith("\n3 uploads and 6 downloads, 10.7 MiB\n")


@pytest.mark.usefixtures("no_cuda")
def test_every_line_of_the_script_is_shown_unless_its_library_is_missing(run, monkeypatch):
    for torch in (sys.modules.get("torch"), None):
        monkeypatch.setitem(sys.modules, "torch", torch)
        missing = ["cupy", *["torch"] * (torch is None)]
        blocks = [one for one in tour.SCRIPT.split("\n\n") if not any(m in one for m in missing)]
        shown = [
            line.removeprefix(">>> ")
            for line in run("tour").out.splitlines()
            if line.startswith(("#", ">>> "))
        ]
        assert shown == "\n".join(blocks).splitlines()


@pytest.mark.usefixtures("no_cuda")
def test_the_lines_do_the_same_when_a_user_types_them(run, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins._", None, raising=False)  # Python keeps the last value there
    tour.write_lenet(tmp_path / "lenet.caffemodel")
    names = {"folder": tmp_path}
    with syncblob.use_device("simulated"):
        for line, below in lines_of(run("tour").out)[:-1]:
            shown = io.StringIO()
            with syncblob.record_transfers() as log, redirect_stdout(shown):
                exec(compile(line, "<stdin>", "single"), names)  # noqa: S102  # the code under test
            assert shown.getvalue().splitlines() == below[: len(below) - len(log)], line
            assert [[one[0], one[2]] for one in moved(below)] == [
                [transfer.direction, transfer.reason] for transfer in log
            ], line
    trained = syncblob.open_model(tmp_path / "trained.caffemodel")
    np.testing.assert_array_equal(np.asarray(trained["ip1"].blobs[0]), np.asarray(names["weights"]))


# --- the model -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_cuda")
def test_the_device_is_named_with_the_reason_and_the_lenet_goes_away_again(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = run("tour")
    assert done.out.startswith("accelerator  simulated:0, because this is a test\n")
    assert list(tmp_path.iterdir()) == []


# --- the accelerator and the libraries -----------------------------------------------------------


def test_why_there_is_no_cuda():
    if any(device.type == "cuda" for device in syncblob.available_devices()):
        pytest.skip("there is a CUDA device")
    device, why = tour._find_device()
    with pytest.raises(syncblob.NoDeviceError) as error:
        syncblob.Blob(1, device="cuda:0")
    assert device == "simulated:0"
    assert why in str(error.value)
    assert not why.startswith("cuda:0")
    assert "Select another device" not in why


def test_a_cuda_device_that_fails_when_it_is_used(monkeypatch):
    def out_of_order(*_, **__):
        raise RuntimeError("cudaErrorNotReady")

    monkeypatch.setattr(syncblob, "Blob", out_of_order)
    assert tour._find_device() == ("simulated:0", "cudaErrorNotReady")


@pytest.mark.usefixtures("no_cuda")
def test_a_torch_that_cannot_be_imported(run, monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libc10.so: not there')")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    done = run("tour")
    assert done.status == 0
    assert "libc10.so: not there; pip install 'syncblob[torch]'" in done.out
    assert not any("torch" in line for line, _ in lines_of(done.out))


@pytest.mark.gpu
def test_on_a_real_device(run):
    done = run("tour")
    assert done.status == 0
    assert done.out.startswith("accelerator  cuda:0\n")
    assert "\n>>> array = cupy.asarray(weights.gpu)\n" in done.out


@pytest.mark.usefixtures("no_cuda")
def test_no_value_of_the_script_stays_behind(monkeypatch, capsys):
    monkeypatch.setattr("builtins._", "before", raising=False)
    assert tour.run(SimpleNamespace()) == 0
    assert "Blob(shape=(500, 800)" in capsys.readouterr().out
    assert vars(builtins)["_"] == "before"
