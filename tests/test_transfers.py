"""The log: what it records, and which line it names."""

import logging
import operator
import re
import statistics
import sys
import time
from collections import Counter

import numpy as np
import pytest
from call_texts import functions, texts
from in_threads import in_threads
from made_blobs import filled

import syncblob
from syncblob import Blob, TransferGuardError, max_transfers, no_transfers, record_transfers
from syncblob import simulated as simulated_backend
from syncblob.devices import supervisors
from syncblob.devices.base import Push


def at_gpu():
    blob = Blob((2, 3), device="simulated")
    blob.mutable_gpu_data()[...] = 1
    return blob


@pytest.mark.usefixtures("exact_parts")
@pytest.mark.parametrize(
    ("access", "reason", "offset", "nbytes"),
    [
        (lambda blob: blob.cpu_data(), "cpu_data", 0, 24),
        (lambda blob: blob.mutable_cpu_data(), "mutable_cpu_data", 0, 24),
        (lambda blob: blob[1].cpu_data(), "cpu_data", 12, 12),
        (lambda blob: blob[:, 1].cpu_data(), "cpu_data", 4, 16),
        (np.asarray, "__array__", 0, 24),
        (np.array, "__array__", 0, 24),
        (lambda blob: np.array(blob[:, 1]), "__array__", 4, 8),
        (np.array_str, "array_str", 0, 24),
        (lambda blob: np.from_dlpack(blob, device="cpu"), "__dlpack__", 0, 24),
        (lambda blob: blob.tolist(), "tolist", 0, 24),
        (lambda blob: blob[0, 0].item(), "item", 0, 4),
        (lambda blob: blob.item(5), "item", 20, 4),
        (lambda blob: float(blob[1, 0]), "__float__", 12, 4),
        (lambda blob: blob.data_at(0, 1), "data_at", 4, 4),
        (lambda blob: str(blob[1]), "str", 12, 12),
        (lambda blob: blob.on("cpu").prefetch(), "prefetch", 0, 24),
    ],
)
def test_a_transfer_names_its_reason_its_bytes_and_is_the_users(access, reason, offset, nbytes):
    blob = at_gpu()
    with record_transfers() as log:
        access(blob)
    (transfer,) = log
    assert transfer.reason == reason
    assert transfer.direction == "download"
    assert (transfer.offset, transfer.nbytes) == (offset, nbytes)
    assert transfer.device == "simulated:0"
    assert transfer.seconds >= 0
    assert transfer.asynchronous == (reason == "prefetch")
    assert transfer.line.filename == __file__
    assert "blob)" in transfer.line.text or "lambda blob:" in transfer.line.text
    place = f" from byte {offset}" if offset else ""
    text = f"download of {nbytes} bytes{place} for {reason} at {__file__}:"
    assert str(transfer).startswith(text)


@pytest.mark.usefixtures("exact_parts")
def test_each_copy_of_a_part_is_an_entry_of_its_own():
    blob = at_gpu()
    blob.name = "weights"
    with record_transfers() as log:
        blob[0, 1].cpu_data()
        blob[1, 0].cpu_data()
        blob.mutable_cpu_data()
    parts = [(transfer.reason, transfer.offset, transfer.nbytes) for transfer in log]
    assert parts[:2] == [("cpu_data", 4, 4), ("cpu_data", 12, 4)]
    assert parts[2:] == [("mutable_cpu_data", start, n) for start, n in ((0, 4), (8, 4), (16, 8))]
    assert log.downloaded_bytes == 24
    assert str(log[4]).startswith(
        f"download of 8 bytes of weights from byte 16 for mutable_cpu_data at {__file__}:"
    )
    assert [entry["offset"] for entry in log.to_dict()["transfers"]] == [4, 12, 0, 8, 16]
    assert {entry["name"] for entry in log.to_dict()["transfers"]} == {"weights"}


@pytest.mark.parametrize(
    "call",
    [
        lambda blob: logging.LogRecord("", 0, "", 0, "values %s", (blob,), None).getMessage(),
        statistics.mean,
        Counter,
    ],
)
def test_a_line_of_the_standard_library_is_not_the_users(call):
    with record_transfers() as log:
        call(at_gpu()[0])
    assert log[0].line.filename == __file__


def test_a_transfer_names_who_makes_it_necessary_at_each_access():
    blob = Blob(3, device="simulated")
    alias = np.from_dlpack(blob.cpu)
    exposed = Blob.asarray(np.zeros(3, "f4"))
    exposed.memory.side_of(simulated_backend(0))
    with record_transfers() as log:
        for _ in range(2):
            blob.gpu_data()
            exposed.gpu_data()
        del alias
        blob.gpu_data()
        blob.mutable_gpu_data()
        blob.cpu_data()
    aliased, adopted = log[0], log[1]
    assert aliased.because == log[2].because
    assert aliased.because.startswith(f"a DLPack alias of the host side, created at {__file__}:")
    assert adopted.because.startswith(f"the host side, exposed at {__file__}:")
    assert adopted.because.endswith(': exposed = Blob.asarray(np.zeros(3, "f4"))')
    assert "; again at each access, because of the host side" in str(adopted)
    assert [transfer.because for transfer in log[4:]] == ["", ""]
    assert log.summary().count("\n    again at each access, because of ") == 2
    assert log.to_dict()["transfers"][0]["because"] == aliased.because


def test_logs_nest_and_see_only_what_happens_inside():
    blob = at_gpu()
    with record_transfers() as outer:
        blob.cpu_data()
        with record_transfers() as inner:
            blob.mutable_cpu_data()
            blob.gpu_data()
    blob.mutable_cpu_data()
    blob.gpu_data()
    assert (len(outer), len(inner)) == (2, 1)


def test_other_threads_are_recorded_too():
    blob = at_gpu()
    with record_transfers() as log:
        in_threads(blob.cpu_data)
    assert log.downloads == 1


def test_a_failed_transfer_is_not_recorded(simulated):
    blob = at_gpu()
    with record_transfers() as log, simulated.failing(transfer=1), pytest.raises(RuntimeError):
        blob.cpu_data()
    assert len(log) == 0


OPERANDS = functions(
    """
    x + y; y * x; syncblob.add(x, y); syncblob.concat([x, y]); np.where(x > 0, x, y)
    """,
    "x, y",
    globals(),
)


@pytest.mark.parametrize("operation", OPERANDS)
def test_an_operand_on_the_host_is_used_on_the_accelerator_alone(operation):
    on_device, on_host = syncblob.ones(10, device="simulated"), syncblob.ones(10)
    exposed = syncblob.asarray(np.ones(10))
    for operand, uploads in (on_host, 1), (exposed, 5):
        with record_transfers() as log:
            for _ in range(5):
                OPERANDS[operation](on_device, operand)
        assert (log.uploads, log.downloads, log.avoided) == (uploads, 0, 0)


def test_an_operand_that_the_host_uses_too_is_what_is_avoided():
    on_device, on_host = syncblob.ones(10, device="simulated"), syncblob.ones(10)
    with record_transfers() as log:
        for _ in range(5):
            on_device + on_host
            np.asarray(on_host)
    assert (log.uploads, log.avoided, log.avoided_bytes) == (1, 9, 720)


INDICES = np.array([[0, 1], [1, 1]])
MASK = np.array([True, False])
KEYS = {
    "integers": INDICES,
    "a mask": MASK,
    "read-only": np.broadcast_to(np.intp(1), 4),
    "strided": np.arange(4)[::-2] // 2,
    "big-endian": INDICES.astype(">i2"),
    "several": (INDICES, None, np.array([[0], [2]])),
}


@pytest.mark.parametrize("key", [*KEYS, "a tensor"])
def test_an_array_that_a_blob_is_indexed_by_is_uploaded(key):
    expected, index = np.arange(6.0).reshape(2, 3), KEYS.get(key, INDICES)
    count = 2 if isinstance(index, tuple) else 1
    given = pytest.importorskip("torch").tensor(INDICES) if key == "a tensor" else index
    blob = Blob((2, 3), "f8", device="simulated", name="x")
    blob.overwrite_gpu_data()[...] = expected
    with record_transfers() as log:
        assert np.array(blob.copy()[given]).tolist() == expected[index].tolist()
    assert [t.reason for t in log][:count] == ["__getitem__"] * count
    assert log.uploads == count
    with record_transfers() as log:
        blob[given] = 7
    assert [(t.direction, t.reason) for t in log] == [("upload", "__setitem__")] * count
    expected[index] = 7
    assert blob.tolist() == expected.tolist()
    before = blob.head
    for forbidden in lambda: blob[given], lambda: operator.setitem(blob, given, 0):
        with no_transfers(), pytest.raises(TransferGuardError):
            forbidden()
    assert blob.head is before
    assert blob.tolist() == expected.tolist()
    with no_transfers():
        on_host = Blob.asarray(expected, device="cpu")
        assert on_host[given].tolist() == expected[index].tolist()
        on_host[given] = 1


def test_a_blob_on_another_device_that_a_blob_is_indexed_by_moves_only_there():
    blob = Blob.asarray(np.arange(4.0), device="cpu")
    key = Blob.asarray([2, 0], device="simulated")
    with no_transfers():
        assert blob[key].tolist() == [2, 0]
    with record_transfers() as log:
        assert np.asarray(blob.to_device("simulated")[key.on("cpu")]).tolist() == [2, 0]
    assert [t.reason for t in log][:2] == ["to_device", "__getitem__"]


def test_what_is_wrong_with_an_index_is_found_before_it_moves():
    blob = Blob((2, 3), device="simulated")
    blob.overwrite_gpu_data()[...] = 1
    with record_transfers() as log:
        with pytest.raises(ValueError, match="cannot assign values of shape"):
            blob[np.array([0, 1])] = np.ones(5, "f4")
        with pytest.raises(IndexError):
            blob[np.array([5])] = 1
        with pytest.raises(IndexError):
            blob[np.array([0.5])]
    assert len(log) == 0


def test_of_a_push_the_log_tells_when_it_arrived(gate):
    blob = filled(1, 3)
    with record_transfers() as log, record_transfers() as other:
        blob.prefetch()
        blob.cpu_data()
    assert (log[0].asynchronous, log[0].arrived) == (True, None)
    gate.set()
    blob.gpu_data()
    blob.mutable_cpu_data()[...] = 2
    with log:
        blob.gpu_data()
    first, second = log
    assert first.arrived is not None
    assert first.arrived >= first.start + first.seconds
    assert other[0] == first
    assert second.arrived is None, "it was not asynchronous"
    arrived = [entry["arrived"] for entry in log.to_dict()["transfers"]]
    assert arrived == [first.arrived, None]


def test_a_device_need_not_tell_when_a_push_arrived(simulated, monkeypatch):
    blob = filled(1, 3)
    push = type(simulated.push(np.ones(1, "u1"), np.ones(1, "u1"), None))
    monkeypatch.setattr(push, "arrival", Push.arrival)
    with record_transfers() as log:
        blob.async_gpu_push()
        blob.gpu_data()
    assert log[0].arrived is None


def test_an_upload_that_fails_later_arrives_too(simulated):
    blob = filled(1, 3)
    with record_transfers() as log, simulated.failing(transfer=1):
        blob.async_gpu_push()
        with pytest.raises(RuntimeError, match="injected"):
            blob.gpu_data()
    assert log[0].arrived is not None


# --- operations ----------------------------------------------------------------------------------


# Each with the name that is recorded.
OPERATIONS = dict(
    row.split(" -> ")
    for row in texts(
        """
        blob + blob -> add; blob * 2 -> multiply; blob - np.ones((2, 3), 'f4') -> subtract;
        -blob -> negative; operator.iadd(blob, 1) -> add; np.sin(blob) -> sin;
        np.multiply(blob, 2, out=blob) -> multiply; np.concatenate([blob, blob]) -> concatenate;
        syncblob.sum(blob) -> sum; syncblob.zeros(3, device=blob.device) -> zeros;
        operator.setitem(blob, 0, 3) -> setitem;
        blob[syncblob.asarray([1], device=blob.device)] -> getitem; blob.astype('f8') -> astype;
        blob.scale_data(2) -> scale
        """
    )
)


@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
@pytest.mark.parametrize("text", OPERATIONS)
def test_an_operation_is_recorded_with_device_line_and_time(text, device):
    (operation,) = functions(text, "blob", globals()).values()
    blob = Blob((2, 3), device=device)
    # A memory in use, and a result of a computation.
    blob[...] = 1
    for target in (blob, blob + 1):
        start = time.perf_counter()
        with record_transfers(operations=True) as log:
            operation(target)
        end = time.perf_counter()
        (found,) = [one for one in log.operations if one.name == OPERATIONS[text]]
        assert found.device == device
        assert found.line.filename == __file__
        assert start <= found.start <= found.start + found.seconds <= end
        assert log.to_dict()["operations"][-1]["device"] == device
    with record_transfers() as log:
        operation(blob)
    assert log.operations == [] == log.to_dict()["operations"]


def test_an_operation_of_torch_is_recorded():
    torch = pytest.importorskip("torch", reason="torch is one of the consumers")
    blob = at_gpu()
    with record_transfers(operations=True) as log:
        torch.nn.functional.relu(blob)
    (found,) = log.operations
    assert (found.name, found.device) == ("relu", "cpu")
    assert found.line.text == "torch.nn.functional.relu(blob)"


def test_what_fails_and_what_runs_outside_is_no_operation():
    blob = at_gpu()
    with record_transfers(operations=True) as log:
        with pytest.raises(ValueError, match="shape"):
            blob + syncblob.ones(5, device="simulated")
        log_of_inner = record_transfers(operations=True)
        with log_of_inner:
            in_threads(lambda: blob * 2)
    blob - 1
    assert [one.name for one in log.operations] == ["ones", "multiply"]
    assert [one.name for one in log_of_inner.operations] == ["multiply"]
    assert not supervisors


def test_operations_give_the_same_results_and_transfers_while_they_are_recorded():
    found = []
    for operations in (False, True):
        blob = at_gpu()
        with record_transfers(operations=operations) as log:
            total = (blob * 2 + np.ones((2, 3), "f4")).sum()
            blob += total
            blob.cpu_data()
            blob[0] = blob[1] * blob.on("cpu")[0]
            found.append((blob.tolist(), log.uploads, log.downloads, log.avoided))
    assert found[0] == found[1]


def test_a_summary_tells_named_memories_apart():
    blobs = [Blob(3, device="simulated", name=name) for name in ("weights", "bias")]
    for blob in blobs:
        blob.mutable_cpu_data()[...] = 1
    with record_transfers() as log:
        for blob in blobs:
            blob.gpu_data()
    summary = log.summary()
    for name in ("weights", "bias"):
        assert re.search(f"1 x upload, 12 bytes of {name} in [0-9.]+ ms, for gpu_data", summary)


def test_many_small_transfers_of_a_line_are_reported():
    blob, rows = Blob((32, 8), device="simulated"), Blob((32, 2048), device="simulated")
    for each in (blob, rows):
        each.mutable_gpu_data()[...] = 1
    with record_transfers() as log:
        for row in rows:
            row.cpu_data()
        for row in blob[1:]:
            row[0].item()
        assert log.problems() == []
        for row in blob:
            row[0].item()
    (found,) = log.problems()
    (line,) = found.lines
    assert (found.kind, found.transfers, found.nbytes) == ("many small", 32, 128)
    assert line.text == "row[0].item()"
    seconds = sum(each.seconds for each in log if each.line == line)
    assert f"many small: 32 x download, 128 bytes in {seconds * 1e3:.3f} ms, for item at" in (
        log.summary()
    )
    assert log.to_dict()["problems"] == [{**found._asdict(), "lines": [str(line)]}]


def test_a_log_may_keep_only_the_last_transfers(simulated):
    blob = Blob(3, device="simulated")
    with record_transfers(last=3, operations=True) as log:
        for _ in range(5):
            blob.mutable_cpu_data()
            blob.gpu_data()
            blob += 1
            blob.cpu_data()
    assert [each.direction for each in log] == ["download", "upload", "download"]
    assert (len(log), len(log.operations), len(log[1:])) == (3, 3, 2)
    assert (log.uploads, log.downloads, log.nbytes) == (5, 5, 120)
    assert log.seconds > sum(each.seconds for each in log)
    assert "\n  the last 3 of 10 transfers:\n  2 x download, 24 bytes" in log.summary()
    assert simulated.uploads == 5
    with pytest.raises(ValueError, match="at least 1, or None, got 0"):
        record_transfers(last=0)


def test_evictions_before_the_transfers_of_a_log_are_forgotten_with_them():
    blob = Blob(3, device="simulated")
    blob.mutable_cpu_data()
    with record_transfers(last=4) as log:
        for _ in range(4):
            blob.gpu_data()
            log.add_eviction(blob.memory.serial, 0, 12)
            blob.evict("gpu")
        found = [(each.kind, each.transfers) for each in log.problems()]
        other = at_gpu()
        for _ in range(4):
            other.mutable_gpu_data()
            other.cpu_data()
    assert found == [("thrashing", 3)]
    assert log.problems() == []


@pytest.mark.parametrize("context", [record_transfers, lambda: max_transfers(1000)])
def test_a_small_transfer_takes_few_more_steps_in_a_log_or_a_guard(context):
    blob = Blob(3, device="simulated")
    steps = 0

    def count(*_):
        nonlocal steps
        steps += 1

    def measured():
        nonlocal steps
        for _ in range(3):
            steps = 0
            sys.setprofile(count)
            try:
                blob.mutable_cpu_data()
                blob.gpu_data()
                blob.mutable_gpu_data()
                blob.cpu_data()
            finally:
                sys.setprofile(None)
        return steps

    alone = measured()
    with context():
        assert measured() < 2.5 * alone
