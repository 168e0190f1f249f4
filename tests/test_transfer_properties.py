"""The journal, the guards and the device's own counters agree, whatever is done."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import syncblob
from syncblob import Blob, TransferGuardError, max_transfers, record_transfers

ACCESSES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["", "mutable_", "overwrite_"]),
        st.sampled_from(["cpu", "gpu"]),
    ),
    max_size=25,
)
SIZES = st.tuples(*[st.integers(0, 5)] * 3)


def made(sizes):
    backend = syncblob.simulated(0)
    backend.synchronize()
    backend.reset_counts()
    return backend, [Blob(size, device="simulated") for size in sizes]


def run(blobs, accesses):
    for number, kind, side in accesses:
        array = getattr(blobs[number], f"{kind}{side}_data")()
        if kind:
            array[...] = 1


@given(sizes=SIZES, accesses=ACCESSES)
def test_the_journal_has_what_the_device_counts(sizes, accesses):
    backend, blobs = made(sizes)
    with record_transfers() as log:
        run(blobs, accesses)
    assert (log.uploads, log.downloads) == (backend.uploads, backend.downloads)
    assert log.uploaded_bytes == backend.uploaded_bytes
    assert log.downloaded_bytes == backend.downloaded_bytes
    assert len(log) == backend.uploads + backend.downloads
    assert sum(transfer.nbytes for transfer in log) == log.uploaded_bytes + log.downloaded_bytes


@given(sizes=SIZES, accesses=ACCESSES, less=st.integers(0, 3))
def test_a_guard_lets_pass_what_it_allows_and_no_transfer_more(sizes, accesses, less):
    backend, blobs = made(sizes)
    with record_transfers() as log:
        run(blobs, accesses)
    allowed = max(0, len(log) - less)
    backend, blobs = made(sizes)
    try:
        with max_transfers(allowed) as guard:
            run(blobs, accesses)
        assert len(log) == allowed
    except TransferGuardError:
        assert len(log) > allowed
    assert guard.count == backend.uploads + backend.downloads == min(allowed, len(log))
    # What was refused can be done without the guard.
    for blob in blobs:
        blob.cpu_data()


@given(sizes=SIZES, accesses=ACCESSES, limit=st.integers(0, 60))
def test_a_guard_of_bytes_is_never_exceeded(sizes, accesses, limit):
    backend, blobs = made(sizes)
    try:
        with max_transfers(bytes=limit) as guard:
            run(blobs, accesses)
    except TransferGuardError:
        pass
    assert guard.nbytes == backend.uploaded_bytes + backend.downloaded_bytes <= limit
