"""Guards and the counters of the device agree after any accesses.

That the log has what the device counts is compared in tests/memory/test_region_programs.py.
"""

from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

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


@contextmanager
def made(sizes, program_device):
    device = program_device()
    try:
        yield device.controls, [Blob(size, device=device.name) for size in sizes]
    finally:
        device.close()


def run(blobs, accesses):
    for number, kind, side in accesses:
        array = getattr(blobs[number], f"{kind}{side}_data")()
        if kind:
            array[...] = 1


@settings(max_examples=40)
@given(sizes=SIZES, accesses=ACCESSES, less=st.integers(0, 3))
def test_a_guard_lets_pass_what_it_allows_and_no_transfer_more(
    program_device, sizes, accesses, less
):
    with made(sizes, program_device) as (_, blobs), record_transfers() as log:
        run(blobs, accesses)
    allowed = max(0, len(log) - less)
    with made(sizes, program_device) as (backend, blobs):
        try:
            with max_transfers(allowed) as guard:
                run(blobs, accesses)
            assert len(log) == allowed
        except TransferGuardError:
            assert len(log) > allowed
        assert guard.count == backend.uploads + backend.downloads == min(allowed, len(log))
        # Refused transfers can be made without the guard.
        for blob in blobs:
            blob.cpu_data()
