"""Seeing it: explain, the journal's findings, and verified const."""

from __future__ import annotations

import ctypes
import json
import warnings

import numpy as np
import pytest

import syncblob
from syncblob import Blob, ConstWriteWarning, record_transfers, verified_const

torch = pytest.importorskip("torch", reason="torch is one of the consumers")


def at_cpu(device: str = "simulated") -> Blob:
    blob = Blob((2, 3), device=device)
    blob.memory.bind(syncblob.simulated(0))
    blob.mutable_cpu_data()[...] = 1
    return blob


# --- explain -------------------------------------------------------------------------------------


def test_it_tells_the_state_and_moves_nothing() -> None:
    blob = at_cpu()
    borrow = blob.mutable_cpu_data()
    with record_transfers() as log:
        text = str(blob.explain())
    assert len(log) == 0
    assert text.splitlines()[0] == "Blob of shape (2, 3), float32, 24 bytes"
    for line in (
        "HEAD_AT_CPU: the newest contents are on the host",
        "24 bytes, up to date, 1 writable borrow",
        "simulated:0, no memory",
        "mutable_cpu_data: UNINITIALIZED -> HEAD_AT_CPU, at " + __file__,
        "not created: nobody has used it",
    ):
        assert line in text
    assert repr(blob.explain()) == text
    assert borrow is not None


def test_it_names_living_aliases_exposure_and_the_last_transitions() -> None:
    blob = at_cpu()
    tensor = torch.from_dlpack(blob.cpu)
    blob.gpu_data()
    text = str(blob.explain())
    assert "a DLPack alias (torch) of the host side, made at " + __file__ in text
    assert "an alias may write there at any moment" in text
    assert "gpu_data: HEAD_AT_CPU, upload, at " + __file__ in text
    assert "older contents" in text
    del tensor
    assert "alias" not in str(blob.explain())
    adopted = Blob.asarray(np.zeros(3))
    assert "exposed" in str(adopted.explain())
    blob.diff[...] = 1
    assert "diff head" in str(blob.explain())


def test_only_the_last_transitions_are_kept() -> None:
    blob = at_cpu()
    for _ in range(20):
        blob.mutable_gpu_data()
        blob.mutable_cpu_data()
    assert len(blob.memory.history) == 8


@pytest.mark.parametrize("blob", [Blob(()), Blob((0, 2)), Blob(3).const])
def test_every_blob_can_be_explained(blob: Blob) -> None:
    assert "UNINITIALIZED: zeros that nobody has read" in str(blob.explain())


def test_notebooks_get_a_table_without_raw_text() -> None:
    blob = at_cpu()
    html = blob._repr_html_()
    assert html.startswith("<table>")
    assert "HEAD_AT_CPU" in html
    assert "UNINITIALIZED -&gt; HEAD_AT_CPU" in html


# --- the journal ---------------------------------------------------------------------------------


def test_accesses_that_needed_no_transfer_are_counted() -> None:
    blob = at_cpu()
    with record_transfers() as log:
        np.asarray(blob)
        assert log.avoided == 0, "a memory on one side only has nothing to avoid"
        blob.gpu_data()
        blob.gpu_data()
        np.asarray(blob)
        blob.mutable_gpu_data()
        blob.mutable_gpu_data()
    # Of those after the upload, the one on the host and the next one on the device came from the
    # other side, and found everything there.
    assert (log.uploads, log.avoided, log.avoided_bytes) == (1, 2, 48)


def test_of_a_part_its_own_bytes_are_counted() -> None:
    blob = at_cpu()
    with record_transfers() as log:
        blob.gpu_data()
        blob.gpu_data()
        blob[0].cpu_data()
        blob[0].cpu_data()
        blob.cpu_data()
        blob[:, 1].gpu_data()
    assert (log.uploads, log.avoided, log.avoided_bytes) == (1, 3, 12 + 12 + 16)


def test_two_lines_that_send_contents_to_and_fro_are_found() -> None:
    blob, other = at_cpu(), at_cpu()
    with record_transfers() as log:
        for _ in range(3):
            blob.mutable_gpu_data()
            blob.mutable_cpu_data()
        other.gpu_data()
    (found,) = log.ping_pongs()
    assert (found.transfers, found.nbytes) == (6, 144)
    assert found.upload_line.text == "blob.mutable_gpu_data()"
    assert found.download_line.text == "blob.mutable_cpu_data()"
    assert "ping-pong: 6 transfers of 144 bytes to and fro between" in log.summary()


def test_there_and_back_is_no_ping_pong() -> None:
    blob = at_cpu()
    with record_transfers() as log:
        blob.mutable_gpu_data()
        blob.cpu_data()
        for _ in range(5):
            fresh = at_cpu()
            fresh.mutable_gpu_data()
            fresh.cpu_data()
    assert log.ping_pongs() == []


def test_the_summary_adds_up_by_line() -> None:
    with record_transfers() as log:
        for _ in range(2):
            at_cpu().gpu_data()
    first, second = log.summary().splitlines()
    assert first.startswith("2 uploads of 48 bytes, 0 downloads of 0 bytes, ")
    assert second.startswith(f"  2 x upload, 48 bytes, for gpu_data at {__file__}:")
    assert log.seconds == pytest.approx(sum(transfer.seconds for transfer in log))


def test_a_log_becomes_json() -> None:
    blob = at_cpu()
    with record_transfers() as log:
        blob.mutable_gpu_data()
        blob.cpu_data()
    data = json.loads(json.dumps(log.to_dict()))
    assert (data["uploads"], data["downloads"], data["uploaded_bytes"]) == (1, 1, 24)
    upload, download = data["transfers"]
    assert upload["text"] == "blob.mutable_gpu_data()"
    assert upload["memory"] == download["memory"] > 0
    assert upload["start"] <= download["start"]
    assert upload["device"] == "simulated:0"


def test_a_log_is_drawn() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
    matplotlib.use("Agg")
    blob = at_cpu()
    with record_transfers() as log:
        blob.mutable_gpu_data()
        blob.cpu_data()
    axes = log.plot()
    assert len(axes.patches) == 2
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"memory {log[0].memory}"]
    axes.figure.clear()


# --- verified const ------------------------------------------------------------------------------


def scribble(array: np.ndarray) -> None:
    """Write one byte past all permissions, as a library does that ignores them."""
    ctypes.memset(array.ctypes.data, 0x55, 1)


def test_who_writes_through_a_const_export_is_found_at_the_next_use() -> None:
    blob = at_cpu()
    with verified_const():
        tensor = torch.from_dlpack(blob.cpu.const)
        tensor[0, 0] = 7
        with pytest.warns(ConstWriteWarning) as caught:
            blob.gpu_data()
    assert caught[0].filename == __file__
    assert "const DLPack export (torch) of the host side" in str(caught[0].message)
    assert "tensor = torch.from_dlpack(blob.cpu.const)" in str(caught[0].message)


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_a_const_blob_is_watched_on_its_device(device: str) -> None:
    blob = at_cpu(device)
    side = "host" if device == "cpu" else "accelerator"
    with verified_const():
        tensor = torch.from_dlpack(blob.const)
        tensor[0, 0] = 7
        with pytest.warns(ConstWriteWarning, match=rf"export \(torch\) of the {side} side"):
            blob.cpu_data()


def test_of_a_part_its_own_bytes_are_watched() -> None:
    blob = at_cpu()
    with verified_const():
        array = np.asarray(blob[1].cpu.const)
        blob[0].mutable_cpu_data()[...] = 5
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            blob.gpu_data()
        scribble(array)
        with pytest.warns(ConstWriteWarning):
            blob.gpu_data()


def test_who_writes_through_a_const_export_is_found_when_it_ends() -> None:
    blob = at_cpu()
    with verified_const():
        array = np.from_dlpack(blob.cpu.const)
        scribble(array)
        with pytest.warns(ConstWriteWarning):
            del array


@pytest.mark.parametrize("side", ["cpu", "gpu"])
def test_both_sides_are_watched(side: str) -> None:
    blob = at_cpu()
    with verified_const():
        array = np.asarray(getattr(blob, side).const)
        scribble(array)
        with pytest.warns(ConstWriteWarning, match=f"the {'host' if side == 'cpu' else 'accel'}"):
            blob.cpu_data()


def test_honest_consumers_are_not_accused() -> None:
    blob = at_cpu()
    with warnings.catch_warnings(), verified_const():
        warnings.simplefilter("error")
        tensor = torch.from_dlpack(blob.const)
        array = np.from_dlpack(blob.cpu.const)
        assert tensor.sum() == array.sum() == 6
        blob.gpu_data()
        blob.mutable_gpu_data()[...] = 3
        blob.cpu_data()
        blob.mutable_cpu_data()[...] = 4
        blob.gpu_data()
        blob.set_cpu_data(np.zeros((2, 3), np.float32))
        del tensor, array
        assert blob.tolist() == [[0] * 3] * 2


def test_outside_the_block_nothing_is_watched() -> None:
    blob = at_cpu()
    with verified_const():
        pass
    array = np.from_dlpack(blob.cpu.const)
    scribble(array)
    blob.gpu_data()
    assert not array.flags.writeable
