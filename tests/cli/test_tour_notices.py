"""Whatever goes wrong in a tour, the tour notices: each test breaks something."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import syncblob
from syncblob import Blob
from syncblob.cli import _walk
from syncblob.cli._walk import walk
from syncblob.devices.simulated import SimulatedBackend

pytestmark = pytest.mark.usefixtures("no_cuda")


@pytest.fixture
def noticed(tour_json, run):
    """Run a tour that goes wrong first at one step, and return the problems of that step."""

    def noticed(*, step):
        report = tour_json(status=1)
        assert not report["ok"]
        first = next(s for s in report["steps"] if s["problems"])
        assert first["title"] == step
        text = run("tour")
        assert text.status == 1
        assert "All checks passed" not in text.out
        # Put long lines together again.
        shown = " ".join(text.out.split())
        assert f"WRONG: step {first['step']}: {first['problems'][0]}" in shown
        return first["problems"]

    return noticed


def test_it_notices_a_copy(noticed, monkeypatch):
    real = Blob.__array__
    monkeypatch.setattr(Blob, "__array__", lambda blob, *_, **__: real(blob).copy())
    problems = noticed(step="NumPy reads")
    assert problems == ["expected host, got weights: own copy"]


def test_it_notices_a_copy_by_torch(noticed, monkeypatch):
    torch = pytest.importorskip("torch")
    real = torch.from_dlpack
    monkeypatch.setattr(torch, "from_dlpack", lambda x: real(x).clone())
    assert noticed(step="torch takes it") == [
        "expected aliases on accelerator, got neither side",
        "expected accelerator, got tensor: own copy",
    ]


def test_it_notices_sharing_where_a_copy_was_asked_for(noticed, monkeypatch):
    monkeypatch.setattr(np, "array", np.asarray)
    assert noticed(step="NumPy copies") == ["expected own copy, got private: host"]


def test_it_notices_an_array_of_a_part(noticed, monkeypatch):
    real = Blob.__array__
    monkeypatch.setattr(Blob, "__array__", lambda blob, *_, **__: real(blob)[1:])
    assert "weights does not begin where the Blob's buffer does" in noticed(step="NumPy reads")


def test_it_notices_a_buffer_that_is_replaced(noticed, tour_json, monkeypatch):
    real, copies = Blob.cpu_data, []

    def cpu_data(blob):
        copies.append(real(blob).copy())
        return copies[-1]

    monkeypatch.setattr(Blob, "cpu_data", cpu_data)
    noticed(step="NumPy reads")
    again = tour_json(status=1)["steps"][1]
    assert "the buffer on the host is another one than before" in again["problems"]


def test_it_notices_an_accelerator_without_memory_of_its_own(noticed, monkeypatch):
    real = Blob.gpu_data

    def gpu_data(blob):
        real(blob)
        return blob.cpu_data()

    monkeypatch.setattr(Blob, "gpu_data", gpu_data)
    assert "host and accelerator have one buffer" in noticed(step="accelerator reads")


def test_it_notices_wrong_contents(noticed, monkeypatch):
    def upload(_backend, host, buffer):
        buffer[:] = host
        buffer[:4] = 0

    monkeypatch.setattr(SimulatedBackend, "upload", upload)
    assert noticed(step="accelerator reads") == ["gpu does not hold what NumPy computes"]


def test_it_notices_wrong_contents_where_an_alias_keeps_the_head(noticed, monkeypatch):
    pytest.importorskip("torch")
    real, seen = SimulatedBackend.download, []

    def download(backend, buffer, host):
        # The third of five is lost: the host keeps what the second one brought.
        seen.append(None)
        if len(seen) % 5 != 3:
            real(backend, buffer, host)

    monkeypatch.setattr(SimulatedBackend, "download", download)
    assert noticed(step="NumPy sees it") == ["weights does not hold what NumPy computes"]


def test_it_notices_a_transfer_too_many(noticed, tour_json, monkeypatch):
    real = Blob.gpu_data

    def gpu_data(blob):
        # With an alias on the accelerator it would warn.
        if not blob.memory.aliased:
            blob.mutable_cpu_data()
        return real(blob)

    monkeypatch.setattr(Blob, "gpu_data", gpu_data)
    # The journal points to the line above, where a user would have to look.
    (problem,) = noticed(step="accelerator reads")
    assert problem.startswith(f"the journal blames {__file__}:")
    again = tour_json(status=1)["steps"][4]
    assert "expected nothing to move, got upload" in again["problems"]
    assert again["why"] == "for no good reason"


def test_it_notices_a_wrong_head(noticed, monkeypatch):
    monkeypatch.setattr(Blob, "gpu_data", lambda blob: blob.mutable_gpu_data())
    assert "expected SYNCED, got HEAD_AT_GPU" in noticed(step="accelerator reads")


def test_it_notices_what_the_journal_does_not_have(tour_json, monkeypatch):
    real = SimulatedBackend.download

    def download(backend, buffer, host):
        real(backend, buffer, host)
        real(backend, buffer, host)

    monkeypatch.setattr(SimulatedBackend, "download", download)
    report = tour_json(status=1)
    assert not any(step["problems"] for step in report["steps"])
    count = sum(move["direction"] == "download" for s in report["steps"] for move in s["moved"])
    assert report["problems"][0].startswith(
        f"the device counted (3, 4800000, {2 * count}, {3200000 * count})"
    )


def test_it_notices_transfers_between_the_steps(tour_json, monkeypatch):
    real = _walk._Walker._look_at_contents

    def look(walker, outcome, found):
        if outcome.step.title == "NumPy copies":
            walker._blob.mutable_gpu_data()
            walker._blob.mutable_cpu_data()
        real(walker, outcome, found)

    monkeypatch.setattr(_walk._Walker, "_look_at_contents", look)
    assert any("whole walk" in problem for problem in tour_json(status=1)["problems"])


def test_it_survives_an_exception(noticed, tour_json, run, monkeypatch):
    def update(_blob):
        raise ArithmeticError("no")

    monkeypatch.setattr(Blob, "update", update)
    assert noticed(step="update") == ["ArithmeticError: no"]
    done = run("tour")
    assert "Traceback" not in done.out + done.err
    assert tour_json(status=1)["steps"][-1]["title"] == "update"


def test_an_unexpected_refusal_is_a_problem(noticed, monkeypatch):
    def update(_blob):
        raise BufferError("no")

    monkeypatch.setattr(Blob, "update", update)
    assert noticed(step="update") == ["BufferError: no"]


def test_more_bytes_than_those_of_the_blob_are_noticed():
    with syncblob.use_device("simulated"):
        whole = Blob((2, 3))
    # What lies in the gaps moves too.
    *_, upload = itertools.islice(walk(whole[:, 0], {}), 4)
    assert upload.problems == ["expected 8 bytes, got 16"]
