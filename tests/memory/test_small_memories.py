"""Small memories: an access of a part that has to copy brings everything."""

import numpy as np
import pytest
from made_blobs import READS, memory_on

import syncblob
from syncblob import Blob, SyncedMemory, verified_const
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access
from syncblob.memory.changes import SMALL

scipy_linalg = pytest.importorskip("scipy.linalg")

CONST, MUTABLE, OVERWRITE = Access
PART = Layout.raw(8, 16)


@pytest.mark.parametrize("nbytes", [SMALL, SMALL + 1])
def test_only_a_small_memory_is_brought_whole(nbytes, simulated):
    for read in (
        lambda memory: memory.array(Side.HOST, CONST, PART, "use"),
        lambda memory: memory.array(Side.HOST, CONST, Layout.raw(8, SMALL - 8), "use"),
        lambda memory: memory.prefetch(Side.HOST, PART.start, PART.stop),
    ):
        memory = memory_on(Side.ACCELERATOR, 1, nbytes, both_sides=True)
        simulated.reset_counts()
        read(memory)
        simulated.synchronize()
        assert simulated.downloaded_bytes == (nbytes if nbytes <= SMALL else PART.nbytes)


def test_the_last_byte_of_a_part_comes_although_those_before_are_there():
    memory = memory_on(Side.HOST, 1, 8, both_sides=True)
    memory.array(Side.ACCELERATOR, MUTABLE, Layout.raw(5, 3), "use")[:] = 2
    assert memory.array(Side.HOST, CONST, Layout.raw(2, 2), "use").tolist() == [1, 2]


@pytest.mark.parametrize("side", Side)
def test_under_watch_the_rest_of_a_const_export_may_come_along(side):
    memory = memory_on(side, 1, 64, both_sides=True)
    with verified_const():
        export = memory.export(side, CONST, Layout.raw(64), "use", "NumPy")
        getattr(memory, f"mutable_{READS[Side(1 - side)]}")()[:] = 9
        memory.array(side, CONST, PART, "use")
        memory.array(side, CONST, Layout.raw(4), "use")
        del export


def test_a_host_buffer_of_which_a_part_is_needed_has_zeros_elsewhere(monkeypatch):
    # Stands for what the heap has left there.
    monkeypatch.setattr(np, "empty", lambda shape, dtype: np.full(shape, 0xA5, dtype))
    for access in (CONST, MUTABLE, OVERWRITE, "prefetch", "evict"):
        # In the middle, near the start, or near the end.
        start = {CONST: SMALL // 2 - 4, MUTABLE: 16}.get(access, SMALL - 16)
        if access == "evict":
            # The bytes elsewhere are those of the source.
            memory = SyncedMemory(SMALL + 1, device="simulated", source=pytest.fail)
            memory.lend(Side.ACCELERATOR, OVERWRITE, Layout.raw(9, start), "use")[:] = 1
        else:
            memory = memory_on(Side.ACCELERATOR, 1, SMALL + 1)
        if isinstance(access, Access):
            # What is planned for a memory with a buffer there is not done for one without.
            alike = memory_on(Side.ACCELERATOR, 1, SMALL + 1, both_sides=True)
            alike.array(Side.HOST, access, Layout.raw(9, start), "use")
        if access == "evict":
            memory.evict(Side.ACCELERATOR)
        elif access == "prefetch":
            memory.prefetch(Side.HOST, start, start + 9)
            memory.accelerator.synchronize()
        else:
            memory.array(Side.HOST, access, Layout.raw(9, start), "use")
        buffer = memory.buffer(Side.HOST).tolist()
        assert set(buffer[:start] + buffer[start + 9 :]) == {0}
        if access is not OVERWRITE:
            assert buffer[start : start + 9] == [1] * 9


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_who_reaches_beyond_a_view_finds_the_newest_contents(device):
    blob = Blob(6, dtype="float64", device=device)
    blob.memory.side_of(syncblob.simulated())
    blob.gpu_data()
    blob.cpu_data()
    blob[...] = [1, 2, 3, 4, 5, 6]
    found = np.lib.stride_tricks.as_strided(blob[3:], (3,), (-8,))
    assert np.asarray(found).tolist() == [4, 3, 2]
    for make in (scipy_linalg.circulant, scipy_linalg.toeplitz):
        expected = make(np.array([1.0, 2, 3]))
        assert np.asarray(make(blob[:3])).tolist() == expected.tolist()
    windows = np.lib.stride_tricks.sliding_window_view(blob, 2)
    assert isinstance(windows, Blob)
    assert windows.tolist() == [[1, 2], [2, 3], [3, 4], [4, 5], [5, 6]]
    with pytest.raises(ValueError, match="const"):
        windows[0] = 1
