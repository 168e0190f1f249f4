"""Evictions of what a source still has: it is dropped, and read from the source again."""

import gc
import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import tiers
from devices import LIMITED

import syncblob
from syncblob import Blob, Head, SyncedMemory, record_transfers
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access
from syncblob.memory.state_machine import Spans

COUNT = 64
NBYTES = 4 * COUNT


class Everything:
    """A source that can be read again, but not in parts, and counts how often it is."""

    def __init__(self, values):
        self.values = values
        self.reads = 0
        self.is_there = True

    def __call__(self):
        self.reads += 1
        return self.values.view(np.uint8).copy()

    def again(self):
        return self if self.is_there else None


class Numbers(Everything):
    """The same, in parts."""

    def read_into(self, buffer, offset):
        self.reads += 1
        buffer[:] = self.values.view(np.uint8)[offset : offset + len(buffer)]


def of_numbers(source):
    return Blob.from_source((COUNT,), "int32", source, device=LIMITED)


@pytest.fixture
def source():
    return Numbers(np.arange(COUNT, dtype="int32"))


@pytest.fixture
def file(tmp_path):
    """Make a file of a Blob."""
    path = tmp_path / "numbers.binaryproto"
    blob = Blob(COUNT)
    blob[...] = np.arange(COUNT)
    syncblob.write_blob(blob, path)
    return path


def test_just_what_was_written_moves_all_or_nothing(limited, source):
    blob = of_numbers(source)
    blob.gpu_data()
    for part in (blob[8:16], blob[32:40]):
        part.mutable_gpu_data()[...] = -1
    with limited.failing(transfer=2), pytest.raises(RuntimeError, match="transfer"):
        blob.evict("gpu")
    assert blob.head is blob[8:16].head is Head.HEAD_AT_GPU
    with record_transfers() as log:
        assert blob.evict("gpu") == NBYTES
    assert [(each.offset, each.nbytes) for each in log] == [(32, 32), (128, 32)]
    expected = np.arange(COUNT)
    expected[8:16] = expected[32:40] = -1
    assert blob.tolist() == expected.tolist()


def test_what_a_signal_handler_writes_amid_another_write_is_not_dropped(source, monkeypatch):
    blob, put = of_numbers(source), Spans.put
    blob.cpu_data()

    def interrupted(*args):
        monkeypatch.setattr(Spans, "put", put)
        blob[32:40].mutable_cpu_data()[...] = -2
        return put(*args)

    monkeypatch.setattr(Spans, "put", interrupted)
    blob[8:16].mutable_cpu_data()[...] = -1
    assert Spans.put is put
    assert blob.evict("cpu") == NBYTES
    expected = np.arange(COUNT)
    expected[8:16], expected[32:40] = -1, -2
    assert blob.tolist() == expected.tolist()


@pytest.mark.parametrize("side", ["cpu", "gpu"])
@pytest.mark.parametrize("make", [Numbers, Everything])
def test_what_nobody_wrote_is_dropped_and_read_again(limited, make, side):
    source = make(np.arange(COUNT, dtype="int32"))
    blob = of_numbers(source)
    for times in (1, 2, 3):
        assert (blob.gpu_data() if side == "gpu" else blob.cpu_data())[5] == 5
        assert source.reads == times
        limited.reset_counts()
        assert blob.evict(side) == NBYTES
        assert (blob.head, blob.memory.buffer(Side.HOST)) == (Head.UNINITIALIZED, None)
        assert (limited.uploads, limited.downloads, limited.used_nbytes) == (0, 0, 0)
    assert "evict: HEAD_AT_" in str(blob.explain())
    assert blob.sum().item() == sum(range(COUNT))


def test_weights_that_do_not_fit_are_never_downloaded(limited, source):
    limited.capacity = 2 * NBYTES + 64
    weights, changed = [of_numbers(source) for _ in range(4)], Blob(COUNT, device=LIMITED)
    changed[...] = 0
    with record_transfers() as log:
        for _ in range(3):
            for each in weights:
                assert each.sum().item() == sum(range(COUNT))
    assert {t.nbytes for t in log if t.direction == "download" and t.name} == set()
    assert not changed.any()
    assert all(each.memory.buffer(Side.HOST) is None for each in weights)


@pytest.mark.parametrize(
    "write",
    [
        lambda blob: blob.__setitem__(0, 7),
        lambda blob: blob.sum() and blob.__setitem__(slice(0, 1), 7),
        lambda blob: blob.mutable_gpu_data().__setitem__(0, 7),
        lambda blob: blob.mutable_cpu_data().__setitem__(0, 7),
        lambda blob: np.asarray(blob.gpu).__setitem__(0, 7),
        lambda blob: np.add(blob, [7] + [0] * 63, out=blob),
        lambda blob: blob[:1].__iadd__(7),
        lambda blob: blob.copy_from(blob + (np.arange(COUNT) == 0) * 7),
        lambda blob: blob.set_cpu_data(np.array([7, *range(1, COUNT)], "int32")),
    ],
)
@pytest.mark.parametrize("read", ["cpu_data", "gpu_data"])
@pytest.mark.usefixtures("simulated")
def test_what_was_written_is_kept(source, write, read):
    blob = of_numbers(source)
    getattr(blob, read)()
    write(blob)
    gc.collect()
    for side in ("gpu", "cpu", "gpu"):
        with suppress(BufferError):  # of the array that the last one adopts, which stays
            blob.evict(side)
        assert blob.on("cpu")[:3].tolist() == [7, 1, 2]


@pytest.mark.usefixtures("simulated")
def test_a_write_of_no_elements_leaves_all_to_the_source(source):
    blob = of_numbers(source)
    blob[8:8].mutable_gpu_data()
    assert blob.memory.source.unwritten == Spans.whole(NBYTES, 1)


def test_a_write_after_reads_on_both_sides_is_kept(source):
    blob = of_numbers(source)
    blob.cpu_data(), blob.gpu_data()
    blob.evict("gpu")
    # These renew the shortcuts, which must not let the write pass unnoticed by the source.
    blob.cpu_data(), blob.gpu_data()
    blob.mutable_cpu_data()[...] = 7
    blob.evict("cpu")
    assert set(blob.tolist()) == {7}


@pytest.mark.usefixtures("small", "exact_parts")
def test_of_a_part_that_was_written_only_that_is_downloaded(limited, source, monkeypatch):
    blob = of_numbers(source)
    blob.gpu_data()
    blob[8:16] += 1
    limited.reset_counts()
    blob.evict("gpu")
    assert limited.downloaded_bytes == 32
    assert blob.memory.spans.head(0, 32) is Head.UNINITIALIZED
    assert blob.memory.spans.head(32, 64) is Head.HEAD_AT_CPU
    # The rest is read again, in parts.
    monkeypatch.delattr(Everything, "__call__")
    assert blob.tolist() == [*range(8), *range(9, 17), *range(16, COUNT)]


@pytest.mark.usefixtures("exact_parts")
def test_a_source_is_kept_for_the_first_byte(limited):
    memory = SyncedMemory(8, device=LIMITED, source=Numbers(np.zeros(2, "int32")))
    memory.lend(Side.HOST, Access.MUTABLE, Layout.raw(7, 1), "use")[...] = 1
    memory.cpu_data()
    memory.evict(Side.HOST)
    assert limited.uploaded_bytes == 7
    assert memory.cpu_data().tolist() == [0] + [1] * 7
    memory.set_cpu_data(np.ones(8, np.uint8))
    assert memory.source is None


def test_a_source_that_is_gone_is_not_relied_on(limited, source):
    blob = of_numbers(source)
    blob.gpu_data()
    source.is_there = False
    blob.evict("gpu")
    assert (blob.head, limited.downloads) == (Head.HEAD_AT_CPU, 1)
    assert ("evict", "download") in {(each.reason, each.copied) for each in blob.memory.history}
    assert blob.memory.source is None


def files_open():
    """Return how many files this process has open, where that can be seen."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


@pytest.mark.parametrize("change", ["written", "deleted", "deleted later", "replaced later"])
def test_values_survive_what_happens_to_their_file(limited, file, change):
    before = files_open()
    with syncblob.use_device(LIMITED):
        weights = syncblob.read_blob(file)
    weights.gpu_data()
    gc.collect()
    assert files_open() == before
    if change == "written":
        file.write_bytes(file.read_bytes()[:-1] + b"\0")
    elif change == "deleted":
        file.unlink()
    weights.evict("gpu")
    dropped = "later" in change
    assert weights.head is (Head.UNINITIALIZED if dropped else Head.HEAD_AT_CPU)
    if change == "replaced later":
        other = file.with_suffix(".new")
        other.write_bytes(b"")
        other.replace(file)
    elif change == "deleted later":
        file.unlink()
    assert weights.gpu_data().tolist() == [*range(COUNT)]
    assert limited.downloads == (not dropped)
    assert files_open() == before


@pytest.mark.parametrize("closed", ["before", "after"])
def test_weights_survive_that_their_model_is_closed(limited, tmp_path, closed):
    path = tmp_path / "net.caffemodel"
    numbers = Blob(COUNT)
    numbers[...] = np.arange(COUNT)
    net = syncblob.ModelFile("net", [syncblob.Layer("a", "InnerProduct", blobs=[numbers])])
    syncblob.save_model(net, path)
    with syncblob.use_device(LIMITED):
        model = syncblob.open_model(path)
        weights = model["a"].blobs[0]
    weights.gpu_data()
    if closed == "before":
        model.close()
    weights.evict("gpu")
    if closed == "after":
        model.close()
    assert weights.gpu_data().tolist() == [*range(COUNT)]
    assert limited.downloads == (closed == "before")


KINDS = "cpu gpu evict evict read assign add number overwrite host prefetch add_other".split()


class Program:
    """Random accesses of Blobs, every second of which has a source, and evictions of both sides."""

    def __init__(self, number, blobs):
        self.random = random.Random(number)  # noqa: S311  # programs, not secrets
        self.values = [np.arange(COUNT, dtype="int32") + place for place in range(blobs)]
        self.blobs = [of_numbers(Numbers(values.copy())) for values in self.values]
        for blob, values in zip(self.blobs[1::2], self.values[1::2], strict=True):
            blob[...] = values
        self.log = []

    def step(self):  # noqa: C901  # a list of operations
        place, other = (self.random.randrange(len(self.blobs)) for _ in range(2))
        blob, values = self.blobs[place], self.values[place]
        start = self.random.randrange(COUNT)
        part = slice(start, self.random.randint(start, COUNT))
        value, kind = self.random.randrange(100), self.random.choice(KINDS)
        self.log.append((kind, place, other, part, value))
        view, mine = blob[part], values[part]
        match kind:
            case "cpu":
                assert view.cpu_data().tolist() == mine.tolist()
            case "gpu":
                assert view.gpu_data().tolist() == mine.tolist()
            case "read":
                assert view.sum().item() == mine.sum()
            case "evict":
                (blob if value % 2 else view).evict("gpu" if value % 3 else "cpu")
            case "assign":
                mine[...] = value
                view[...] = value
            case "number" if len(mine):
                mine[0] = value
                view[0] = value
            case "add":
                mine += value
                view += value
            case "overwrite":
                mine[...] = value
                view.overwrite_gpu_data()[...] = value
            case "host":
                mine[...] = value
                view.on("cpu")[...] = value
            case "prefetch":
                view.prefetch()
            case "add_other":
                values += self.values[other]
                blob += self.blobs[other]


@pytest.mark.parametrize("full", [False, True])
@tiers.amount("count", 60, 600)
def test_random_programs(limited, count, full, request):
    if full:
        limited.capacity = 4 * NBYTES
    else:
        request.getfixturevalue("small")
    for number in range(count):
        program = Program(number, 6 if full else 1)
        try:
            for _ in range(30):
                program.step()
            for blob, values in zip(program.blobs, program.values, strict=True):
                assert blob.tolist() == values.tolist()
            assert not full or limited.used_nbytes <= limited.capacity
        except BaseException as error:
            error.add_note(f"program {number}: {program.log}")
            raise
        del program, blob
    assert min(limited.uploads, limited.downloads) > count
