"""Parts of a memory: each has its own head, borrows and pushes.

A map is written with one letter for each eight bytes: H for the host, G for the accelerator, B for
both.
"""

import numpy as np
import pytest
from fault_states import newest
from program_devices import Simulated

from syncblob import Head, SyncedMemory, record_transfers
from syncblob._layout import Layout
from syncblob.devices import POISON, Side
from syncblob.interop.export_cuda import is_exposed
from syncblob.memory import Access
from syncblob.memory.accesses import assume_unaliased, expose

# They count the bytes of parts of small memories.
pytestmark = pytest.mark.usefixtures("exact_parts")

UNIT = 8
UNITS = 8
NBYTES = UNIT * UNITS
VALUES = np.arange(NBYTES, dtype=np.uint8)
HOST, ACCELERATOR = Side
CONST, MUTABLE, OVERWRITE = Access
LETTERS = ".HGB"
NEW = 200


def use(memory, side, access, first, last):
    """Access some of the units."""
    layout = Layout.raw((last - first) * UNIT, first * UNIT)
    return memory.lend(side, access, layout, "use")


def made(letters="H" * UNITS, device=None):
    """Make a memory of units that are newest as the letters say. Its bytes count up."""
    device = device or Simulated()
    memory = SyncedMemory(len(letters) * UNIT, device=device.name)
    memory.overwrite_cpu_data()[:] = values = np.arange(memory.nbytes) % 199
    for place, letter in enumerate(letters):
        if letter == "G":
            part = slice(place * UNIT, (place + 1) * UNIT)
            array = use(memory, ACCELERATOR, OVERWRITE, place, place + 1)
            device.seen(array)[:] = values[part]
        if letter == "B":
            use(memory, ACCELERATOR, CONST, place, place + 1)
    assert drawn(memory) == letters
    return memory


def drawn(memory):
    """Return the map as letters."""
    holders = memory.spans
    letters = [
        LETTERS[holders.common(start, start + UNIT)] for start in range(0, memory.nbytes, UNIT)
    ]
    assert all(run.start % UNIT == 0 for run in holders.runs(0, memory.nbytes))
    return "".join(letters)


def contents(memory):
    return list(newest(memory))


def moved(log):
    return [(transfer.direction, transfer.offset, transfer.nbytes) for transfer in log]


# --- the table, applied to each part -------------------------------------------------------------


def test_what_is_noted_says_which_part():
    memory = made("HHHHGGGG")
    memory.name = "weights"
    with record_transfers() as log:
        use(memory, HOST, CONST, 2, 6)
    (transfer,) = log
    assert (transfer.offset, transfer.nbytes, transfer.name) == (32, 16, "weights")
    assert "download of 16 bytes of weights from byte 32 for use at" in str(transfer)
    last = memory.history[-1]
    assert (last.start, last.stop, last.copied) == (16, 48, "download")
    assert (last.map_before.head(), last.map_after.head()) == (Head.SPLIT, Head.SPLIT)


# --- asynchronous uploads ------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "last"), [(0, 1), (3, 4)])
def test_every_upload_that_failed_is_raised_by_a_wait(first, last, simulated):
    memory = made()
    with simulated.failing(transfer=1):
        memory.async_gpu_push(start=first, stop=last)
        with pytest.raises(RuntimeError, match="injected"):
            memory.end_uploads()
    assert drawn(memory) == "H" * UNITS


# --- exposure ------------------------------------------------------------------------------------


def test_a_range_is_exposed_where_all_of_it_is_and_is_newest_there_alone():
    memory = made("HGGGGGBH")
    expose(memory, ACCELERATOR, start=2 * UNIT, stop=4 * UNIT, shared=True)

    def exposed(first, last):
        return is_exposed(memory, ACCELERATOR, first * UNIT, last * UNIT)

    assert exposed(2, 4)
    assert exposed(3, 4)
    assert not exposed(1, 4)
    assert not exposed(2, 5)
    assert not exposed(5, 6)
    assert not is_exposed(memory, HOST, 2 * UNIT, 4 * UNIT)
    use(memory, HOST, MUTABLE, 2, 3)
    assert not exposed(2, 3)
    assert not exposed(2, 4)
    assert exposed(3, 4)


# --- failures ------------------------------------------------------------------------------------


def test_a_write_that_raises_leaves_what_it_has_not_reached(simulated):
    del simulated

    def raises(array, _key, value):
        array[:3] = value
        raise KeyError("in the middle")

    for letters in ("GGGGGGGG", "GHGHGHGH", "BBBBBBBB"):
        memory = made(letters)
        with pytest.raises(KeyError):
            memory.write(HOST, OVERWRITE, Layout.raw(24, 16), "use", raises, ..., NEW)
        seen = contents(memory)
        assert seen[:16] + seen[40:] == [*range(16), *range(40, 64)]
        # Where the accelerator holds the old contents, they remain the newest.
        for place in (2, 3, 4):
            part = slice(place * UNIT, (place + 1) * UNIT)
            if letters[place] == "G":
                assert seen[part] == VALUES[part].tolist()
        assert memory.cpu_data().tolist() == memory.gpu_data().tolist() == seen


# --- aliases and exposures -----------------------------------------------------------------------


@pytest.mark.parametrize("side", Side)
def test_exposure_is_of_a_range(side):
    memory = made("B" * UNITS)
    expose(memory, side, start=16, stop=32)
    assert drawn(memory) == "BB" + "HG"[side] * 2 + "BBBB"
    for _ in range(3):
        memory.buffer(side)[16:32] += 1
        with record_transfers() as log:
            seen = use(memory, Side(1 - side), CONST, 0, UNITS)
        assert seen.tolist() == memory.buffer(side).tolist()
        assert [offset for _, offset, _ in moved(log)] == [16]
        assert log.nbytes == 16


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("shared", [False, True])
def test_a_write_on_the_other_side_ends_the_exposure_of_what_it_overlaps(side, shared):
    memory = made("HG"[side] * UNITS)
    expose(memory, side, start=16, stop=48, shared=shared)
    use(memory, Side(1 - side), MUTABLE, 0, 1)
    assert exposed(memory, side) == [(16, 48)]
    use(memory, Side(1 - side), MUTABLE, 3, 4)
    assert exposed(memory, side) == ([(16, 48)] if shared else [(16, 24), (32, 48)])
    use(memory, Side(1 - side), OVERWRITE, 0, 3)
    assert exposed(memory, side) == ([(16, 48)] if shared else [(32, 48)])
    assume_unaliased(memory, 40, 64)
    assert exposed(memory, side) == ([(16, 40)] if shared else [(32, 40)])
    assume_unaliased(memory, 0, memory.nbytes)
    assert not memory.aliased


def exposed(memory, side):
    return sorted((loan.start, loan.stop) for loan in memory.loans.of(side))


def test_a_write_on_the_side_that_is_equal_ends_exposures_of_the_other():
    memory = made("BBBBHHHH")
    for start in (0, 40, 40):
        expose(memory, ACCELERATOR, start=start, stop=start + 8)
    assert exposed(memory, ACCELERATOR) == [(0, 8), (40, 48)]
    assert drawn(memory) == "GBBBHHHH"
    use(memory, HOST, MUTABLE, 1, 6)
    assert exposed(memory, ACCELERATOR) == [(0, 8)]
    assert drawn(memory) == "GHHHHHHH"


def test_an_exposure_that_fails_ends_no_other(simulated):
    memory = made()
    expose(memory, ACCELERATOR, start=0, stop=8)
    with simulated.failing(transfer=1):
        memory.async_gpu_push(start=16)
        with pytest.raises(RuntimeError, match="injected"):
            expose(memory, ACCELERATOR, start=16, stop=32)
    assert exposed(memory, ACCELERATOR) == [(0, 8)]


@pytest.mark.parametrize("start", [0, 2])
def test_a_first_overwrite_zeroes_only_what_it_leaves(start):
    memory = SyncedMemory(8, device="simulated")
    array = memory.lend(ACCELERATOR, OVERWRITE, Layout.raw(8 - start, start), "use")
    assert (array == (0 if start else POISON)).all()
    array[:] = 1
    assert memory.cpu_data().tolist() == [0] * start + [1] * (8 - start)
