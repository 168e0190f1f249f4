"""Which accelerator and which libraries take part in a tour, and what it says of the others."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import syncblob
from syncblob.cli import tour
from syncblob.cli._steps import Library
from syncblob.interop.side_view import SideView
from syncblob.memory import Access

try:
    import torch
except ImportError:
    torch = None

pytestmark = pytest.mark.usefixtures("no_cuda")

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")


def test_the_simulated_device_is_named_with_the_reason(tour_json, run):
    assert "simulated:0, made of ordinary memory: this is a test" in run("tour").out
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
    assert {"library": "PyTorch", "why": "is not installed; pip install 'syncblob[torch]'"} in (
        report["skipped"]
    )
    assert not any("torch" in step["code"] for step in report["steps"])
    assert report["totals"]["transfers"] == 5
    assert "skipped      PyTorch: is not installed; pip install 'syncblob[torch]'" in (
        run("tour").out
    )


def test_a_torch_that_cannot_be_imported(tour_json, monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libc10.so: not there')")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (skipped,) = [s for s in tour_json()["skipped"] if s["library"] == "PyTorch"]
    assert skipped["why"].startswith("cannot be imported (libc10.so: not there)")


def test_cupy_is_named_as_skipped(run):
    assert "skipped      CuPy: needs a CUDA device and pip install 'syncblob[cuda13]'" in (
        run("tour").out
    )


@needs_torch
def test_a_torch_without_cuda_next_to_a_cuda_device(monkeypatch):
    monkeypatch.setattr(tour, "_why_no_cuda", lambda: None)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(__version__="13.0"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    stage = tour._set_stage()
    assert stage.accelerator == "cuda:0"
    assert set(stage.libraries) == {Library.CUPY, Library.TORCH}
    assert [skipped.library for skipped in stage.skipped] == ["PyTorch on cuda:0"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert set(tour._set_stage().libraries) == set(Library)


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
    assert [s["title"] for s in report["steps"] if s["refused"]] == ["torch only reads"]
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
