"""The device of a Blob is the requested one and never changes."""

import copy
import operator
import pickle

import numpy as np
import pytest
from made_blobs import CPU, GPU, PAIR, address, put, values

import syncblob
from syncblob import Blob, NoDeviceError, use_device

try:
    import torch
except ImportError:
    torch = None

# They count the bytes of parts of small memories.
pytestmark = pytest.mark.usefixtures("exact_parts")

DEVICES = ["cpu", "simulated:0"]


def other_than(device):
    return DEVICES[device == "cpu"]


def blob_of(device, *, contents=True):
    """Make a Blob of a device. Its memory is bound to simulated:0, its contents are on the host."""
    blob = Blob((2, 3), device=device)
    blob.memory.side_of(syncblob.simulated(0))
    if contents:
        blob.overwrite_cpu_data()[...] = values()
    return blob


def default(device, make):
    with use_device(device):
        return make()


def assert_on(blob, device):
    """Check everything that depends on the device."""
    assert str(blob.device) == device
    here, its_side = (CPU, blob.cpu_data) if device == "cpu" else (GPU, blob.gpu_data)
    for view in (blob[:1], blob.T, blob.reshape(-1), blob.data, blob.const, next(iter(blob))):
        assert str(view.device) == device
    assert str(blob.diff.device) == str(blob[:1].diff.device) == device
    for result in (blob + 1, -blob, blob.copy(), blob.astype("float64"), np.abs(blob), blob.sum()):
        assert str(result.device) == device
    assert blob.to_device(device) is blob
    assert blob.__dlpack_device__() == (1, int(device != "cpu"))
    lent = np.from_dlpack(blob)
    assert blob.head is here
    assert address(lent) == address(its_side())
    del lent
    if torch is not None:
        assert blob.to_torch().data_ptr() == address(its_side())
    blob[...] = 3
    assert blob.head is here
    blob += 1
    assert (blob.head, str(blob.device)) == (here, device)
    assert blob.tolist() == [[4] * 3] * 2


# --- ways to make a Blob -------------------------------------------------------------------------


def source():
    return values().reshape(-1).view(np.uint8)


MAKE = {
    "Blob": lambda d: Blob((2, 3), device=d),
    "Blob, default": lambda d: default(d, lambda: Blob((2, 3))),
    "list": lambda d: Blob.asarray(values().tolist(), device=d),
    "array": lambda d: Blob.asarray(values(), device=d),
    "Blob of another device": lambda d: Blob.asarray(blob_of(other_than(d)), device=d),
    "from_dlpack": lambda d: Blob.from_dlpack(values(), device=d),
    "from_source": lambda d: Blob.from_source((2, 3), "float32", source, device=d),
    "shared memory": lambda d: Blob.in_shared_memory((2, 3), device=d),
    "zeros": lambda d: syncblob.zeros((2, 3), device=d),
    "zeros_like": lambda d: syncblob.zeros_like(blob_of(d)),
    "message": lambda d: Blob.from_proto(Blob.asarray(values()).to_proto(), device=d),
    "to_device": lambda d: blob_of(other_than(d)).to_device(d),
    "on": lambda d: blob_of(other_than(d)).on(d),
    "copy": lambda d: blob_of(d).copy(),
    "deepcopy": lambda d: copy.deepcopy(blob_of(d)),
    "pickle": lambda d: pickled(blob_of(d)),
    "pickle, shared": lambda d: pickled(Blob.in_shared_memory((2, 3), device=d)),
    "astype": lambda d: blob_of(d).astype("float64"),
    "result": lambda d: blob_of(d) * 2,
    "strided result": lambda d: np.add(blob_of(d), 1, order="F"),
    "reshaped copy": lambda d: blob_of(d).T.reshape(2, 3),
    "diff": lambda d: blob_of(d).diff,
    "selected": lambda d: blob_of(d)[[0, 1]],
    "where": lambda d: syncblob.where(blob_of(d) > 1, blob_of(d), 0),
}


def pickled(blob):
    return pickle.loads(pickle.dumps(blob))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("last", [None, "mutable_cpu_data", "mutable_gpu_data", "cpu_data"])
def test_it_is_what_was_asked_for_whichever_side_was_written_last(make, device, last):
    blob = make(device)
    assert str(blob.device) == device
    blob.memory.side_of(syncblob.simulated(0))
    if last is not None:
        getattr(blob, last)()
    assert_on(blob, device)


# --- operations on a Blob ------------------------------------------------------------------------


def replaced(which):
    def use(blob):
        getattr(blob, f"share_{which}")(blob_of("cpu"))
        getattr(blob, f"share_{which}")(blob_of("simulated:0"))

    return use


def in_place(blob):
    for device in DEVICES:
        blob += blob_of(device)


def failed(blob):
    backend = syncblob.simulated(0)
    blob.mutable_cpu_data()
    with backend.failing(transfer=1), pytest.raises(RuntimeError, match="injected"):
        blob.mutable_gpu_data()
    blob.gpu_data()
    blob.mutable_gpu_data()
    with backend.failing(transfer=1), pytest.raises(RuntimeError, match="injected"):
        blob.mutable_cpu_data()


def pushed(blob):
    blob.mutable_cpu_data()
    blob.async_gpu_push()


def split(blob):
    blob.mutable_gpu_data()
    blob[0].mutable_cpu_data()


def out_of_torch(blob):
    if torch is not None:
        torch.add(torch.ones(2, 3), 1, out=blob)
        torch.relu_(blob)


USES = {
    **{
        f"{kind}{side}_{which}": operator.methodcaller(f"{kind}{side}_{which}")
        for kind in ("", "mutable_", "overwrite_")
        for side in ("cpu", "gpu")
        for which in ("data", "diff")
    },
    **{
        f"set_{side}_data": operator.methodcaller(f"set_{side}_data", np.ones((2, 3), "f4"))
        for side in ("cpu", "gpu")
    },
    "assignment": lambda blob: operator.setitem(blob, ..., 1),
    "assignment of a Blob": lambda blob: [
        operator.setitem(blob, 0, blob_of(d)[1]) for d in DEVICES
    ],
    "assignment through on": lambda blob: [operator.setitem(blob.on(d), ..., 1) for d in DEVICES],
    "in place": in_place,
    "out": lambda blob: [np.add(blob_of(d), 1, out=blob) for d in DEVICES],
    "out, two devices": lambda blob: np.add(blob_of("cpu"), blob_of("simulated:0"), out=blob),
    "out of torch": out_of_torch,
    "copy_from": lambda blob: [blob.copy_from(blob_of(d)) for d in DEVICES],
    "copy_from, resized": lambda blob: blob.copy_from(
        Blob((4, 5), device="simulated:0"), resize=True
    ),
    "share_data": replaced("data"),
    "share_diff": replaced("diff"),
    "shrunk": operator.methodcaller("resize", 1, 2),
    "grown": operator.methodcaller("resize", 40, 50),
    "load_proto": lambda blob: blob.load_proto(blob_of("cpu").to_proto()),
    "update": operator.methodcaller("update"),
    "scale": operator.methodcaller("scale_data", 2),
    "prefetch": operator.methodcaller("prefetch"),
    "push": pushed,
    "failed transfers": failed,
    "split": split,
    "alias": lambda blob: np.asarray(blob.cpu),
    "alias of the device": lambda blob: np.asarray(blob.gpu),
    "assume_unaliased": operator.methodcaller("assume_unaliased"),
}


@pytest.mark.filterwarnings("ignore::syncblob.StaleAliasWarning")
@pytest.mark.parametrize("kind", ["untouched", "filled", "result"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_it_stays_whatever_is_done(use, device, kind):
    blob = blob_of(device, contents=kind != "untouched")
    if kind == "result":
        blob = blob * 2
        blob.memory.side_of(syncblob.simulated(0))
    use(blob)
    assert str(blob.device) == device
    blob.resize(2, 3)
    assert_on(blob, device)


# --- on ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", PAIR)
@pytest.mark.parametrize("target", [*DEVICES, syncblob.Device("cpu"), syncblob.Device("simulated")])
@pytest.mark.parametrize("device", DEVICES)
def test_on_is_a_view_and_moves_nothing(simulated, device, target, head):
    blob = blob_of(device, contents=False)
    put(blob, head, values())
    simulated.reset_counts()
    view = blob.on(target)
    assert (view.device, blob.device) == (target, device)
    assert (view.memory, view.head, view.shape, view.strides) == (
        blob.memory,
        head,
        blob.shape,
        blob.strides,
    )
    counted = simulated.uploads, simulated.downloads, simulated.allocations
    assert (*counted, simulated.host_allocations) == (0, 0, 0, 0)
    assert view.tolist() == (values() * bool(head)).tolist()


def test_const_diff_and_views_go_with_it():
    blob = blob_of("simulated:0")
    blob.diff[...] = 2
    view = blob.on("cpu")
    assert [str(x.device) for x in (view[0], view.T, view.const, view.diff, view.reshape(6))] == [
        "cpu"
    ] * 5
    assert view.diff.memory is blob.diff.memory
    assert view.diff.tolist() == [[2] * 3] * 2
    with pytest.raises(ValueError, match="const view"):
        blob.const.on("cpu")[...] = 1
    with pytest.raises(ValueError, match="is a view"):
        view.resize(6)
    assert blob.on("cpu").on("simulated:0").device == "simulated:0"


@pytest.mark.parametrize("existing", [False, True])
def test_a_gradient_is_on_the_accelerator_that_on_has_named(simulated, existing):
    blob = Blob(3, device="cpu")
    if existing:
        blob.diff[...] = 2
    view = blob.on("simulated:1")
    simulated.reset_counts()
    view.diff[...] = 1
    assert str(blob.memory.accelerator.device) == "simulated:1"
    assert str(blob.diff.memory.accelerator.device) == "simulated:1"
    assert (blob.diff_head, blob.diff.device) == (GPU, "cpu")
    view.update()
    assert (view.device, blob.tolist()) == ("simulated:1", [-1, -1, -1])
    assert simulated.allocations == 0


@pytest.mark.parametrize(
    ("device", "error"), [("cuda:99", NoDeviceError), ("tpu", ValueError), (3, ValueError)]
)
def test_where_it_cannot_be_nothing_changes(device, error):
    blob, unbound = blob_of("simulated:0"), Blob(3, device="cpu")
    for each in (blob, unbound):
        with pytest.raises(error):
            each.on(device)
    assert (blob.head, blob.device, blob.tolist()) == (CPU, "simulated:0", values().tolist())
    assert str(blob.memory.accelerator.device) == "simulated:0"
    assert unbound.memory.accelerator is None
