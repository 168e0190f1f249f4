"""Private reads: numbers and texts move only their elements, copies of views move no gaps."""

import copy
import operator
import pickle

import numpy as np
import pytest
import tiers
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy
from made_blobs import CPU, GPU, NONE, PAIR, SPLIT, SYNCED, blob_in, values

import syncblob
from syncblob import Blob, Head

try:
    import torch
except ImportError:
    torch = None

# They count the bytes of parts of small memories.
pytestmark = pytest.mark.usefixtures("exact_parts")


class Source:
    """A source that can be read in parts and records the reads."""

    def __init__(self, array):
        self.contents = array.reshape(-1).view(np.uint8)
        self.read = []

    def __call__(self):
        return self.contents

    def read_into(self, buffer, offset):
        self.read.append((offset, len(buffer)))
        buffer[...] = self.contents[offset : offset + len(buffer)]


def state(blob):
    """Return all state of a Blob that a private read must not change."""
    memory = blob.memory
    return (
        memory.spans,
        *(sum(window.nbytes for window in memory.windows(side)) for side in (0, 1)),
        len(memory.history),
        memory.aliased,
    )


def moved(simulated):
    return simulated.uploaded_bytes, simulated.downloaded_bytes


# --- numbers and texts ---------------------------------------------------------------------------

# Reads of the element at (1, 1) in a Blob of shape (2, 3).
NUMBERS = {
    "item": lambda blob: blob.item(1, 1),
    "item, flat": lambda blob: blob.item(4),
    "item, from the end": lambda blob: blob.item(-2),
    "item, tuple": lambda blob: blob.item((1, 1)),
    "item of a view": lambda blob: blob[1, 1].item(),
    "item of a part": lambda blob: blob[1:, 1:2].item(),
    "item of a view with gaps": lambda blob: blob.T[1].item(1),
    "item of a const view": lambda blob: blob.const.item(4),
    "item elsewhere": lambda blob: blob.on("simulated:0").item(4),
    "data_at": lambda blob: blob.data_at(1, 1),
    "data_at of a view": lambda blob: blob[1].data_at(1),
    "int": lambda blob: int(blob[1, 1]),
    "float": lambda blob: float(blob[1, 1]),
    "complex": lambda blob: complex(blob[1, 1]),
    "str": lambda blob: float(str(blob[1, 1])),
    "format": lambda blob: float(f"{blob[1, 1]:.1f}"),
    "bool": lambda blob: 4 * bool(blob[1, 1]),
}


@pytest.mark.parametrize("read", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("head", PAIR)
def test_a_number_moves_its_element_and_changes_nothing(simulated, head, read):
    blob = blob_in(head)
    if head is SPLIT:
        # The host has the first row.
        blob[0].overwrite_cpu_data()[...] = [0, 1, 2]
    before = state(blob)
    simulated.reset_counts()
    for number in (1, 2):
        assert read(blob) == (4 if head else 0)
        assert moved(simulated) == (0, 4 * number if head in (GPU, SPLIT) else 0)
    assert (state(blob), blob.head) == (before, head)
    assert simulated.allocations == simulated.host_allocations == 0


RESULTS = {
    "float": (float, "__float__"),
    "int": (int, "__int__"),
    "bool": (lambda total: 15 * bool(total), "__bool__"),
    "item": (lambda total: total.item(), "item"),
    "str": (lambda total: float(str(total)), "str"),
}


@pytest.mark.parametrize(("read", "reason"), RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("head", [CPU, GPU])
def test_the_number_of_a_result_is_read_without_a_memory_and_counted(simulated, head, read, reason):
    total = blob_in(head).sum()
    simulated.reset_counts()
    assert read(total) == 15
    assert moved(simulated) == (0, 4 if head is GPU else 0)
    with syncblob.max_transfers(bytes=4) as guard:
        assert read(total) == 15
    assert guard.nbytes == (4 if head is GPU else 0)
    if reason != "str":
        assert total.known_memory is None
    if head is GPU:
        with syncblob.no_transfers(), pytest.raises(syncblob.TransferGuardError, match=reason):
            total.item() if reason == "str" else read(total)
        with syncblob.record_transfers() as log:
            read(total)
        assert [(transfer.nbytes, transfer.reason) for transfer in log] == [(4, reason)]
        with simulated.failing(transfer=1), pytest.raises(RuntimeError, match="injected"):
            read(total)
        assert read(total) == 15


def test_the_gradient_is_read_like_that_too(simulated):
    blob = blob_in(GPU)
    assert (blob.diff_at(1, 1), blob.diff_head) == (0, NONE)
    blob.mutable_gpu_diff()[...] = values()
    simulated.reset_counts()
    assert blob.diff_at(1, 1) == blob.diff.item(4) == blob.diff.data_at(1, 1) == 4
    assert (moved(simulated), blob.diff_head) == ((0, 12), GPU)


@pytest.mark.parametrize("shape", [(2, 3), (40, 50), (30, 30, 30)])
def test_a_text_moves_what_it_shows_and_changes_nothing(simulated, shape):
    blob = blob_in(GPU, "int32", shape)
    before = state(blob)
    simulated.reset_counts()
    assert str(blob) == str(values("int32", shape))
    summarised = blob.size > 1000
    elements = 6 ** len(shape) if summarised else blob.size
    assert moved(simulated) == (0, 4 * elements)
    assert state(blob) == before
    assert str(blob.T[::2]) == str(values("int32", shape).T[::2])
    assert state(blob) == before


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_of_a_source_only_what_is_shown_is_read(simulated, dtype):
    source = Source(values(dtype))
    blob = Blob.from_source((2, 3), dtype, source, device="simulated")
    nbytes = blob.itemsize
    assert (blob.item(4), blob.data_at(1, 1), str(blob[1, 1])[:1]) == (4, 4, "4")
    assert source.read == [(4 * nbytes, nbytes)] * 3
    assert str(blob[1]) == str(values(dtype)[1])
    assert source.read[3:] == [(3 * nbytes, 3 * nbytes)]
    assert (blob.head, moved(simulated), blob.memory.windows(0)) == (NONE, (0, 0), ())
    assert blob.gpu_data().tolist() == values(dtype).tolist()


def test_a_borrow_and_an_alias_of_the_other_side_stay_good(simulated):
    blob = blob_in(GPU)
    borrow, alias = blob.mutable_gpu_data(), np.asarray(blob.gpu)
    simulated.reset_counts()
    assert (blob.item(4), str(blob[0])) == (4, "[0. 1. 2.]")
    borrow[1, 1] = 7
    assert blob.item(4) == 7
    alias[1, 1] = 8
    assert (blob.item(4), float(blob[1, 1])) == (8, 8)
    assert (blob.head, moved(simulated)) == (GPU, (0, 4 + 12 + 4 + 8))


@pytest.mark.parametrize("read", NUMBERS.values(), ids=NUMBERS)
def test_they_are_counted_and_where_they_fail_or_are_forbidden_nothing_has_changed(simulated, read):
    blob = blob_in(GPU)
    before = state(blob)
    simulated.reset_counts()
    for guard in (syncblob.no_transfers(), syncblob.max_transfers(bytes=3)):
        # A text gives the reason instead of values, so it cannot be converted to a number.
        with guard, pytest.raises((syncblob.TransferGuardError, ValueError), match="allowed"):
            read(blob)
        assert (state(blob), moved(simulated)) == (before, (0, 0))
    with simulated.failing(transfer=1), pytest.raises(RuntimeError, match="injected"):
        read(blob)
    assert state(blob) == before
    with syncblob.record_transfers() as log, syncblob.max_transfers(bytes=4) as guard:
        assert read(blob) == 4
    assert [(t.direction, t.nbytes, t.offset) for t in log] == [("download", 4, 16)]
    assert (guard.count, guard.nbytes) == (1, 4)


def test_an_index_that_is_none_is_refused_before_anything_moves(simulated):
    blob = blob_in(GPU)
    simulated.reset_counts()
    for read in (
        blob.item,
        lambda: blob.item(6),
        lambda: blob.item(0, 3),
        lambda: blob.item(-7),
        lambda: blob.data_at(2),
        lambda: blob.diff_at(0, 0, 0),
        lambda: int(blob),
    ):
        with pytest.raises((IndexError, ValueError, TypeError)):
            read()
    assert (moved(simulated), blob.head, blob.existing_diff()) == ((0, 0), GPU, None)


def test_an_integer_blob_as_an_index_moves_itself(simulated):
    blob = blob_in(GPU, "int64")
    simulated.reset_counts()
    assert (operator.index(blob[0, 2]), [7, 8, 9][blob[0, 2]]) == (2, 9)
    assert blob[blob[0, 1]].shape == (3,)
    assert (moved(simulated), blob.head) == ((0, 24), GPU)


# --- copies --------------------------------------------------------------------------------------


def loaded(blob):
    return pickle.loads(pickle.dumps(blob)).cpu_data()


def loaded_out_of_band(blob):
    buffers = []
    stream = pickle.dumps(blob, 5, buffer_callback=buffers.append)
    return pickle.loads(stream, buffers=buffers).cpu_data()


# Copies on the host, of any shape, and copies on the accelerator.
HOST_COPIES = {
    "tolist": lambda b: np.array(b.tolist(), b.dtype).reshape(b.shape),
    "tobytes": lambda b: np.frombuffer(b.tobytes(), b.dtype).reshape(b.shape),
    "np.array": np.array,
    "__array__, copy": lambda b: b.__array__(copy=True),
    "__array__, converted": lambda b: b.__array__("complex128"),
    "np.asarray, copy": lambda b: np.asarray(b, copy=True),
    "the host, copied": lambda b: np.array(b.cpu, copy=True),
    "the host, const": lambda b: np.array(b.cpu.const, copy=True),
    "from_dlpack, copy": lambda b: np.from_dlpack(b, device="cpu", copy=True),
    "from_dlpack of the host": lambda b: np.from_dlpack(b.cpu, copy=True),
    "to_device": lambda b: b.to_device("cpu").cpu_data(),
    "astype on the host": lambda b: b.on("cpu").astype("complex128").cpu_data(),
    "pickle": loaded,
    "pickle, out of band": loaded_out_of_band,
    "copy": lambda b: b.on("cpu").copy().cpu_data(),
}
DEVICE_COPIES = {
    "to_device": lambda b: b.on("cpu").to_device("simulated:0").gpu_data(),
    "astype": lambda b: b.astype("complex128").gpu_data(),
    "from_dlpack": lambda b: np.from_dlpack(b.gpu, copy=True),
    "np.array": lambda b: np.array(b.gpu, copy=True),
    "copy": lambda b: b.copy().gpu_data(),
    "copy in Fortran order": lambda b: b.copy("F").gpu_data(),
    "copy.copy": lambda b: copy.copy(b).gpu_data(),
    "deepcopy": lambda b: copy.deepcopy(b.const).gpu_data(),
}
if torch is not None:
    HOST_COPIES["torch"] = lambda b: b.on("cpu").to_torch(copy=True).numpy()
    DEVICE_COPIES["torch"] = lambda b: b.to_torch(copy=True).numpy()

GAPS = {
    "every other": lambda a: a[..., ::2],
    "a column": lambda a: a[:, 1],
    "a block": lambda a: a[1:3, 2:5],
    "backwards": lambda a: a[::-2, ::-3],
    "transposed": lambda a: a.T[1:4],
    "corners": lambda a: a[:: len(a) - 1, :: a.shape[1] - 1],
}
DENSE = {
    "all": lambda a: a,
    "transposed": lambda a: a.T,
    "rows": lambda a: a[1:3],
    "backwards": lambda a: a[::-1],
    "in another shape": lambda a: a.reshape(-1)[5:11],
}


@pytest.mark.parametrize("view", [*GAPS.values(), *DENSE.values()], ids=[*GAPS, *DENSE])
@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
@pytest.mark.parametrize("head", [CPU, GPU, SYNCED])
@pytest.mark.parametrize("make", [Blob.copy, copy.deepcopy, lambda b: b.const.copy()])
def test_a_blobs_copy_is_made_on_its_device_and_used_there(simulated, make, head, device, view):
    blob, expected = blob_in(head, "float32", (4, 6)), view(values("float32", (4, 6)))
    blob.diff[...] = values("float32", (4, 6)) + 1
    blob.cpu_diff()
    blob.gpu_diff()
    simulated.reset_counts()
    result = make(view(blob.on(device)))
    side = CPU if device == "cpu" else GPU
    lacking = 0 if head in (side, SYNCED) else expected.nbytes
    assert sorted(moved(simulated)) == [0, lacking]
    assert (result.head, result.diff_head, result.device) == (side, side, device)
    with syncblob.no_transfers():
        result += 1
        result.diff += 1
    assert result.tolist() == (expected + 1).tolist()
    assert result.diff.tolist() == (expected + 2).tolist()
    assert blob.tolist() == values("float32", (4, 6)).tolist()


def test_a_copy_of_a_blob_made_smaller_moves_only_its_elements(simulated):
    blob = Blob(10, device="simulated")
    everything = blob[...]
    blob.mutable_cpu_data()[...] = np.arange(10)
    blob.resize(4)
    simulated.reset_counts()
    assert blob.copy().head is GPU
    assert moved(simulated) == (16, 0)
    assert [everything[at].head for at in (3, 4)] == [SYNCED, CPU]


@pytest.mark.parametrize("make", HOST_COPIES.values(), ids=HOST_COPIES)
def test_of_a_source_a_copy_with_gaps_reads_the_part_and_leaves_it_unread(simulated, make):
    source = Source(values("float32", (4, 6)))
    blob = Blob.from_source((4, 6), "float32", source, device="simulated")
    np.testing.assert_array_equal(make(blob[1:3, ::2]), values("float32", (4, 6))[1:3, ::2])
    # The range from the first element of the view to its last.
    assert source.read == [(24, 44)]
    assert (blob.head, moved(simulated)) == (NONE, (0, 0))


@pytest.mark.parametrize("make", HOST_COPIES.values(), ids=HOST_COPIES)
def test_a_failed_gathering_changes_nothing(simulated, make):
    blob = blob_in(GPU, "float32", (4, 6))
    before = state(blob)
    with simulated.failing(transfer=1), pytest.raises(RuntimeError, match="injected"):
        make(blob[:, ::2])
    assert state(blob) == before
    with syncblob.no_transfers(), pytest.raises(syncblob.TransferGuardError, match="48 bytes"):
        make(blob[:, ::2])
    assert state(blob) == before


# --- any view of any map -------------------------------------------------------------------------


@st.composite
def mixed(draw):
    """Draw a Blob with parts on one or both sides, its contents, and the sides of each element."""
    shape = draw(of_numpy.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6))
    dtype = draw(st.sampled_from(["int8", "int16", "float32", "complex64"]))
    array = values(dtype, shape)
    blob = Blob(shape, dtype, device="simulated:0")
    blob.overwrite_gpu_data()[...] = array
    on_host, on_device = np.zeros(shape, bool), np.ones(shape, bool)
    flat = blob.reshape(-1)
    for _ in range(draw(st.integers(0, 6))):
        start, stop = sorted((draw(st.integers(0, blob.size)), draw(st.integers(0, blob.size))))
        access = draw(st.sampled_from(["cpu", "mutable_cpu", "gpu", "mutable_gpu"]))
        getattr(flat[start:stop], f"{access}_data")()
        here, there = (on_host, on_device) if "cpu" in access else (on_device, on_host)
        here.reshape(-1)[start:stop] = True
        if "mutable" in access:
            there.reshape(-1)[start:stop] = False
    key = draw(of_numpy.basic_indices(shape, allow_ellipsis=True))
    order = draw(st.permutations(range(np.asarray(array[key]).ndim)))
    return blob, array, on_host, on_device, lambda a: a[key].transpose(order)


def expected_head(on_host, on_device):
    common = on_host.all() + 2 * on_device.all()
    return Head(common) if common else SPLIT


@tiers.drawn(mixed(), st.data(), short=100, long=400)
def test_of_any_map_a_copy_has_the_contents_and_moves_what_is_elsewhere(made, data):
    simulated = syncblob.simulated(0)
    blob, array, on_host, on_device, view = made
    assert blob.head is expected_head(on_host, on_device)
    where = data.draw(st.sampled_from(["host", "device"]))
    copies = HOST_COPIES if where == "host" else DEVICE_COPIES
    make = copies[data.draw(st.sampled_from(sorted(copies)))]
    part, here = view(blob), view(on_host if where == "host" else on_device)
    simulated.reset_counts()
    before = blob.memory.spans
    np.testing.assert_array_equal(make(part), view(array))
    nbytes = int(np.count_nonzero(~here)) * blob.itemsize
    assert moved(simulated) == ((0, nbytes) if where == "host" else (nbytes, 0))
    if nbytes and not part.layout.gapless:
        assert blob.memory.spans == before
    if part.size and part.layout.gapless:
        held = part.head if nbytes else None
        assert held in (None, SYNCED, CPU if where == "host" else GPU)
    # Numbers and texts read their elements from any side.
    before = blob.memory.spans
    simulated.reset_counts()
    if part.size:
        place = data.draw(st.integers(0, part.size - 1))
        assert part.item(place) == view(array).item(place)
    assert str(part) == str(view(array))
    assert blob.memory.spans == before
    assert simulated.uploads == 0
    np.testing.assert_array_equal(np.array(blob), array)
