"""A device that shares the memory of the host: one buffer, no copies, and a wait in place of each.

The work of the simulated device runs when something waits for it, so that a missing wait shows as
what was there before, or as poison. Random programs are in `test_region_programs`.
"""

import operator
import os
import pickle
import threading
import warnings

import numpy as np
import pytest
from devices import SHARED
from interrupt_points import at_each_place
from made_blobs import filled
from other_processes import forked

import syncblob
from syncblob import Blob, Head, memory_kind, record_transfers, set_memory_kind, use_device
from syncblob.devices import Side, simulation
from syncblob.devices.base import ENDING
from syncblob.memory import Access, changes
from syncblob.memory.buffers import Window

N = 1000


@pytest.fixture
def device(shared_device):
    made = shared_device()
    yield made
    made.close()


@pytest.fixture
def blob(device):
    return filled(1, N, "int32", device=device.name)


def on_device(device, array, value):
    """Write an array by work of the device, as a program of its own."""
    device.seen(array)[...] = np.full(array.shape, value, np.int32)


def address(buffer):
    return buffer.ctypes.data if isinstance(buffer, np.ndarray) else buffer.data.ptr


def test_both_sides_are_one_buffer_and_the_log_says_so_once(blob, device):
    device.controls.reset_counts()
    with record_transfers() as log:
        for step in range(3):
            blob += step
            assert (blob.cpu_data() == 1 + sum(range(step + 1))).all()
            blob.mutable_cpu_data()[...] += 0
    assert address(blob.memory.buffer(0)) == address(blob.memory.buffer(1))
    assert blob.memory in blob.home.residents.living()
    assert (len(log), log.nbytes, log.shared, log.shared_bytes) == (0, 0, 1, blob.nbytes)
    assert repr(log).endswith(f"1 shared of {blob.nbytes} bytes>")
    assert f"1 shared of {blob.nbytes} bytes" in log.summary()
    assert log.to_dict()["shared"] == 1
    assert "the same 4000 bytes, up to date" in str(blob.explain())


def test_a_buffer_that_one_side_uses_is_not_shared(device):
    blob = Blob(N, "int32", device=device.name)
    with record_transfers() as log:
        blob.mutable_gpu_data()
        blob[::2].copy()
    assert log.shared == 0


def test_guards_of_transfers_never_stop_it(blob):
    with syncblob.no_transfers():
        blob += 1
        assert blob.tolist() == [2] * N
        assert int(blob[3]) == 2
        blob.prefetch("cpu")
        blob.async_gpu_push() if blob.head is Head.HEAD_AT_CPU else None


def test_the_host_waits_before_it_reads(blob, device):
    for access in (
        blob.cpu_data,
        lambda: np.asarray(blob),
        lambda: np.array(blob[::2]),
        lambda: np.array(blob.tolist()),
        lambda: blob.data_at(5),
        lambda: blob.item(7),
        lambda: np.asarray(blob.cpu),
        lambda: np.asarray(pickle.loads(pickle.dumps(blob))),
    ):
        value = int(np.asarray(blob.cpu_data())[0]) + 1
        on_device(device, blob.mutable_gpu_data(), value)
        assert np.all(access() == value)


def test_the_host_waits_before_it_writes(blob, device):
    if not device.computes:
        pytest.skip("NumPy cannot read its arrays")
    for write in (
        lambda: blob.mutable_cpu_data().fill(9),
        lambda: blob.overwrite_cpu_data().fill(9),
        lambda: blob.on("cpu").fill(9),
        lambda: blob.on("cpu").__setitem__(slice(None), 9),
    ):
        blob.fill(3)
        doubled = blob * 2
        write()
        assert doubled.cpu_data().tolist() == [6] * N
        assert blob.tolist() == [9] * N


@pytest.mark.parametrize("made", ["host", "device", "adopted"])
def test_a_write_into_the_one_buffer_by_right_is_no_difference(made):
    with warnings.catch_warnings(), syncblob.verified_const():
        warnings.simplefilter("error")
        blob = Blob(N, "int32", device=SHARED)
        blob[...] = 1
        alias = np.asarray(blob.cpu if made == "host" else blob.gpu) if made != "adopted" else None
        seen = np.asarray(blob if made == "device" else blob.gpu.const)
        if alias is None:
            blob.set_cpu_data(np.zeros(N, np.int32))
        else:
            alias[0] = 2
        assert blob.gpu_data()[0] == (2 if alias is not None else 0)
        del seen


def test_the_host_leaves_what_it_shares_to_the_device_and_nothing_beside_an_alias():
    blob = Blob(N, "int32", device="simulated:0")
    blob.gpu_data()
    alias = np.asarray(blob.on(SHARED).gpu)
    blob.mutable_cpu_data()[...] = 1
    with pytest.raises(BufferError, match="NumPy alias"):
        blob.evict("cpu")
    alias[...] = 9
    assert blob.gpu_data().tolist() == blob.cpu_data().tolist() == [9] * N
    del alias
    blob.mutable_cpu_data()[...] = 4
    with syncblob.no_transfers():
        assert blob.evict("cpu") == 0
    assert blob.on(SHARED).gpu_data().tolist() == blob.gpu_data().tolist() == [4] * N


@pytest.mark.parametrize(
    "use", [Blob.gpu_data, Blob.prefetch, Blob.copy, lambda x: x.fill(3), lambda x: x.evict("cpu")]
)
def test_windows_stay_if_the_device_shares_memory_from_then_on(use):
    blob = Blob((8, 1 << 16), "int32", device="simulated:6")
    blob.overwrite_cpu_data()[...] = 1
    blob[:1].mutable_gpu_data()[...] = 5
    try:
        set_memory_kind("simulated:6", "shared")
        use(blob[4:5])
        assert np.all(blob[:1].gpu_data() == 5)
        assert np.all(blob[:1].cpu_data() == 5)
        assert np.all(blob[5:].cpu_data() == 1)
    finally:
        set_memory_kind("simulated:6", "separate")


@pytest.mark.parametrize(
    "export",
    [
        lambda x: np.from_dlpack(x.const),
        lambda x: np.asarray(x.gpu.const),
        lambda x: np.from_dlpack(x, copy=True),
    ],
)
def test_an_export_to_the_host_waits(blob, export):
    if not isinstance(blob.home, simulation.SimulatedBackend):
        pytest.skip("NumPy does not take its arrays")
    blob += 1
    assert np.all(export(blob) == 2)


@pytest.mark.parametrize("exported", ["cpu", SHARED])
def test_a_transfer_into_the_one_buffer_is_no_difference(exported):
    with warnings.catch_warnings(), syncblob.verified_const():
        warnings.simplefilter("error")
        blob = Blob(N, "int32", device=SHARED)
        blob[...] = 1
        seen = np.asarray(blob if exported == "cpu" else blob.gpu.const)
        blob.on("simulated:0")[...] = 6
        for device in (SHARED, "cpu") if exported == "cpu" else ("cpu", SHARED):
            assert (blob.on(device) + 0).tolist() == [6] * N
        del seen


def test_a_copy_made_amid_an_operation_on_the_one_buffer_is_not_trusted(monkeypatch):
    """Even if an access of the other side of the buffer has made it seem newest there."""
    blob = Blob(N, "int32", device=SHARED)
    blob[...] = 0
    home = blob.home
    compute = home.compute

    def copy_first(*args, **keywords):
        monkeypatch.setattr(home, "compute", compute)
        blob.mutable_cpu_data()[...] = 5
        blob.on("simulated:0").gpu_data()
        return compute(*args, **keywords)

    monkeypatch.setattr(home, "compute", copy_first)
    blob += 7
    assert home.compute is compute
    newest = blob.tolist()
    assert newest in ([7] * N, [12] * N)
    assert blob.gpu_data().tolist() == blob.on("simulated:0").gpu_data().tolist() == newest


def test_what_an_adoption_replaces_is_found_by_no_handler(monkeypatch):
    blob = Blob(N, "int32", device="simulated:0")
    blob.on(SHARED)[...] = 1
    blob.gpu_data()
    let_go = changes.let_go

    def read_first(gone):
        monkeypatch.setattr(changes, "let_go", let_go)
        blob.on(SHARED).gpu_data()
        let_go(gone)

    monkeypatch.setattr(changes, "let_go", read_first)
    blob.set_cpu_data(np.full(N, 9, np.int32))
    assert changes.let_go is let_go
    for device in ("simulated:0", SHARED, "simulated:1", "cpu"):
        assert blob.on(device).copy().tolist() == [9] * N


@pytest.mark.parametrize("adopts", [False, True])
def test_what_a_handler_does_while_a_buffer_is_shared_stays(monkeypatch, adopts):
    blob = filled(2, N, "int32", device="cpu").on(SHARED)
    home, share, windows = blob.home, blob.home.share, [*blob.memory.whole]

    def use_first(array):
        monkeypatch.setattr(home, "share", share)
        blob.set_cpu_data(np.full(N, 2, np.int32)) if adopts else blob.gpu_data()
        windows[1] = blob.memory.whole[1]
        return share(array)

    monkeypatch.setattr(home, "share", use_first)
    assert (blob.gpu_data() == 2).all()
    device = blob.memory.whole[1]
    assert device is (windows[1] or device)
    assert (address(device.array) == address(windows[0].array)) is not adopts


def test_a_memory_is_bound_to_the_device_that_shares_its_buffer():
    memory = Blob(N, device="cpu").memory
    memory.mutable_cpu_data()
    with use_device(SHARED):
        memory.gpu_data()
    assert memory.accelerator is syncblob.simulated(9)


def test_a_result_may_be_a_view_of_no_elements(device):
    doubled = np.tile(Blob((0, 4), device=device.name), 2)
    assert doubled.tolist() == []
    assert doubled.shape == (0, 8)


def test_a_prefetch_to_the_host_waits(blob, device):
    on_device(device, blob.mutable_gpu_data(), 5)
    blob.prefetch("cpu")
    assert blob.head is Head.SYNCED
    assert (blob.cpu_data() == 5).all()
    on_device(device, blob.mutable_gpu_data(), 6)
    assert (blob.cpu_data() == 6).all()


@pytest.mark.parametrize(
    "bring", [Blob.gpu_data, lambda x: x.prefetch("simulated:0") or x.gpu_data()]
)
@pytest.mark.parametrize("side", ["host", "device"])
def test_a_third_device_sees_what_an_alias_of_the_one_buffer_writes(side, bring):
    """Also after a write on the side of the buffer that it was not made for."""
    near = filled(1, N, "int32", device=SHARED)
    far = near.on("simulated:0")
    alias = np.asarray(near.cpu if side == "host" else near.gpu)
    if side == "host":
        near += 1
    else:
        near.mutable_cpu_data()[...] += 1
    assert np.all(bring(far) == 2)
    for value in (4, 5):
        alias[...] = value
        assert np.all(bring(far) == value)
        assert np.all(np.asarray(near) == value)
    with warnings.catch_warnings(action="ignore"):
        far.mutable_gpu_data()[...] = 6
        assert np.all(bring(far) == 6)
        assert np.all(np.asarray(near) == 6)


def test_an_alias_of_the_device_is_waited_for_whoever_wrote_last(blob, device):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alias = device.seen(device.alias(blob.gpu))
        blob.mutable_cpu_data()[...] = 2
        const = blob.cpu_data()
        assert blob.head is Head.HEAD_AT_CPU
        for value in (3, 4):
            alias[...] = value
            assert (blob.cpu_data() == value).all()
            alias[...] = value + 10
            assert blob.item(3) == value + 10
            alias[...] = value + 20
            assert blob.on("cpu").sum() == (value + 20) * N
            alias[...] = value + 30
            assert (np.array(blob[::3]) == value + 30).all()
        assert (const == 34).all()
        blob += 1
    assert (blob.cpu_data() == 35).all()


@pytest.mark.parametrize("kept", Side)
def test_operations_end_only_beside_an_alias_of_another_side(blob, kept):
    blob.gpu_data(), blob.cpu_data()
    alias = blob.memory.export(kept, Access.MUTABLE, blob.layout, "use", "DLPack")
    blob.memory.array(Side.ACCELERATOR, Access.MUTABLE, blob.layout, "use")
    ends = (blob.home, threading.get_ident()) in ENDING
    ENDING.clear()
    assert ends is (kept is Side.HOST)
    del alias


def test_operations_end_while_an_alias_of_the_host_may_write(blob):
    alias = np.asarray(blob.cpu)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (2, 5):
            alias[...] = value
            result = blob + 1
            alias[...] = 100
            assert (result.cpu_data() == value + 1).all()
            alias[...] = value
            copied = blob[::2].copy()
            alias[...] = 100
            assert (copied.cpu_data() == value).all()
            blob[...] = value
            blob += 1
            assert (alias == value + 1).all()
    assert alias.flags.writeable


def test_ndarrays_that_the_device_can_read_are_not_copied(device):
    values = device.host_array(np.arange(N, dtype=np.int32))
    with record_transfers() as log:
        blob = syncblob.asarray(values, device="cpu").on(device.name)
        result = blob + 1
        values[...] = 0
        assert result.cpu_data()[5] == 6
        for call in (
            lambda: result + values,
            lambda: np.add(result, values),
            lambda: np.stack([result, values]),
            lambda: syncblob.concat([result, values]),
        ):
            values[...] = 0
            beside = call()
            values[...] = 7
            assert min(beside.on("cpu").ravel().tolist()) == (0 if beside.size > N else 1)
    assert not log
    assert address(blob.memory.buffer(1)) == address(values)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, out: np.add(x, 2, out=out),
        lambda x, out: np.add(x, 2, out=out, where=x > 0),
        lambda x, out: np.copyto(out, x + 2),
        lambda x, out: np.put(out, np.arange(N), x + 2),
        lambda x, out: np.stack([x + 2], axis=1, out=out[:, None]),
    ],
)
def test_an_ndarray_that_a_function_writes_is_complete_when_it_returns(blob, device, write):
    out = device.host_array(np.zeros(N, np.int32))
    write(blob, out)
    assert (out == 3).all()


def test_results_that_are_ndarrays_are_complete_when_a_function_returns(blob):
    """Blobs do not support their dtypes."""
    if not blob.home.native:
        pytest.skip("its functions have no such dtypes")
    assert (np.add(blob, 1, dtype=np.longdouble) == 2).all()
    assert (np.frompyfunc(operator.neg, 1, 1)(blob) == -1).all()


@pytest.mark.parametrize("side", ["cpu", "gpu"])
def test_another_device_with_the_one_buffer_waits_beside_an_alias(side):
    """The queues of two devices are not ordered."""
    # Other tests do not use these.
    first, second = (syncblob.simulated(number, shared=True) for number in (15, 16))
    blob = filled(1, N, "int32", device="simulated:15")
    alias = np.asarray(getattr(blob, side))
    first.delay = second.delay = 0.02
    there = blob.on("simulated:16")
    more = there + 1
    alias[...] = 5
    assert (more.cpu_data() == 2).all()
    there += 1
    assert (alias == 6).all()


def test_borrows_end_as_with_two_copies(blob, device):
    host = blob.mutable_cpu_data()
    blob.gpu_data()
    with pytest.raises(ValueError, match="read-only"):
        host[0] = 2
    if device.revocable:
        of_device = blob.mutable_gpu_data()
        blob.cpu_data()
        with pytest.raises(ValueError, match="read-only"):
            of_device[0] = 2


def test_nothing_is_evicted_and_there_are_no_windows(device):
    for side, use in enumerate([Blob.cpu_data, Blob.gpu_data]):
        large = Blob((64, 1 << 16), "uint8", device=device.name)
        use(large[:3])
        assert [window.nbytes for window in large.memory.windows(side)] == [large.nbytes]
    large += 1
    assert (large.evict(), large.evict("cpu")) == (0, 0)
    for part in large.parts(nbytes=large.nbytes // 4):
        operator.imul(part, 2)
    assert (large.cpu_data() == 2).all()
    assert large.memory.windows(1)[0].nbytes == large.nbytes


def test_nothing_leaves_to_make_room_in_the_hosts_memory(monkeypatch):
    kept = Blob(N, "int32", device=SHARED)
    kept.overwrite_gpu_data()
    monkeypatch.setattr(syncblob.simulated(9), "capacity", 6 * N)
    with pytest.raises(MemoryError, match=r"can be evicted:\n.* Blob of 4000 bytes"):
        Blob(N, "int32", device=SHARED).gpu_data()
    assert kept.memory.buffer(Side.ACCELERATOR) is not None


def test_verified_const_accepts_what_the_other_side_writes_by_right(blob):
    with syncblob.verified_const(), warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = np.from_dlpack(blob.on("cpu").const)
        blob += 1
        assert (blob.cpu_data() == 2).all()
        assert (seen == 2).all()
    with syncblob.verified_const():
        seen = np.from_dlpack(blob.on("cpu").const)
        np.ctypeslib.ctypes.memset(seen.ctypes.data, 1, 4)
        with pytest.warns(syncblob.ConstWriteWarning):
            blob.cpu_data()


def test_a_new_array_for_a_side_is_shared_too(blob, device):
    blob += 1
    other = device.host_array(np.full(N, 8, np.int32))
    blob.set_cpu_data(other)
    part, alias = blob[:5], np.asarray(blob.cpu)
    with record_transfers() as log:
        for each in (blob, part, blob, part):
            assert (each.cpu_data() == 8).all()
        with pytest.warns(syncblob.StaleAliasWarning):
            blob.set_gpu_data(device.array(np.full(N, 4, np.int32)))
        assert not blob.memory.aliased
        assert (blob.cpu_data() == 4).all()
        assert (part.cpu_data() == 4).all()
        blob.set_cpu_data(other)
        blob += 1
        assert (blob.cpu_data() == 9).all()
        assert (other == alias).all()
    assert not log


@at_each_place
def test_an_array_that_a_handler_sets_in_the_midst_of_a_read_is_not_lost(meanwhile, device):
    blob, done = Blob(N, "int32", device=device.name), []
    blob[...] = 1
    meanwhile(blob.cpu_data, lambda: done.append(blob.set_cpu_data(np.full(N, 2, np.int32))))
    assert (blob.gpu_data() == 1 + len(done)).all()


def test_sources_are_read_into_the_one_buffer(device):
    values = np.arange(N, dtype=np.int32)
    blob = Blob.from_source(N, "int32", lambda: values.view(np.uint8), device=device.name)
    with record_transfers() as log:
        on_device(device, blob[: N // 2].overwrite_gpu_data(), 3)
        # The source has the second half.
        assert np.array(blob[1::2])[-1] == N - 1
        assert np.array(blob[::2])[0] == 3
        assert (blob[N // 2 :] + 1).cpu_data()[-1] == N
    assert not log


@pytest.mark.parametrize("side", ["cpu", "gpu"])
def test_work_that_uses_the_memory_from_before_changes_no_initial_contents(device, side):
    values = np.arange(N, dtype=np.int32)
    blob = Blob.from_source(N, "int32", lambda: values.view(np.uint8), device=device.name)
    blob[: N // 2].overwrite_gpu_data()
    behind = blob.memory.buffer(Side.ACCELERATOR)[2 * N :]
    device.seen(behind)[...] = np.full(2 * N, 9, np.uint8)
    getattr(blob[N // 2 :], f"{side}_data")()
    device.controls.synchronize()
    assert np.array_equal(blob[N // 2 :].cpu_data(), values[N // 2 :])


def test_work_that_uses_what_an_interrupt_has_left_changes_no_zeros(device):
    blob = Blob(N, "int32", device=device.name)
    left = blob.memory.whole[1] = Window(0, blob.nbytes, blob.home.allocate(blob.nbytes))
    device.seen(left.array)[...] = np.full(blob.nbytes, 9, np.uint8)
    zeros = blob.cpu_data()
    device.controls.synchronize()
    assert blob.memory.alike(Side.HOST) == 3
    assert zeros.tolist() == [0] * N


def test_a_function_that_needs_only_a_shape_reads_nothing(blob):
    assert np.zeros_like(blob).tolist() == [0] * N
    assert np.full_like(blob, 3).tolist() == [3] * N


def test_the_kind_is_a_choice(device):
    assert (memory_kind("cpu"), memory_kind(device.name)) == ("shared", "shared")
    assert memory_kind("simulated:0") == "separate"
    kept = Blob(3, device=device.name)
    kept[...] = 1
    kept.cpu_data()
    set_memory_kind(device.name, "separate")
    try:
        assert memory_kind(device.name) == "separate"
        with record_transfers() as log:
            kept += 1
            assert kept.tolist() == [2] * 3
        assert not log
        blob = Blob(3, device=device.name)
        blob[...] = 1
        with record_transfers() as log:
            blob.cpu_data()
        assert log.downloads == 1
    finally:
        set_memory_kind(device.name, "shared")
    with record_transfers() as log:
        # What was allocated before has two buffers still.
        blob += 1
        assert blob.tolist() == [2] * 3
    assert log.downloads == 1


def test_a_push_waits_for_no_computation_that_comes_after_it():
    device = syncblob.simulated(17)
    apart = filled(1, 3, device="simulated:17")
    apart.gpu_data()
    apart.mutable_cpu_data()[...] = 2
    set_memory_kind("simulated:17", "shared")
    device.delay = 0.01
    shared = filled(1, 3, device="simulated:17")
    apart.prefetch()
    shared += 1
    assert apart.gpu_data().tolist() == shared.gpu_data().tolist() == [2] * 3
    apart.mutable_gpu_data()[...] = 3
    apart.prefetch("cpu")
    shared += 1
    assert apart.cpu_data().tolist() == shared.gpu_data().tolist() == [3] * 3


def test_the_host_waits_for_what_uses_a_buffer_from_after_a_change_of_kind():
    device, blob = syncblob.simulated(19), filled(1, 3, device="simulated:19")
    blob.gpu_data()
    blob.evict("gpu")
    set_memory_kind("simulated:19", "shared")
    blob += 1
    device.delay = 0.01
    product = blob * 10
    blob.overwrite_cpu_data()[...] = 7
    assert product.tolist() == [20] * 3


def test_a_buffer_that_one_space_cannot_use_may_be_shared_from_another(monkeypatch):
    first, second = (syncblob.simulated(n, shared=True) for n in (20, 21))
    blob, share, tries = filled(1, 3, device="simulated:20"), second.share, iter((True, False))
    blob.gpu_data()
    monkeypatch.setattr(second, "share", lambda buffer: None if next(tries) else share(buffer))
    far = blob.on("simulated:21")
    far += 1
    assert blob.memory.alike(Side.HOST) == 7
    assert blob.tolist() == [2] * 3
    first.synchronize()


def test_a_source_is_uploaded_into_memory_that_the_host_cannot_use(monkeypatch):
    device = syncblob.simulated(22, shared=True)
    monkeypatch.setattr(device, "share", lambda _: None)
    values = np.arange(3, dtype=np.int32)
    blob = Blob.from_source(3, "int32", lambda: values.view(np.uint8), device="simulated:22")
    with record_transfers() as log:
        assert blob.gpu_data().tolist() == [0, 1, 2]
    assert (log.uploads, log.shared) == (1, 0)


def test_kinds_that_there_are_not_are_named():
    with pytest.raises(ValueError, match="'shared' or 'separate', got 'one'"):
        set_memory_kind(SHARED, "one")
    with pytest.raises(ValueError, match="drawer:0 does not share its memory"):
        set_memory_kind("drawer:0", "shared")
    set_memory_kind("drawer:0", "separate")
    with pytest.raises(ValueError, match='got "cpu"'):
        set_memory_kind("cpu", "shared")


def test_a_device_with_memory_of_its_own_beside_it(blob, device):
    if not device.computes:
        pytest.skip("NumPy cannot read its arrays")
    far = blob.on("simulated:0")
    far += 1
    blob.fill(5)
    doubled = blob * 2
    with record_transfers() as log:
        far.fill(7)
        # Into the buffer that the device still reads.
        assert (blob.cpu_data() == 7).all()
    assert (log.downloads, log.uploads) == (1, 0)
    assert doubled.tolist() == [10] * N
    assert (blob + 1).tolist() == [8] * N


def test_the_host_copies_nothing_that_its_own_buffer_holds(device):
    """Although another device holds it, too, and has been used for longer."""
    far = filled(1, N, "int32", device="simulated:0")
    near = far.on(device.name)
    far.gpu_data(), near.gpu_data()
    if near.memory.alike(Side.HOST) == 1:
        pytest.skip("the device cannot use memory of NumPy's")
    on_device(device, near.mutable_gpu_data(), 6)
    far.gpu_data()
    with record_transfers() as log:
        assert (near.cpu_data() == 6).all()
    assert not log
    # But what the other device alone holds behind that.
    far[5:].mutable_gpu_data()[...] = 7
    on_device(device, near[:5].mutable_gpu_data(), 8)
    assert near.cpu_data().tolist() == [8] * 5 + [7] * (N - 5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_child_has_what_was_written_before_the_fork(blob, device):
    on_device(device, blob.mutable_gpu_data(), 6)

    def work():
        assert (blob.cpu_data() == 6).all()
        blob.mutable_cpu_data()[...] = 7

    forked(work)
    assert (blob.cpu_data() == 6).all()
