"""Observing Blobs: explain, the log's findings, and verified const."""

from __future__ import annotations

import ctypes
import io
import json
import re
import sys
import warnings
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from made_blobs import filled, split

import syncblob
from syncblob import Blob, ConstWriteWarning, StaleAliasWarning, record_transfers, verified_const
from syncblob.blob.core import newest_side
from syncblob.devices import Side
from syncblob.memory.accesses import expose

# They count the bytes of parts of small memories.
pytestmark = pytest.mark.usefixtures("exact_parts")

torch = pytest.importorskip("torch", reason="torch is one of the consumers")


def at_cpu(device: str = "simulated") -> Blob:
    blob = Blob((2, 3), device=device)
    blob.memory.side_of(syncblob.simulated(0))
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
        "not created",
    ):
        assert line in text
    assert repr(blob.explain()) == text
    assert borrow is not None


def test_it_names_living_aliases_exposure_and_the_last_transitions() -> None:
    blob = at_cpu()
    tensor = torch.from_dlpack(blob.cpu)
    blob.gpu_data()
    text = str(blob.explain())
    assert "a DLPack alias (torch) of the host side, created at " + __file__ in text
    assert "an alias may write there at any moment" in text
    assert "gpu_data: HEAD_AT_CPU, upload, at " + __file__ in text
    assert "older contents" in text
    del tensor
    assert "alias" not in str(blob.explain())
    adopted = Blob.asarray(np.zeros(3))
    assert "exposed" in str(adopted.explain())
    blob.diff[...] = 1
    assert "diff head" in str(blob.explain())


def line_of(blob: Blob, reason: str) -> str:
    """Return the last access with a reason, as explain shows it."""
    last = next(one for one in reversed(blob.memory.history) if one.reason == reason)
    return f"{reason} at {last.place.line.describe()}"


def test_a_stale_alias_is_called_stale_with_the_access_that_made_it_so() -> None:
    blob = at_cpu()
    tensor, array = torch.from_dlpack(blob.cpu), np.asarray(blob[0].cpu)
    blob.gpu_data()
    labels = [label for label, _ in blob.explain().rows]
    assert (labels.count("alias"), labels.count("stale alias")) == (2, 0)
    with pytest.warns(StaleAliasWarning):
        blob.mutable_gpu_data()
    since = f"; stale since {line_of(blob, 'mutable_gpu_data')}"
    # A second write makes neither staler.
    with pytest.warns(StaleAliasWarning):
        blob.mutable_gpu_data()
    stale = sorted(text for label, text in blob.explain().rows if label == "stale alias")
    assert len(stale) == 2
    assert stale[0].startswith("a DLPack alias (torch) of the host side, created at ")
    assert stale[0].endswith(since)
    assert stale[1].endswith(f", bytes 0 to 12; read-only{since}")
    # Its side is up to date again.
    blob.cpu_data()
    texts = sorted(text for label, text in blob.explain().rows if label == "alias")
    assert [text.rpartition("; ")[2] == "read-only" for text in texts] == [False, True]
    assert "stale" not in str(blob.explain())
    with pytest.warns(StaleAliasWarning):
        blob[0].overwrite_gpu_data()
    since = line_of(blob, "overwrite_gpu_data")
    texts = [text for label, text in blob.explain().rows if label == "stale alias"]
    assert sum(text.endswith(f"; partly stale since {since}") for text in texts) == 1
    assert sum(text.endswith(f"read-only; stale since {since}") for text in texts) == 1
    assert tensor is not None
    assert array is not None


def test_an_alias_is_stale_since_the_last_write_that_took_bytes_from_it() -> None:
    blob = at_cpu()
    whole, row = torch.from_dlpack(blob.cpu), np.asarray(blob[0].cpu)
    for write in (blob[0].overwrite_gpu_data, blob.mutable_gpu_data):
        with pytest.warns(StaleAliasWarning):
            write()
    since = [line_of(blob, reason) for reason in ("mutable_gpu_data", "overwrite_gpu_data")]
    stale = sorted(text for label, text in blob.explain().rows if label == "stale alias")
    assert [text.partition("stale since ")[2] for text in stale] == since
    del whole, row


@pytest.mark.parametrize(
    ("access", "reason"),
    [
        (lambda blob: blob.gpu_data(), "gpu_data"),
        (lambda blob: blob.mutable_gpu_data(), "mutable_gpu_data"),
        (lambda blob: blob.overwrite_gpu_data(), "overwrite_gpu_data"),
        (lambda blob: blob.async_gpu_push(), "async_gpu_push"),
        (lambda blob: blob.set_gpu_data(np.zeros((2, 3), "f4")), "adoption"),
        (lambda blob: blob.set_cpu_data(np.zeros((2, 3), "f4")), "adoption"),
    ],
)
def test_a_borrow_that_ended_is_shown_with_what_ended_it(access, reason) -> None:
    blob = at_cpu()
    # The second is made on the fast path.
    kept = [blob.mutable_cpu_data(), blob.mutable_cpu_data()]
    assert "ended borrow" not in str(blob.explain())
    access(blob)
    with pytest.raises(ValueError, match="read-only"):
        kept[0][0] = 1
    ended = [text for label, text in blob.explain().rows if label == "ended borrow"]
    since = f"an array of the host side; read-only since {line_of(blob, reason)}"
    assert ended == [since] * 2
    del kept[1]
    assert str(blob.explain()).count("ended borrow") == 1
    kept.clear()
    assert "ended borrow" not in str(blob.explain())


def test_a_borrow_of_a_part_is_shown_with_its_bytes_and_only_the_last_are_kept() -> None:
    blob = split()
    row, other = blob[20:24].mutable_cpu_data(), blob[30:].mutable_cpu_data()
    blob[22:23].gpu_data()
    ended = rows_of(blob)["ended borrow"]
    assert ended.startswith("an array of the host side, bytes 20 to 24; read-only since gpu_data ")
    assert other.flags.writeable
    kept = []
    for _ in range(20):
        kept.append(blob[40:].mutable_cpu_data())
        blob[40:].gpu_data()
    assert [label for label, _ in blob.explain().rows].count("ended borrow") == 8
    kept += [blob[40:].mutable_cpu_data() for _ in range(20)]
    blob[40:].gpu_data()
    assert [label for label, _ in blob.explain().rows].count("ended borrow") == 8
    assert row is not None


@pytest.mark.parametrize("blob", [Blob(()), Blob((0, 2)), Blob(3).const])
def test_every_blob_can_be_explained(blob: Blob) -> None:
    assert "UNINITIALIZED: zeros, not read yet" in str(blob.explain())


# --- parts ---------------------------------------------------------------------------------------

FULL, SOME, NONE = "▓▒░"


def rows_of(blob: Blob) -> dict[str, str]:
    """Return the rows by label, for labels that occur only once."""
    return {label: text.strip() for label, text in blob.explain().rows}


def test_what_each_side_holds_of_a_split_memory_is_told(monkeypatch) -> None:
    with record_transfers() as log:
        blob = split()
        rows = rows_of(blob)
    assert len(log) == 1
    assert rows["head"] == "SPLIT: each side holds a part of the newest contents"
    assert rows["host"] == "80 bytes, 20 bytes up to date"
    assert rows["accelerator"] == "simulated:0, 80 bytes, 60 bytes up to date"
    assert "view" not in rows
    blob[10:50].gpu_data()
    blob[60:71].cpu_data()
    rows = rows_of(blob)
    assert rows["on the host"] == FULL * 10 + NONE * 20 + FULL * 5 + SOME + NONE * 4
    assert rows["on the accelerator"] == NONE * 5 + FULL * 35
    for encoding, plain in (("ascii", True), ("cp437", False)):
        stdout = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", stdout)
        stdout.write(str(blob.explain()))
        assert ("#####+...." in str(blob.explain())) == plain
    blob.cpu_data()
    assert rows_of(blob)["host"] == "80 bytes, up to date"
    assert rows_of(blob)["on the host"] == FULL * 40


@pytest.mark.parametrize(("module", "factor"), [("explain", 1), ("caffe_math", 2)])
def test_another_thread_may_split_what_one_side_had(monkeypatch, module, factor) -> None:
    blob = filled(1, 4, "float32", device="simulated")

    def later(*args):
        blob[:1].on("cpu").mutable_cpu_data(), blob[1:].mutable_gpu_data()
        return newest_side(*args)

    monkeypatch.setattr(f"syncblob.blob.{module}.newest_side", later)
    if factor == 1:
        assert "HEAD_AT_CPU: the newest contents are on the host" in str(blob.explain())
    else:
        blob.scale_data(factor)
    assert blob.tolist() == [factor] * 4


def test_below_it_are_the_ranges_of_living_aliases_and_exposures() -> None:
    blob = split()
    kept = [np.asarray(x) for x in (blob[4:8].cpu, blob[60:].gpu)]
    expose(blob.memory, Side.HOST, start=0, stop=20)
    exposed, first, second = (text for label, text in blob.explain().rows if label in LENT)
    assert exposed.startswith("the host side, to an alias of unknown lifetime, at ")
    assert exposed.endswith(", bytes 0 to 20")
    assert first.startswith(f"a NumPy alias of the host side, created at {__file__}")
    assert first.endswith(", bytes 4 to 8")
    assert second.endswith(", bytes 60 to 80")
    assert rows_of(blob)["host aliases"] == FULL * 10 + NONE * 30
    assert rows_of(blob)["accelerator aliases"] == NONE * 30 + FULL * 10
    blob[:10].assume_unaliased()
    assert rows_of(blob)["exposed"] == exposed.replace("bytes 0", "bytes 10")
    kept.clear()
    assert "NumPy alias" not in str(blob.explain())


LENT = {"exposed", "alias"}


def test_of_a_view_it_says_which_part_it_is() -> None:
    blob = split()
    rows = rows_of(blob[10:30])
    assert rows["view"] == "bytes 10 to 30 of 80"
    assert rows["head"].startswith("SPLIT")
    assert rows["this view"] == NONE * 5 + FULL * 10 + NONE * 25
    assert rows_of(blob[:20])["head"].startswith("HEAD_AT_CPU")
    gaps = rows_of(blob.reshape(8, 10)[2:5, ::3])
    assert gaps["view"] == "bytes 20 to 50 of 80, with gaps"
    assert gaps["head"] == "HEAD_AT_GPU: the newest contents are on the accelerator"
    assert rows_of(blob.reshape(8, 10).T)["view"] == "bytes 0 to 80 of 80"
    assert rows_of(blob.on("cpu"))["device"] == "cpu, where operations run"


def test_what_a_source_has_not_given_yet_is_on_no_side() -> None:
    blob = Blob.from_source(80, "int8", lambda: np.zeros(80, np.uint8), device="simulated")
    assert rows_of(blob)["head"] == "UNINITIALIZED: only its source has them"
    blob[40:].gpu_data()
    rows = rows_of(blob)
    assert rows["head"] == "SPLIT: a part is only in its source"
    assert rows["host"] == "no memory"
    assert rows["on the accelerator"] == NONE * 20 + FULL * 20
    assert rows_of(blob[:40])["head"] == "UNINITIALIZED: only its source has them"


# --- the log ---------------------------------------------------------------------------------


def test_two_lines_that_send_contents_to_and_fro_are_found() -> None:
    blob, other = at_cpu(), at_cpu()
    with record_transfers() as log:
        for _ in range(3):
            blob.mutable_gpu_data()
            blob.mutable_cpu_data()
        other.gpu_data()
    (found,) = log.problems()
    assert (found.transfers, found.nbytes) == (6, 144)
    assert [line.text for line in found.lines] == [
        "blob.mutable_gpu_data()",
        "blob.mutable_cpu_data()",
    ]
    assert "ping-pong: 6 transfers of 144 bytes to and fro between" in log.summary()


@pytest.mark.parametrize("before", [True, False])
def test_uploads_that_an_alias_adds_do_not_hide_it(*, before: bool) -> None:
    blob = at_cpu()
    alias = np.from_dlpack(blob.cpu)
    warnings.simplefilter("ignore", StaleAliasWarning)
    with record_transfers() as log:
        for _ in range(4):
            if before:
                blob[0].gpu_data()
                blob.gpu_data()
            blob.mutable_gpu_data()
            blob.cpu_data()
            if not before:
                blob.gpu_data()
                blob[0].gpu_data()
    assert (log.uploads, log.downloads) == (12, 4)
    (found,) = log.problems()
    assert (found.transfers, found.nbytes) == (8, 192)
    assert [line.text for line in found.lines] == ["blob.mutable_gpu_data()", "blob.cpu_data()"]
    assert alias is not None


def test_uploads_that_an_alias_repeats_are_no_ping_pong_without_downloads() -> None:
    blob = at_cpu()
    alias = np.from_dlpack(blob.cpu)
    with record_transfers() as log:
        for _ in range(5):
            blob.gpu_data()
    assert (log.uploads, log.problems()) == (5, [])
    assert alias is not None


def test_parts_that_go_there_and_back_once_are_no_ping_pong() -> None:
    images = Blob((8, 2, 2), device="simulated")
    with record_transfers() as log:
        for image in images:
            image.overwrite_cpu_data()[...] = 1
            image.mutable_gpu_data()
            image[0].cpu_data()
    assert (log.uploads, log.downloads) == (8, 8)
    assert log.problems() == []


def test_parts_that_go_to_and_fro_in_turn_are_found() -> None:
    halves = Blob((2, 4), device="simulated")
    with record_transfers() as log:
        for _ in range(3):
            for half in halves:
                half.mutable_cpu_data()
                half.mutable_gpu_data()
    (found,) = log.problems()
    assert (found.transfers, found.nbytes) == (10, 160)


def test_a_log_is_drawn_for_a_notebook() -> None:
    blobs = [Blob(100 * (10 - i), device="simulated", name=f"<{i}>") for i in range(10)]
    for blob in blobs:
        blob.mutable_cpu_data()[...] = 1
    alias = np.from_dlpack(blobs[0].cpu)
    with record_transfers() as log:
        for blob in blobs:
            for _ in range(3):
                blob.gpu_data()
                if blob is not blobs[0]:
                    blob.mutable_gpu_data()
                    blob.mutable_cpu_data()
    root = ET.fromstring(log._repr_html_())  # noqa: S314  # our own
    assert (root.tag, root.text) == ("pre", log.summary())
    assert re.search("of <0> in [0-9.]+ ms, for gpu_data at ", log.summary())
    assert "again at each access, because of a DLPack alias of the host side, created at " in (
        log.summary()
    )
    assert log.summary().count("ping-pong") == len(log.problems()) == 1
    assert alias is not None


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


def test_of_many_aliases_the_first_few_are_described_and_the_others_counted() -> None:
    blob = Blob((2000, 8), device="simulated")
    rows = [np.asarray(row.cpu) for row in blob]
    kept = str(blob.explain())
    assert len(kept) < 5000
    assert "1,992 more of the host side" in kept
    with pytest.warns(StaleAliasWarning):
        blob[1000].mutable_gpu_data()
    text = str(blob.explain())
    first = next(line for line in text.splitlines() if "NumPy alias" in line)
    assert first.strip().startswith("stale alias")
    assert len(rows) == 2000


# --- verified const ------------------------------------------------------------------------------


def scribble(array: np.ndarray) -> None:
    """Write one byte regardless of permissions, like a library that ignores them."""
    ctypes.memset(array.ctypes.data, 0x55, 1)


def test_who_writes_through_a_const_export_is_found_at_the_next_use() -> None:
    blob = at_cpu()
    with verified_const():
        tensor = torch.from_dlpack(blob.cpu.const)
        tensor[0, 0] = 7
        with pytest.warns(ConstWriteWarning) as caught:
            blob.gpu_data()
    assert caught[0].filename == __file__
    message = "torch wrote through the const DLPack export of the host side made at"
    assert str(caught[0].message).startswith(message)
    assert "tensor = torch.from_dlpack(blob.cpu.const)" in str(caught[0].message)


def test_outside_the_block_nothing_is_watched() -> None:
    blob = at_cpu()
    with verified_const():
        pass
    array = np.from_dlpack(blob.cpu.const)
    scribble(array)
    blob.gpu_data()
    assert not array.flags.writeable
