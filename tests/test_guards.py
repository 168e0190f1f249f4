"""Guards: transfers that are forbidden or limited."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

from syncblob import Blob, Head, TransferGuardError, max_transfers, no_transfers, record_transfers


def at_cpu() -> Blob:
    blob = Blob(4, device="simulated")
    blob.mutable_cpu_data()[...] = 1
    return blob


def test_a_forbidden_transfer_is_not_made_and_names_its_line() -> None:
    blob = at_cpu()
    borrow = blob.mutable_cpu_data()
    with record_transfers() as log, no_transfers(), pytest.raises(TransferGuardError) as caught:
        blob.gpu_data()
    assert len(log) == 0
    assert blob.head is Head.HEAD_AT_CPU
    assert borrow.flags.writeable
    message = str(caught.value)
    assert message.startswith("no transfers allowed here, and gpu_data needs an upload of 16")
    assert f"{__file__}:" in message
    assert "blob.gpu_data()" in message
    assert blob.gpu_data().tolist() == [1] * 4


def test_the_error_says_what_is_allowed_and_survives_a_pickle() -> None:
    blob = at_cpu()
    with max_transfers(bytes=8), pytest.raises(TransferGuardError) as caught:
        blob.gpu_data()
    again = pickle.loads(pickle.dumps(caught.value))
    assert caught.value.allowed == again.allowed == "at most 8 bytes allowed here"
    assert str(again) == str(caught.value)
    assert str(again).startswith("at most 8 bytes allowed here, and gpu_data needs an upload of 16")


def test_what_needs_no_transfer_is_allowed() -> None:
    blob = at_cpu()
    with no_transfers():
        np.asarray(blob)
        blob.mutable_cpu_data()
        blob.overwrite_gpu_data()[...] = 1


@pytest.mark.parametrize("forbidden", [lambda blob: blob.async_gpu_push(), np.asarray])
def test_asynchronous_uploads_and_downloads_are_transfers(forbidden: object) -> None:
    blob = at_cpu()
    if forbidden is np.asarray:
        blob.mutable_gpu_data()
    head = blob.head
    with no_transfers(), pytest.raises(TransferGuardError):
        forbidden(blob)  # type: ignore[operator]  # parametrised functions
    assert blob.head is head


def test_a_number_of_transfers_is_allowed() -> None:
    blob = at_cpu()
    with max_transfers(count=2) as guard:
        blob.mutable_gpu_data()
        blob.mutable_cpu_data()
        with pytest.raises(TransferGuardError, match=r"at most 2 transfers .* after 2 of 32 bytes"):
            blob.gpu_data()
    assert (guard.count, guard.nbytes) == (2, 32)


def test_a_number_of_bytes_is_allowed() -> None:
    blob = at_cpu()
    with max_transfers(bytes=20) as guard:
        blob.mutable_gpu_data()
        with pytest.raises(TransferGuardError, match="at most 20 bytes"):
            blob.cpu_data()
    assert (guard.count, guard.nbytes) == (1, 16)


def test_guards_nest_and_all_of_them_count() -> None:
    blob = at_cpu()
    with max_transfers(count=1) as outer, max_transfers(count=5) as inner:
        blob.mutable_gpu_data()
        with pytest.raises(TransferGuardError, match="at most 1 transfer"):
            blob.cpu_data()
    assert (outer.count, inner.count) == (1, 1)
    blob.cpu_data()


def test_a_guard_is_for_its_own_context() -> None:
    blob = at_cpu()
    with no_transfers():
        thread = threading.Thread(target=blob.gpu_data)
        thread.start()
        thread.join()
    assert blob.head is Head.SYNCED


def test_a_limit_needs_a_number() -> None:
    with pytest.raises(TypeError, match="count"):
        max_transfers()


def test_a_failed_transfer_does_not_count(simulated: object) -> None:
    blob = at_cpu()
    with max_transfers(count=1) as guard:
        with simulated.failing(transfer=1), pytest.raises(RuntimeError):  # type: ignore[attr-defined]  # the fixture's backend
            blob.gpu_data()
        blob.gpu_data()
    assert guard.count == 1
