"""Blobs used on several accelerators: each operation brings what its device lacks, and no more."""

import operator
import pickle
from functools import partial

import numpy as np
import pytest
from in_threads import in_threads

import syncblob as xp
from syncblob import Blob, Head, record_transfers, use_device
from syncblob.devices import Side
from syncblob.memory.accesses import expose

torch = pytest.importorskip("torch")

SHAPE = (4, 3)
A, B, C = "simulated:0", "simulated:1", "simulated:2"
VALUES = np.arange(12, dtype="float32").reshape(SHAPE) + 1


def at(device, values=VALUES):
    """Return a Blob of a device with its newest contents there."""
    blob = Blob(values.shape, values.dtype, device=device)
    (blob.overwrite_cpu_data if device == "cpu" else blob.overwrite_gpu_data)()[...] = values
    return blob


def moved(log):
    """Return the copies of a log, sorted."""
    return sorted((one.direction, str(one.device), one.nbytes) for one in log)


# --- operations ----------------------------------------------------------------------------------

OPERATIONS = {
    **{f.__name__: f for f in (operator.add, operator.truediv, operator.lt)},
    "matmul": lambda a, b: a @ b.T,
    "xp.concat": lambda a, b: xp.concat([a, b]),
    "xp.where": lambda a, b: xp.where(xp.astype(a, "bool"), a, b),
    "np.einsum": lambda a, b: np.einsum("ij,ij->i", a, b),
    "np.hypot": np.hypot,
    "np.add, out": lambda a, b: np.add(a, b, out=xp.empty_like(a)),
    "a list of NumPy's": lambda a, b: np.vstack([a, b]),
    "an index": lambda a, b: a[xp.astype(b[:, 0] > 3, "bool")],
    "an index of integers": lambda a, b: a[xp.astype(b[0, :2], "int64")],
}

# Their results are on the device of the first Blob, whichever the other is on.
OF_THE_FIRST = [OPERATIONS[name] for name in ("np.add, out", "an index", "an index of integers")]


@pytest.mark.parametrize("operate", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize(("one", "other"), [(A, B), (B, A), (A, "cpu"), ("cpu", B)])
def test_an_operation_runs_on_one_device_and_brings_the_other_operand(operate, one, other):
    expected = operate(at("cpu"), at("cpu"))
    left, right = at(one), at(other)
    with record_transfers() as log:
        result = operate(left, right)
    device = one if one != "cpu" or operate in OF_THE_FIRST else other
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))
    assert result.device == device
    # Not more than each operand, once.
    assert sum(one.nbytes for one in log) <= left.nbytes + right.nbytes
    if "cpu" not in {one, other}:
        assert {entry.direction for entry in log} <= {"peer"}
    assert left.device == one
    assert right.device == other


@pytest.mark.parametrize("device", [A, B])
def test_the_default_device_decides_if_an_operand_is_there(device):
    with use_device(device):
        results = at(A) + at(B), np.add(at(B), at(A)), xp.concat([at(A), at(B)])
        assert {str(result.device) for result in results} == {device}
        blob, other = at(A), at(B)
        with record_transfers() as log:
            blob += other
        assert (blob.device, moved(log)) == (A, [("peer", device, blob.nbytes)])
    with use_device(C):
        assert ((at(A) + at(B)).device, (at(B) + at(A)).device) == (A, B)
    with xp.compute_only_on(B), pytest.raises(xp.errors.DeviceGuardError, match=A):
        at(A) + at(B)


WRITES = {
    "+=": operator.iadd,
    "assignment": lambda a, b: a.__setitem__(..., b),
    "a part": lambda a, b: a.__setitem__(slice(1, 3), b[1:3]),
    "by index": lambda a, b: a.__setitem__(xp.asarray([0, 2], device=B), b[:2]),
    "out": lambda a, b: np.multiply(a, b, out=a),
    "np.copyto": np.copyto,
    "copy_from": lambda a, b: a.copy_from(b),
    "update": lambda a, b: (a.diff.__setitem__(..., b), a.update()),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("other", [B, "cpu"])
def test_a_write_takes_values_of_any_device(write, other):
    expected, blob, values = at("cpu"), at(A), at(other)
    write(expected, at("cpu"))
    write(blob, values)
    assert (blob.device, blob.tolist()) == (A, expected.tolist())
    assert values.tolist() == VALUES.tolist()


def test_torch_takes_blobs_of_several_devices():
    with record_transfers() as log:
        result = torch.add(at(A), at(B)) + torch.mul(at("cpu"), at(B))
    assert result.tolist() == (2 * VALUES + VALUES**2).tolist()
    assert {one.direction for one in log} == {"download"}


# --- broadcasts and sums -------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_broadcast_uploads_once_and_a_sum_moves_one_part_less_than_there_are(count):
    weights = at("cpu")
    devices = [f"simulated:{index}" for index in range(count)]
    with record_transfers() as log:
        gradients = [weights.on(device) * (index + 1) for index, device in enumerate(devices)]
    assert (log.uploads, log.uploaded_bytes) == (1, weights.nbytes)
    assert (log.peer_copies, log.peer_bytes) == (count - 1, (count - 1) * weights.nbytes)
    with record_transfers() as log:
        total = gradients[0]
        for gradient in gradients[1:]:
            total += gradient
    assert (log.peer_bytes, log.nbytes) == ((count - 1) * weights.nbytes,) * 2
    with record_transfers() as log:
        weights += total.on("cpu")
        for device in devices:
            weights.on(device).gpu_data()
    assert (log.downloads, log.uploads, log.peer_copies) == (1, 1, count - 1)
    assert total.tolist() == (VALUES * sum(range(1, count + 1))).tolist()


# --- borrows, aliases, exposures -----------------------------------------------------------------


def test_an_exposure_is_its_sides():
    blob = at(A)
    memory = blob.memory
    far = blob.on(B)
    expose(memory, memory.side_of(xp.simulated(1)))
    for _ in range(2):
        far.gpu_data()
    # The copy there is not trusted, and the others need not copy again.
    assert memory.loans.of(Side(2))
    blob.mutable_gpu_data()
    assert not memory.loans.of(Side(2))


def test_an_exposure_counts_beside_a_borrow_of_a_third_side():
    blob = at("cpu")
    expose(blob.memory, Side.HOST, stop=12)
    borrow = blob.on(B)[3].mutable_gpu_data()
    for value in (7, 8):
        blob.memory.buffer(Side.HOST)[:4].view("f4")[...] = value
        assert blob.on(A)[0].gpu_data()[0] == value
    assert borrow.flags.writeable


def test_a_const_export_is_verified_on_every_side():
    blob = at(A)
    with xp.verified_const():
        tensor = torch.from_dlpack(blob.on(B).const)
        tensor += 1
        with pytest.warns(xp.errors.ConstWriteWarning, match="accelerator 2"):
            del tensor


# --- pushes, eviction, pickles, sharing ----------------------------------------------------------


def test_a_push_and_a_prefetch_go_to_the_accelerator_of_the_blob():
    blob = at("cpu")
    with record_transfers() as log:
        for device in (A, B):
            blob.on(device).async_gpu_push()
    # From the host, although the second device could copy from the first.
    assert moved(log) == [("upload", A, blob.nbytes), ("upload", B, blob.nbytes)]
    assert (blob.on(A).head, blob.on(B).head) == (Head.SYNCED, Head.SYNCED)
    assert np.array_equal(blob.on(B).gpu_data(), VALUES)
    blob.on(B).mutable_gpu_data()[...] = 3
    with record_transfers() as log:
        blob.prefetch(A)
        blob.prefetch("cpu")
    assert sorted(one.direction for one in log) == ["download", "peer"]
    assert set(blob.cpu_data().ravel()) == set(blob.on(A).gpu_data().ravel()) == {3}


@pytest.mark.usefixtures("held")
def test_a_read_waits_for_the_push_to_its_device_and_not_only_for_the_last():
    blob = at("cpu")
    near, far = blob.on(A), blob.on(B)
    near.gpu_data(), far.gpu_data()
    blob.mutable_cpu_data()[...] = 5
    # The pushes are of the rest, so that everything is on its way to everywhere.
    near[2:].gpu_data(), far[:2].gpu_data()
    near[:2].prefetch(A), far[2:].prefetch(B)
    assert set(near.gpu_data().ravel()) == {5}


def test_what_is_copied_elsewhere_has_arrived(simulated):
    blob, simulated.delay = at("cpu").on(A), 0.05
    blob.async_gpu_push()
    # From the nearest device, which the contents are on their way to.
    assert np.array_equal(blob[:, ::2].to_device(B), VALUES[:, ::2])


def test_an_eviction_frees_one_accelerator_and_keeps_the_contents():
    blob = at(A)
    blob.on(B).mutable_gpu_data()[...] += 1
    blob.memory.side_of(xp.simulated(2))
    assert blob.on(C).evict("gpu") == 0
    assert blob.evict("gpu") == blob.nbytes
    assert blob.on(B).evict("gpu") == blob.nbytes
    assert blob.head is Head.HEAD_AT_CPU
    assert blob.tolist() == (VALUES + 1).tolist()


def test_a_full_accelerator_gives_up_what_a_further_one_has_too():
    xp.simulated(1).capacity = 2000
    try:
        shared = at("cpu", np.ones(200, "float32"))
        shared.on(A).gpu_data()
        shared.on(B).gpu_data()
        others = [at(B, np.zeros(200, "float32")) for _ in range(2)]
        assert shared.memory.buffer(Side(2)) is None
        assert [other.head for other in others] == [Head.HEAD_AT_GPU] * 2
        del others
        with record_transfers() as log:
            assert shared.on(B).gpu_data().sum() == 200
        assert moved(log) == [("peer", B, 800)]
    finally:
        xp.simulated(1).capacity = None


def test_pickles_copies_and_device_copies_have_the_newest_contents():
    blob = at(A)
    blob.on(B).mutable_gpu_data()[...] += 1
    expected = (VALUES + 1).tolist()
    with record_transfers() as log:
        copied = blob.on(B).copy()
        assert not log
        assert (copied.device, copied.tolist()) == (B, expected)
    assert pickle.loads(pickle.dumps(blob)).tolist() == expected
    with record_transfers() as log:
        there = blob.to_device(C)
    assert moved(log) == [("peer", C, 48)]
    assert (there.device, there.head, there.tolist()) == (C, Head.HEAD_AT_GPU, expected)


def test_a_strided_view_is_copied_to_another_accelerator_without_its_gaps():
    blob = at(A)
    with record_transfers() as log:
        column = blob[:, 1].to_device(B)
    assert moved(log) == [("peer", B, 16)]
    assert column.tolist() == VALUES[:, 1].tolist()


def test_guards_and_logs_know_peer_copies():
    with xp.no_transfers(), pytest.raises(xp.TransferGuardError, match="a peer copy of 48 bytes"):
        at(A) + at(B)
    with xp.max_transfers(bytes=48), record_transfers() as log:
        blob = at(A)
        blob.on(B).sum()
    assert "1 x peer copy, 48 bytes" in log.summary()
    assert blob.memory.history[-1].copied == "peer"
    assert (log.to_dict()["peer_copies"], log.to_dict()["peer_bytes"]) == (1, 48)
    assert (log.uploads, log.downloads, log.nbytes) == (0, 0, 48)


def test_explain_has_all_accelerators():
    blob = at(A)
    blob.on(B).mutable_gpu_data()
    text = str(blob.explain())
    assert "ELSEWHERE: the newest contents are on the accelerator 2" in text
    assert f"accelerator 2  {B}, 48 bytes, up to date" in text
    assert f"{A}, 48 bytes, older contents" in text


def test_two_threads_on_two_accelerators_lose_nothing():
    blob = Blob((2, 1000), "int64", device=A)
    blob[...] = 0

    def work(row, device):
        part = blob[row].on(device)
        for value in range(1, 200):
            part += 1
            assert value % 20 or set(blob[row].tolist()) == {value}

    in_threads(partial(work, 0, A), partial(work, 1, B))
    assert blob.tolist() == [[199] * 1000] * 2
