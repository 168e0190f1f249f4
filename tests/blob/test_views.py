"""Indexing and views, compared with NumPy, and the state that views share with their Blob."""

import math
import re

import numpy as np
import pytest
from devices import OTHER, SYCL
from hypothesis import given, settings
from hypothesis import strategies as st

import syncblob
from syncblob import Blob, Head

SYNCED = Head.SYNCED
DEVICES = ["cpu", "simulated:0"]
EVERYWHERE = [*DEVICES, OTHER, SYCL, pytest.param("cuda:0", marks=pytest.mark.gpu)]
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def blob_of(array, device="cpu"):
    """Make a Blob of a device with contents on that side only, bound to simulated:0."""
    array = np.asarray(array)
    blob = Blob(array.shape, array.dtype, device=device)
    blob.memory.side_of(syncblob.simulated(0))
    lend = blob.overwrite_cpu_data if device == "cpu" else blob.overwrite_gpu_data
    lend()[...] = array
    return blob


def numbers(*shape, dtype="f4"):
    return np.arange(math.prod(shape), dtype=dtype).reshape(shape)


def synced(device):
    blob = blob_of(numbers(2, 3), device)
    blob.gpu_data() if device == "cpu" else blob.cpu_data()
    return blob


@st.composite
def keys(draw, shape):
    """Draw an index, with up to one entry in three an array of integers or a mask."""
    entries, axis = [], 0
    while axis < len(shape) and draw(st.integers(0, 5)):
        dim, used = shape[axis], 1
        bounds = st.none() | st.integers(-dim - 1, dim + 1)
        kind = draw(st.sampled_from(["slice", "integer", "array", "mask", "None", "bool"]))
        if kind == "slice" or (kind in {"integer", "array"} and not dim):
            entries.append(slice(*draw(st.tuples(bounds, bounds, st.sampled_from([1, 2, -1, -3])))))
        elif kind == "integer":
            entries.append(draw(st.integers(-dim, dim - 1)))
        elif kind == "array":
            some = draw(st.sampled_from([(), (0,), (1,), (2,), (1, 2), (2, 1)]))
            values = draw(st.lists(st.integers(-dim, dim - 1), min_size=2, max_size=2))
            dtype = draw(st.sampled_from(["i1", "i4", "i8"]))
            entries.append(np.resize(np.array(values, dtype), some))
        elif kind == "mask":
            used = draw(st.integers(1, min(len(shape) - axis, 2)))
            mask = np.zeros(shape[axis : axis + used], bool)
            mask.flat = draw(st.lists(st.booleans(), min_size=mask.size, max_size=mask.size))
            entries.append(mask)
        else:
            entries.append(None if kind == "None" else draw(st.booleans()))
            used = 0
        axis += used
        if not any(x is Ellipsis for x in entries) and not draw(st.integers(0, 5)):
            entries.append(Ellipsis)
            axis = max(axis, draw(st.integers(0, len(shape))))
    return entries[0] if len(entries) == 1 else tuple(entries)


@st.composite
def given_keys(draw, shape, device):
    """Draw an index of NumPy's, and the same one with Blobs and lists in place of some arrays."""
    key = draw(keys(shape))
    given = []
    for x in key if type(key) is tuple else (key,):
        how = draw(st.sampled_from(["array", "list", "host", "device"]))
        if type(x) is not np.ndarray or not x.size or how == "array":
            given.append(x)
        else:
            blob = on_side(x, device, there=how == "device")
            given.append(x.tolist() if how == "list" else blob)
    return key, tuple(given) if type(key) is tuple else given[0]


def on_side(array, device, *, there=True):
    """Make a Blob of a device, with contents on the host or only there."""
    blob = syncblob.asarray(np.array(array), device="cpu").on(device)
    if there and device != "cpu":
        blob.mutable_gpu_data()
    return blob


# --- getitem and setitem -----------------------------------------------------------------------


@pytest.mark.parametrize("device", EVERYWHERE)
@given(data=st.data(), shape=shapes)
def test_getitem_is_numpys(device, data, shape):
    array = numbers(*shape)
    blob = on_side(array, device)
    key, given_key = data.draw(given_keys(shape, device))
    try:
        expected = np.asarray(array[key])
    except IndexError:
        with pytest.raises(IndexError):
            blob[given_key]
        return
    result = blob[given_key]
    assert type(result) is Blob
    assert (result.shape, result.dtype, result.device) == (expected.shape, "f4", device)
    basic = not any(isinstance(x, (np.ndarray, bool)) for x in np.index_exp[key])
    assert result.memory is blob.memory or not basic
    np.testing.assert_array_equal(np.asarray(result), expected)


@pytest.mark.parametrize("device", EVERYWHERE)
@settings(max_examples=150)
@given(data=st.data(), shape=shapes)
def test_programs_of_assignments_leave_what_numpy_leaves(device, data, shape):
    array = numbers(*shape)
    blob = on_side(array, device)
    for _ in range(data.draw(st.integers(1, 4))):
        key, given_key = data.draw(given_keys(shape, device))
        try:
            places = numbers(*shape)[key]
        except IndexError:
            with pytest.raises(IndexError):
                blob[given_key] = 1
            continue
        target = places.shape
        kinds = ["scalar"]
        if len({*np.ravel(places)}) == places.size:
            # Devices write an element that is selected twice in any order.
            kinds += ["array", "blob", "itself", *(["row"] if target[:1] > (0,) else [])]
        value = data.draw(st.sampled_from(kinds))
        if value == "scalar":
            values = given_values = data.draw(st.integers(-9, 9))
        elif value == "itself":
            values, given_values = array[key].copy(), blob[given_key]
        else:
            values = given_values = -numbers(*target)[:1] if value == "row" else -numbers(*target)
            if value == "blob":
                given_values = on_side(values, device, there=data.draw(st.booleans()))
        array[key] = values
        blob[given_key] = given_values
        np.testing.assert_array_equal(np.asarray(blob), array)
    assert blob.device == device


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (0, [1, 2], ValueError),
        (..., np.zeros((3, 2)), ValueError),
        ((0, 0), [1, 2], ValueError),
        (5, 1, IndexError),
        ((0, 0, 0), 1, IndexError),
        ("x", 1, IndexError),
        (1.0, 1, IndexError),
        ([0, 9], 1, IndexError),
        ([0, 1], [1, 2], ValueError),
        (([0, 1], [0, 1]), [1, 2, 3], ValueError),
        (np.ones((3, 3), bool), 1, IndexError),
        (np.ones((2, 3), bool), [1, 2], ValueError),
        (0, 1j, TypeError),
        (0, np.ones(3, complex), TypeError),
        (0, np.complex64(1j), TypeError),
        (0, np.complex128(1j), TypeError),
        (0, "a", (TypeError, ValueError)),
        (0, None, TypeError),
    ],
)
def test_a_failed_assignment_changes_nothing(simulated, device, key, value, error):
    blob = synced(device)
    simulated.reset_counts()
    with pytest.raises(error):
        blob[key] = value
    assert (blob.head, blob.device) == (SYNCED, device)
    assert simulated.uploads + simulated.downloads + simulated.allocations == 0
    assert blob.tolist() == numbers(2, 3).tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("key", ["x", 1.0, np.float32(1), 1j, object(), (0, "x")])
def test_what_is_no_index_raises_the_error_of_numpy(device, key):
    blob, array = synced(device), numbers(2, 3)
    with pytest.raises(IndexError) as expected:
        array[key]
    with pytest.raises(IndexError, match=re.escape(str(expected.value))):
        blob[key]
    with pytest.raises(IndexError, match=re.escape(str(expected.value))):
        blob[key] = 1


def test_the_diff_of_diff_is_one_of_the_blob_and_its_views():
    blob = Blob(3)
    blob.diff.diff[...] = 5
    blob[:1].diff.diff[...] = 6
    blob.diff[1:2].diff[...] = 7
    assert blob.diff.diff.tolist() == blob.view().diff.diff.tolist() == [6, 7, 5]
    assert blob.diff.tolist() == blob.diff.diff.diff.tolist() == [0, 0, 0]


def test_an_assignment_that_cannot_be_supplied_changes_nothing(simulated):
    blob = synced("simulated:0")
    simulated.reset_counts()
    with simulated.failing(transfer=1), pytest.raises(RuntimeError, match="injected"):
        blob[...] = numbers(2, 3) + 9
    assert blob.head is SYNCED
    assert blob.tolist() == blob.gpu_data().tolist() == numbers(2, 3).tolist()
    blob[...] = numbers(2, 3) + 9
    assert blob.gpu_data().tolist() == (numbers(2, 3) + 9).tolist()
    assert simulated.uploads == 1


@pytest.mark.parametrize("device", DEVICES)
def test_an_integer_that_does_not_fit_is_refused_and_changes_nothing(device):
    blob = blob_of(numbers(3, dtype="int8"), device)
    head = blob.head
    with pytest.raises(OverflowError):
        blob[0] = 300
    assert (blob.head, blob.tolist()) == (head, [0, 1, 2])


@pytest.mark.parametrize("number", [np.int64(300), np.float64("nan"), np.float32(300)], ids=repr)
@pytest.mark.parametrize("device", DEVICES)
def test_a_numpy_scalar_that_does_not_fit_is_refused_as_by_an_ndarray(device, number):
    blob, array = blob_of(numbers(3, dtype="int8"), device), numbers(3, dtype="int8")
    for x in (blob, array):
        for key in (0, slice(1, None), ...):
            with pytest.raises((OverflowError, ValueError)):
                x[key] = number
        with pytest.raises((OverflowError, ValueError)):
            x.fill(number)
        assert x.tolist() == [0, 1, 2]
        with np.errstate(invalid="ignore"):
            x[[0, 2]] = number
    assert blob.tolist() == array.tolist()


@pytest.mark.parametrize("device", EVERYWHERE)
def test_arrays_out_of_bounds_are_refused_and_change_nothing(device):
    array = numbers(2, 3)
    blob = on_side(array, device)
    # A CUDA device does not check what only it holds.
    for there in {False, device != "cuda:0"}:
        for index, axis in (([2], 0), ([-3], 0), ([0, 3], 1), ([-4, 0], 1)):
            for x in (index, np.array(index), on_side(index, device, there=there)):
                key = (0, x) if axis else x
                with pytest.raises(IndexError, match=f"axis {axis} with size {array.shape[axis]}"):
                    blob[key]
                with pytest.raises(IndexError, match="out of bounds"):
                    blob[key] = 9
    assert blob.tolist() == array.tolist()


@pytest.mark.parametrize("device", EVERYWHERE)
def test_indices_beside_an_empty_array_may_be_any_as_in_numpy(device):
    array = numbers(3, 4)
    blob = on_side(array, device)
    for index in (([], [9]), (False, [9]), (None, ..., False, [9])):
        assert blob[index].shape == array[index].shape
        blob[index] = 5
    assert blob.tolist() == array.tolist()


def test_a_device_that_must_not_wait_checks_what_the_host_knows(monkeypatch):
    monkeypatch.setattr(syncblob.devices.accelerator(OTHER), "checks_values", False)
    blob, there = on_side(numbers(3), OTHER), on_side([3], OTHER)
    computed = there + on_side([0], OTHER)
    with syncblob.no_transfers():
        # This library clips.
        assert blob[there].shape == blob[computed].shape == (1,)
    for index in ([3], np.array([3]), on_side([3], OTHER, there=False), on_side([3], "cpu") * 1):
        for call in (blob.__getitem__, blob.take, lambda i: syncblob.take(blob, on_side(i, "cpu"))):
            with pytest.raises(IndexError, match="index 3 is out of bounds"):
                call(index)


@pytest.mark.parametrize("device", EVERYWHERE)
def test_masks_without_elements_fit(device):
    blob, array = on_side(numbers(1, 2, 3), device), numbers(1, 2, 3)
    for mask in (np.zeros(0, bool), np.zeros((0, 3), bool), np.zeros((2, 0), bool)):
        for key in ((0, ..., mask), (0, mask)):
            for x in (mask, on_side(mask, device)):
                given = tuple(x if each is mask else each for each in key)
                try:
                    expected = array[key]
                except IndexError:
                    with pytest.raises(IndexError):
                        blob[given]
                else:
                    assert blob[given].shape == expected.shape
                    blob[given] = 9
    assert blob.tolist() == array.tolist()


@pytest.mark.parametrize("device", EVERYWHERE)
def test_leading_axes_of_length_one_are_dropped_from_values(device):
    blob, array = on_side(numbers(2, 3), device), numbers(2, 3)
    for x in (blob, array):
        x[[1, 0]] = -numbers(1, 1, 2, 3)
        x[:, [0]] = numbers(1, 1, 2, 1)
    assert blob.tolist() == array.tolist()


# --- views share everything --------------------------------------------------------------------

VIEWS = {
    "data": lambda b: b.data,
    "slice": lambda b: b[:, ::2],
    "index": lambda b: b[1],
    "element": lambda b: b[1, 2],
    "reversed": lambda b: b[::-1],
    "newaxis": lambda b: b[:, None],
    "T": lambda b: b.T,
    "mT": lambda b: b.mT,
    "transpose": lambda b: b.transpose(1, 0),
    "reshape": lambda b: b.reshape(3, 2),
    "const": lambda b: b.const,
    "view of a view": lambda b: b.T[1:].reshape(2, 2, 1),
    "const of a view": lambda b: b[0].const,
    "view of const": lambda b: b.const.T[1],
    "diff of a view": lambda b: b[0].diff.data,
    "item of iteration": lambda b: list(b)[1][0],
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_numpys_view_and_shares_memory_head_and_gradient(simulated, name, device):
    array = numbers(2, 3)
    blob = blob_of(array, device)
    head = blob.head
    simulated.reset_counts()
    view = VIEWS[name](blob)
    assert simulated.uploads + simulated.downloads + simulated.host_allocations == 0
    assert (blob.head, blob.device, view.device) == (head, device, device)
    if name == "diff of a view":
        return
    expected = array if "data" in name or name == "const" else VIEWS[name](_ConstLess(array))
    assert view.memory is blob.memory
    assert (view.shape, view.strides) == (expected.shape, expected.strides)
    assert view.head is blob.head
    np.testing.assert_array_equal(np.asarray(view), expected)
    blob[...] = 3
    blob.diff[...] = 4
    assert np.unique(np.asarray(view)).tolist() == [3]
    assert np.unique(np.asarray(view.diff)).tolist() == [4]
    if "const" not in name:
        view[...] = 5
        view.diff[...] = 6
        assert blob.asum_data() == 3 * 6 + 2 * view.size
        assert blob.asum_diff() == 4 * 6 + 2 * view.size
    blob.cpu_data()
    blob.gpu_data()
    assert view.head is blob.head is SYNCED


class _ConstLess(np.ndarray):
    """An ndarray whose `const` is itself, so that the same expressions work as for a Blob."""

    def __new__(cls, array):
        return array.view(cls)

    @property
    def const(self):
        return self


def test_the_gradient_of_a_view_is_the_part_of_the_blobs_gradient_even_if_the_view_asks_first():
    blob = blob_of(numbers(2, 3))
    blob[1].diff[...] = 2
    assert blob.diff.tolist() == [[0, 0, 0], [2, 2, 2]]
    blob[0].update()
    blob[1].update()
    assert blob.tolist() == [[0, 1, 2], [1, 2, 3]]


@pytest.mark.parametrize("of", ["const", "const.T", "const.data", "const.diff", "T.const", "data"])
def test_a_const_view_refuses_every_write(of):
    blob = blob_of(numbers(2, 2), "simulated")
    blob.diff[...] = 0
    view = blob if of != "data" else blob.const[0].reshape(2)
    for name in of.split("."):
        view = getattr(view, name)
    sides = [f"{side}_{which}" for side in ("cpu", "gpu") for which in ("data", "diff")]
    flat = np.zeros(view.shape, "f4")
    writes = [
        getattr(view, f"{kind}_{side}") for kind in ("mutable", "overwrite") for side in sides
    ]
    writes += [lambda side=side: getattr(view, f"set_{side}_data")(flat) for side in ("cpu", "gpu")]
    writes += [
        view.update,
        lambda: view.scale_data(2),
        lambda: view.scale_diff(2),
        lambda: view.copy_from(flat),
        lambda: view.copy_from(Blob(view.shape), copy_diff=True),
        lambda: view.resize(1),
        lambda: view.resize_like(blob),
        lambda: view.share_data(Blob(view.shape)),
        lambda: view.share_diff(Blob(view.shape)),
        lambda: view.load_proto(b""),
        lambda: view.__setitem__(Ellipsis, 1),
        lambda: view.__setitem__([0], 1),
        lambda: view.diff.__setitem__(0, 1),
        lambda: setattr(view, "data", view.data),
        lambda: setattr(view, "diff", view.diff),
    ]
    before = (blob.head, blob.diff_head, view.shape)
    for write in writes:
        with pytest.raises(ValueError, match="const view"):
            write()
    assert before == (blob.head, blob.diff_head, view.shape)
    assert not view.cpu_data().flags.writeable
    assert not view.gpu_data().flags.writeable
    assert not np.asarray(view).flags.writeable
    assert "const" in repr(view)


# --- shapes of views ---------------------------------------------------------------------------


@given(st.data(), shapes)
def test_reshape_is_numpys_and_a_view_whenever_numpy_makes_one(data, shape):
    array = numbers(*shape)
    order = data.draw(st.permutations(range(len(shape))))
    step = data.draw(st.sampled_from([1, -1]))
    dims = [d for dim in shape for d in ([dim // 2, 2] if dim == 4 else [dim])]
    dims = data.draw(st.permutations(dims))
    if array.size and dims and data.draw(st.booleans()):
        dims = [-1, *dims[1:]]
    key = (*[slice(None, None, step)] * len(shape), ...)
    blob = blob_of(array).transpose(order)[key]
    expected, result = array.transpose(order)[key].reshape(dims), blob.reshape(dims)
    assert result.tolist() == expected.tolist()
    assert (result.memory is blob.memory) == (np.shares_memory(expected, array) or not array.size)
    assert blob.reshape(*dims, copy=True).memory is not blob.memory


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_a_reshaped_copy_is_a_blob_of_its_own(device):
    blob = Blob((2, 3), device=device)
    blob[...] = np.arange(6).reshape(2, 3)
    copies = [blob.reshape(6, copy=True), blob.flatten(), blob.T.ravel(), blob.T.reshape(6)]
    for copied in copies:
        copied[0] = 9
        copied.resize(1)
        assert (copied.tolist(), copied.device) == ([9], blob.device)
    assert blob.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("device", [*DEVICES, OTHER])
def test_ravel_shares_memory_as_an_ndarrays_does(device):
    for key in (..., slice(1, None), slice(None, None, -1), np.s_[:, 1:], np.s_[:, 0], np.s_[::2]):
        array = np.arange(12).reshape(4, 3)
        blob = syncblob.asarray(array, device=device, copy=True)
        for flat in (array[key].ravel(), blob[key].ravel()):
            flat[0] = 99
        assert blob.tolist() == array.tolist()


def test_reshape_with_copy_false_never_copies():
    blob = Blob((2, 3))
    assert blob.reshape(6, copy=False).memory is blob.memory
    with pytest.raises(ValueError, match="copy=False"):
        blob.T.reshape(6, copy=False)


@pytest.mark.parametrize("shape", [5, (2, 2), (-1, 4), (), (0, -1), (6.0,)])
def test_reshape_to_another_count_names_resize(shape):
    with pytest.raises((ValueError, TypeError)) as caught:
        Blob((2, 3)).reshape(shape)
    assert shape == (6.0,) or "resize" in str(caught.value)


def test_mt_exchanges_the_last_two_axes_and_needs_them():
    array = numbers(2, 3, 4)
    np.testing.assert_array_equal(np.asarray(blob_of(array).mT), array.mT)
    with pytest.raises(ValueError, match="two axes"):
        _ = Blob(3).mT


def test_iteration_gives_views_of_the_first_axis():
    blob = blob_of(numbers(3, 2))
    for row in blob:
        row[...] = 1
    assert (blob.tolist(), len(blob)) == ([[1, 1]] * 3, 3)
    for number, row in enumerate(reversed(blob)):
        row[...] = number
    assert blob.tolist() == [[2, 2], [1, 1], [0, 0]]
    with pytest.raises(TypeError, match="0-d Blob"):
        iter(Blob(()))


# --- data and diff as the targets of an assignment -----------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("view", [lambda b: b, lambda b: b[:, ::2], lambda b: b.T[1]])
def test_in_place_operators_on_data_and_diff_write_once(device, view):
    blob = blob_of(numbers(2, 3), device)
    part, expected = view(blob), numbers(2, 3)
    part.data *= 3
    view(expected)[...] *= 3
    part.data += np.float32(1)
    view(expected)[...] += 1
    part.diff += 5
    part.diff -= part.data
    assert blob.tolist() == expected.tolist()
    assert part.diff.tolist() == (5 - view(expected)).tolist()


@pytest.mark.parametrize("name", ["data", "diff"])
@pytest.mark.parametrize(
    "value",
    [
        lambda _: np.ones((2, 3), "f4"),
        lambda _: 0,
        lambda _: Blob((2, 3)),
        lambda blob: blob.T,
        lambda blob: blob[:1],
        lambda blob: blob.reshape(3, 2).diff,
        lambda blob: blob.copy().diff,
    ],
)
def test_data_and_diff_cannot_be_replaced(name, value):
    blob = blob_of(numbers(2, 3))
    given, memory = value(blob), blob.memory
    with pytest.raises(AttributeError, match=rf"blob\.{name}\[\.\.\.\] = values"):
        setattr(blob, name, given)
    assert blob.memory is memory
    assert (blob.tolist(), blob.asum_diff()) == (numbers(2, 3).tolist(), 0)


class One:
    """An object that Python accepts as an integer."""

    def __index__(self):
        return 1


@pytest.mark.parametrize("key", [One(), (One(), slice(2)), (slice(1), One())])
def test_whatever_python_takes_for_an_integer_gives_a_view(key):
    expected = np.arange(6).reshape(2, 3)
    blob = Blob.asarray(expected, copy=True)
    expected[key] = 9
    selected = blob[key]
    selected[...] = 9
    assert blob.tolist() == expected.tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["i4", "u1", "c8"])
def test_a_view_of_another_dtype_shares_the_bytes(device, dtype):
    array = numbers(3, 4)
    blob = blob_of(array, device)
    with syncblob.no_transfers():
        view = blob.view(dtype)
        part = blob[1:, 2:].view(dtype)
    assert (view.base, part.base, blob.base) == (blob, blob, None)
    assert (view.memory, view.head) == (blob.memory, blob.head)
    for mine, theirs in ((view, array.view(dtype)), (part, array[1:, 2:].view(dtype))):
        assert (mine.dtype, mine.strides) == (theirs.dtype, theirs.strides)
        assert mine.tolist() == theirs.tolist()
    part[...] = 1
    array[1:, 2:].view(dtype)[...] = 1
    assert blob.tolist() == array.tolist()
    part.diff[...] = 1
    assert blob.diff[1:, 2:].tolist() == array[1:, 2:].tolist()
    assert blob.diff[0].tolist() == [0, 0, 0, 0]
    assert not blob.const.view(dtype).flags.writeable
    assert (blob.view().dtype, blob.view() is blob) == (blob.dtype, False)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda b: b.T.view("i2"), ValueError, "contiguous"),
        (lambda b: b[:, :3].view("f8"), ValueError, "divisor"),
        (lambda b: b.view("u1")[:, 1:9].view("f4"), ValueError, "multiples of 4"),
        (lambda b: b[0, 0].view("i2"), ValueError, "0d"),
        (lambda b: b.view(object), TypeError, "references"),
        (lambda b: b.view(-1), TypeError, "dtype"),
    ],
)
def test_views_of_other_dtypes_that_cannot_be(make, error, message):
    with pytest.raises(error, match=message):
        make(blob_of(numbers(3, 4)))


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_an_item_that_was_written_in_place_is_not_assigned_again(device):
    blob = Blob((3, 2), device=device)
    blob.mutable_cpu_data()[...] = 1
    blob.on("cpu" if device == "simulated" else "simulated").prefetch()
    alias = np.asarray(blob.cpu if device == "simulated" else blob.gpu)
    with pytest.warns(syncblob.StaleAliasWarning) as caught:
        blob[0] += 1
    assert len(caught) == 1
    assert blob.tolist() == [[2, 2], [1, 1], [1, 1]]
    del alias


@pytest.mark.parametrize("device", ["cpu", "simulated"])
@pytest.mark.parametrize(
    "dtype", ["V4", ">f4", "S4", "M8[s]", np.dtype([("a", "i2"), ("b", "i2")]), np.ndarray]
)
def test_a_view_of_a_dtype_that_no_blob_has_is_a_read_only_array(device, dtype):
    array = numbers(3, 4)
    blob = syncblob.asarray(array, device=device, copy=True)
    view, expected = blob.view(dtype), array.view(dtype)
    assert (type(view), view.dtype, view.shape) == (np.ndarray, expected.dtype, expected.shape)
    assert view.tobytes() == expected.tobytes()
    assert not view.flags.writeable
    assert np.shares_memory(view, blob.cpu_data())
