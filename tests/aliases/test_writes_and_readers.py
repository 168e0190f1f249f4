"""A read of the other side in the middle of a write loses nothing of the write.

The reader stands for a signal handler, a finaliser or another thread. It runs once, at one of the
places where CPython may run these; the tests try each.
"""

import operator
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
import tiers
from interrupt_points import at_each_place

import syncblob
from syncblob import Blob

SIZE = 4


def made(shape, device="cpu", make=Blob):
    """Make a Blob that is bound to simulated:0."""
    blob = make(shape, "float64", device=device)
    blob.memory.side_of(syncblob.simulated(0))
    return blob


from_each_side = pytest.mark.parametrize(("here", "there"), [("cpu", "gpu"), ("gpu", "cpu")])
WRITES = {
    "number": lambda blob: blob.__setitem__(..., 5),
    "array": lambda blob: blob.__setitem__(..., np.full(SIZE, 5.0)),
    "mask": lambda blob: blob.__setitem__(np.full(SIZE, fill_value=True), 5),
    "copy_from": lambda blob: blob.copy_from(np.full(SIZE, 5.0)),
    "out": lambda blob: np.add(np.full(SIZE, 4.0), 1, out=blob),
    "at": lambda blob: np.add.at(blob, np.arange(SIZE), 4),
    "in place": lambda blob: operator.iadd(blob, 4.0),
    "in place, two": lambda blob: operator.imul(blob, Blob.asarray(np.full(SIZE, 5.0), copy=True)),
    "update": lambda blob: blob.update(),
    "scale_data": lambda blob: blob.scale_data(5),
}


@pytest.mark.parametrize(
    "name",
    tiers.representatives(
        WRITES,
        {
            "out": "a function that overwrites",
            "update": "one that reads what it writes, with the diff",
        },
    ),
)
@pytest.mark.parametrize("state", ["one side", "both sides", "shared", "a stale alias"])
@pytest.mark.filterwarnings("ignore::syncblob.StaleAliasWarning")
@from_each_side
@at_each_place
def test_a_read_in_the_middle_of_a_write_loses_nothing(meanwhile, name, here, there, state):
    # Operations that write run on the Blob's device.
    make = Blob.in_shared_memory if state == "shared" else Blob
    blob = made(SIZE, "cpu" if here == "cpu" else "simulated:0", make)
    getattr(blob, f"mutable_{here}_data")()[...] = 1
    if name == "update":
        blob.diff[...] = -4
    if state == "both sides":
        getattr(blob, f"{there}_data")()
        getattr(blob, f"mutable_{here}_data")()
    _alias = np.from_dlpack(getattr(blob, there)) if state == "a stale alias" else None
    meanwhile(partial(WRITES[name], blob), getattr(blob, f"{there}_data"))
    assert blob.cpu_data().tolist() == blob.gpu_data().tolist() == [5] * SIZE


PARTS = {
    "accessor": lambda row, here: getattr(row, f"mutable_{here}_data")().fill(5),
    "overwrite": lambda row, here: getattr(row, f"overwrite_{here}_data")().fill(5),
    "alias": lambda row, here: np.from_dlpack(getattr(row, here)).fill(5),
    "assignment": lambda row, _here: row.__setitem__(..., 5),
    "array": lambda row, _here: row.__setitem__(..., np.full(SIZE, 5.0)),
    "index array": lambda row, _here: row.__setitem__(np.arange(SIZE), 5),
    "out": lambda row, _here: np.add(np.full(SIZE, 4.0), 1, out=row),
    "in place": lambda row, _here: operator.iadd(row, 4.0),
}


@pytest.mark.parametrize(
    "name",
    tiers.representatives(
        PARTS,
        {
            "alias": "one that nobody sees",
            "index array": "one of any elements",
            "out": "one that is computed",
        },
    ),
)
@pytest.mark.parametrize("where", ["here", "there", "both"])
@from_each_side
@at_each_place
def test_a_write_of_one_part_in_the_middle_of_that_of_another_loses_neither(
    meanwhile, name, here, there, where
):
    blob = made((2, SIZE), "cpu" if here == "cpu" else "simulated:0")
    getattr(blob, f"mutable_{there if where == 'there' else here}_data")()[...] = 1
    if where == "both":
        getattr(blob, f"{there}_data")()
    below = [1] * SIZE

    def write_below():
        getattr(blob[1], f"mutable_{there}_data")()[...] = 7
        below[:] = [7] * SIZE

    meanwhile(partial(PARTS[name], blob[0], here), write_below)
    assert blob.cpu_data().tolist() == blob.gpu_data().tolist() == [[5] * SIZE, below]


def divided():
    """Make a Blob whose sides hold different rows, and views of rows that the host holds."""
    blob = made((4, SIZE))
    blob.gpu_data()
    blob.mutable_cpu_data()[...] = 1
    blob[3].mutable_gpu_data()[...] = 2
    return blob, [blob[0], blob[0], blob[1]]


def assert_current(blob, views):
    """Write on each side through other Blobs, and read the views each time."""
    for value, name in enumerate(["mutable_gpu_data", "mutable_cpu_data"] * 2, 10):
        for row in (0, 1):
            getattr(blob[row], name)()[...] = value
        assert all((view + 0).tolist() == [value] * SIZE for view in views), name
    for value, name in enumerate(["mutable_gpu_data", "mutable_cpu_data"] * 2, 20):
        blob.gpu_data()
        blob.cpu_data()
        getattr(blob, name)()[...] = value
        assert all((view + 0).tolist() == [value] * SIZE for view in (*views, blob[1])), name


def end():
    raise KeyboardInterrupt


OTHER_USES = {
    "use": lambda view: view + 1,
    "write": lambda view: view.__setitem__(1, 9),
    "log": lambda _view: syncblob.record_transfers().__enter__().__exit__(None, None, None),
    "interrupt": lambda _view: end(),
}


@pytest.mark.parametrize("other", OTHER_USES)
@pytest.mark.parametrize(
    "use",
    [lambda x: x + 1, lambda x: operator.iadd(x, 1), Blob.cpu_data, lambda x: x.base.refresh()],
)
@at_each_place
def test_arrays_used_in_the_middle_of_a_use_are_not_taken_for_current_later(meanwhile, use, other):
    blob, views = divided()
    if other == "interrupt":
        use(views[1])

    def work():
        with suppress(KeyboardInterrupt):
            use(views[0])

    meanwhile(work, partial(OTHER_USES[other], views[1]))
    assert_current(blob, views)


@pytest.mark.parametrize("take", [Blob.mutable_cpu_data, np.from_dlpack])
@at_each_place
def test_an_array_lent_in_the_middle_of_a_transfer_is_seen(meanwhile, take):
    blob, lent = made(SIZE), []
    blob.gpu_data()
    blob.mutable_cpu_data()[...] = 1
    np.from_dlpack(blob)
    meanwhile(blob.gpu_data, lambda: lent.append(take(blob)))
    for array in lent:
        if array.flags.writeable:
            array[...] = 5
            assert blob.gpu_data().tolist() == [5] * SIZE


# Of an interrupt in a generator that ends.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@at_each_place
def test_an_interrupted_adoption_leaves_no_old_array(meanwhile):
    blob, views = divided()
    assert_current(blob, views)

    def adopt():
        with suppress(KeyboardInterrupt):
            blob.set_cpu_data(np.full((4, SIZE), 5.0))

    meanwhile(adopt, end)
    expected = blob.gpu_data().tolist()
    found = [(view + 0).tolist() for view in (blob, *views)]
    assert found == [expected, *(expected[row] for row in (0, 0, 1))]


@pytest.mark.parametrize(
    "use",
    [
        lambda blob: blob[0],
        lambda blob: blob.T[:, 0],
        lambda blob: np.transpose(blob)[:, 0],
        lambda blob: blob.reshape(2, 2 * SIZE)[0, :SIZE],
        lambda blob: operator.iadd(blob, 1)[0],
        lambda blob: blob.__setitem__((3, 0), 1) or blob[0],
        lambda blob: float(blob[0, 0]) and blob[0],
    ],
)
@at_each_place
def test_an_adoption_in_the_middle_of_a_use_leaves_views_of_the_new_array(meanwhile, use):
    blob, views = divided()
    blob.mutable_cpu_data()

    def adopt():
        blob.set_cpu_data(np.full((4, SIZE), 5.0))
        blob + 1

    def work():
        views[0] = use(blob)

    meanwhile(work, adopt)
    assert_current(blob, views)


@at_each_place
def test_aliases_made_in_the_middle_of_one_another_are_both_tracked(meanwhile):
    blob, aliases = Blob((2, SIZE), device="simulated"), []
    blob[...] = 1
    rows = [blob[0].gpu, blob[1].gpu]

    def make():
        aliases.append(np.from_dlpack(rows.pop()))

    meanwhile(make, make)
    blob.cpu_data()
    for alias in aliases:
        alias[...] = 5
    assert blob.cpu_data().sum() == (len(aliases) * 5 + (2 - len(aliases))) * SIZE


@at_each_place
def test_an_accelerator_used_while_another_is_added_has_its_own_side(meanwhile):
    blob = Blob(SIZE, device="cpu")
    blob[...] = 5

    def use(number):
        return np.asarray(blob.on(f"simulated:{number}").gpu_data()).tolist()

    meanwhile(partial(use, 0), partial(use, 1))
    assert use(0) == use(1) == [5] * SIZE
