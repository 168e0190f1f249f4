"""Axes, counts and resize: Caffe's shape arithmetic without its traps."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import syncblob
from syncblob import Blob, Head, SyncedMemory
from syncblob.blob import replace_memory
from syncblob.blob.core import BlobCore
from syncblob.devices import Side

# The sides with the newest contents when a Blob grows again. The result must be the same for all.
SIDES = ["host", "accelerator", "both"]


def write(blob, values, side="host"):
    """Write all elements on a side. Leave the newest contents there or on both sides."""
    if side == "host":
        blob.overwrite_cpu_data()[...] = values
    else:
        array = blob.overwrite_gpu_data()
        if hasattr(array, "set"):
            # CuPy assigns no lists.
            array.set(np.broadcast_to(np.asarray(values, array.dtype), array.shape).copy())
        else:
            array[...] = values
    if side == "both":
        blob.cpu_data()


def state(blob):
    """Return all state that a failed call must not change."""
    memories = (blob.memory, blob.existing_diff())
    heads = (blob.head, blob.diff_head)
    used = [None if memory is None else memory.nbytes for memory in memories]
    return (*map(id, memories), heads, used, blob.shape, blob.strides, blob.device)


# --- queries -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "num_axes", "count", "string", "legacy"),
    [
        ((2, 3, 4, 5), 4, 120, "2 3 4 5 (120)", (2, 3, 4, 5)),
        ((3, 2), 2, 6, "3 2 (6)", (3, 2, 1, 1)),
        ((7,), 1, 7, "7 (7)", (7, 1, 1, 1)),
        ((), 0, 1, "(1)", (1, 1, 1, 1)),
        ((0, 5), 2, 0, "0 5 (0)", (0, 5, 1, 1)),
    ],
)
def test_what_caffe_says_of_a_shape(shape, num_axes, count, string, legacy):
    blob = Blob(shape)
    assert blob.shape == shape
    assert blob.num_axes == blob.ndim == num_axes
    assert blob.count() == blob.size == count
    assert blob.shape_string == string
    assert (blob.num, blob.channels, blob.height, blob.width) == legacy


def test_legacy_shape_pads_behind_for_axes_from_the_front_and_before_for_axes_from_the_back():
    blob = Blob((3, 2))
    assert [blob.legacy_shape(index) for index in range(4)] == [3, 2, 1, 1]
    assert [blob.legacy_shape(index) for index in range(-4, 0)] == [1, 1, 3, 2]
    for index in (4, -5):
        with pytest.raises(IndexError, match="from -4 to 3"):
            blob.legacy_shape(index)
    with pytest.raises(ValueError, match=r"4 axes.* 5.*shape"):
        _ = Blob((1, 2, 3, 4, 5)).num


def test_canonical_axis_index():
    blob = Blob((2, 3, 4, 5))
    assert [blob.canonical_axis_index(axis) for axis in range(-4, 4)] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert type(blob.canonical_axis_index(np.int8(-1))) is int
    for axis in (-5, 4):
        with pytest.raises(IndexError, match=rf"axis {axis} .* \(2, 3, 4, 5\)"):
            blob.canonical_axis_index(axis)
    with pytest.raises(IndexError, match="axis 0"):
        Blob(()).canonical_axis_index(0)


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ((), 0),
        ((1, 2), 100),
        ((1, 2, 3, 4), 119),
        ((0, 0, 0, 1), 1),
        (((1, 2),), 100),
        (([1, 2, 0, 1],), 101),
        ((np.array([1, 2]),), 100),
        ((np.int64(1), 2), 100),
        (((),), 0),
    ],
)
def test_offset_is_the_place_in_c_order(indices, expected):
    assert Blob((2, 3, 4, 5)).offset(*indices) == expected


@pytest.mark.parametrize("indices", [(2,), (1, 3, 4, 5), (0, -1), (-1,), (0, 0, 0, 0, 0)])
def test_offset_is_strict_where_caffe_lets_pass(indices):
    with pytest.raises(IndexError, match=r"\(2, 3, 4, 5\)"):
        Blob((2, 3, 4, 5)).offset(*indices)


@pytest.mark.parametrize(("shape", "equal"), [((2, 3), 1), ((3, 2), 0), ((1, 1, 2, 3), 0)])
def test_shape_equals_compares_blobs_axis_by_axis(shape, equal):
    assert Blob((2, 3)).shape_equals(Blob(shape, "int8")) == equal


def test_counts_beyond_int_max_are_exact():
    blob = Blob((2**31, 2**20), "int8")
    assert blob.count() == blob.nbytes == 2**51
    assert blob.offset(2**31 - 1, 5) == 2**51 - 2**20 + 5


# --- resize ------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", SIDES)
def test_shrinking_keeps_contents_buffers_and_heads(accelerator, side):
    blob = Blob((2, 3), device=accelerator)
    write(blob, [[1, 2, 3], [4, 5, 6]] if side == "host" else 7, side)
    blob.mutable_cpu_diff()[...] = 5
    head, memory, buffer = blob.head, blob.memory, blob.memory.buffer(Side.HOST)
    blob.resize(2, 2)
    assert (blob.memory, blob.head) == (memory, head)
    assert memory.buffer(Side.HOST) is buffer
    assert (blob.shape, blob.strides, memory.nbytes) == ((2, 2), (8, 4), 24)
    assert blob.tolist() == ([[1, 2], [3, 4]] if side == "host" else [[7, 7], [7, 7]])
    assert blob.cpu_diff().tolist() == [[5, 5], [5, 5]]


@pytest.mark.parametrize("side", SIDES)
def test_what_a_regrow_brings_back_has_kept_its_values(accelerator, side):
    blob = Blob(8, device=accelerator)
    write(blob, 9, side)
    write(blob.diff, 5, side)
    blob.resize(3)
    head = blob.head
    blob.resize(2, 3)
    assert blob.diff.tolist() == [[5, 5, 5], [5, 5, 5]]
    assert blob.head is head
    blob.resize(3)
    blob.mutable_cpu_data()[...] = 1
    blob.mutable_gpu_data()
    blob.resize(2, 3)
    assert blob.tolist() == [[1, 1, 1], [9, 9, 9]]


def test_an_untouched_blob_shrinks_and_regrows_without_memory(simulated):
    blob = Blob(8, device="simulated")
    blob.resize(2)
    blob.resize(8)
    assert blob.head is Head.UNINITIALIZED
    assert (simulated.allocations, simulated.host_allocations) == (0, 0)
    assert blob.gpu_data().tolist() == [0] * 8


def test_a_diff_that_a_resize_gives_up_ends_its_borrows():
    blob, roomy = Blob(2), Blob(8)
    roomy.resize(2)
    borrow = blob.mutable_cpu_diff()
    blob.share_data(roomy)
    blob.resize(8)
    assert blob.diff.tolist() == [0] * 8
    assert not borrow.flags.writeable


def test_only_its_own_bytes_of_a_larger_diff_are_copied(accelerator):
    larger = Blob(8, device=accelerator)
    write(larger.diff, range(8))
    larger.resize(2)
    blob = Blob(2, device=accelerator)
    blob.share_diff(larger)
    with syncblob.record_transfers() as log:
        blob.gpu_diff()
    shared = syncblob.memory_kind(accelerator) == "shared"
    assert log.nbytes == (0 if shared else blob.nbytes)


def test_a_copy_into_the_diff_of_a_smaller_blob_leaves_that_alone(accelerator):
    blob, small, source = Blob(4, device=accelerator), Blob(1), Blob(3)
    write(blob, range(4))
    blob.resize(1)
    write(small.diff, [7])
    blob.share_diff(small)
    write(source.diff, [5, 6, 7])
    blob.copy_from(source, copy_diff=True, resize=True)
    assert (blob.tolist(), blob.diff.tolist()) == ([0, 1, 2], [5, 6, 7])
    assert small.diff.tolist() == [7]
    blob.resize(4)
    assert (blob.tolist(), blob.diff.tolist()) == ([0, 1, 2, 3], [5, 6, 7, 0])


@pytest.fixture
def amid(monkeypatch):
    """Give what runs a handler at the next call of a function, before it."""

    def arrange(owner, name, handler):
        real = getattr(owner, name)

        def function(*args, **keywords):
            monkeypatch.setattr(owner, name, real)
            handler()
            return real(*args, **keywords)

        monkeypatch.setattr(owner, name, function)

    return arrange


@pytest.mark.parametrize("name", ["shared_gradient", "successor"])
def test_a_diff_made_amid_the_first_use_of_diff_is_kept(amid, name):
    """By a signal handler or by another thread."""
    blob = Blob(2)
    write(blob, [1, 2])
    owner = BlobCore if name == "shared_gradient" else SyncedMemory
    amid(owner, name, lambda: write(blob.diff, [3, 4]))
    assert blob.diff.tolist() == [3, 4]


def test_data_and_diff_may_be_shared_amid_each_other(amid):
    blob, other = Blob(2), Blob(2)
    write(other, [1, 2])
    write(other.diff, [3, 4])
    amid(replace_memory, "leave", lambda: blob.share_diff(other))
    blob.share_data(other)
    assert (blob.tolist(), blob.diff.tolist()) == ([1, 2], [3, 4])
    blob = Blob(2)
    blob.mutable_cpu_diff()
    amid(replace_memory, "leave", lambda: blob.share_data(other))
    blob.share_diff(other)
    assert (blob.tolist(), blob.diff.tolist()) == ([1, 2], [3, 4])


@pytest.mark.parametrize("holder", ["a view", "a view of a view", "a sharer"])
def test_who_shared_the_memory_keeps_it_when_a_blob_outgrows_it(holder):
    blob = Blob(2)
    write(blob, [1, 2])
    other = Blob(2) if holder == "a sharer" else blob.data
    if holder == "a view of a view":
        other = other.reshape(1, 2)
    if holder == "a sharer":
        other.share_data(blob)
    borrow = blob.mutable_cpu_data()
    blob.resize(3)
    write(blob, 5)
    assert not borrow.flags.writeable
    np.ravel(other.mutable_cpu_data())[1] = 7
    assert np.ravel(other.tolist()).tolist() == [1, 7]


@pytest.mark.parametrize("leave", ["grow", "grow twice", "copy_from", "share_data"])
@pytest.mark.parametrize("side", ["host", "accelerator"])
def test_a_view_keeps_the_gradient_of_the_memory_that_its_blob_leaves(accelerator, side, leave):
    blob = Blob(4, device=accelerator)
    view = blob[1:]
    write(blob.diff, [1, 2, 3, 4], side)
    if leave == "copy_from":
        blob.copy_from(Blob(9, device=accelerator), resize=True)
    elif leave == "share_data":
        blob.share_data(Blob(4, device=accelerator))
    else:
        blob.resize(9)
    if leave == "grow twice":
        write(blob.diff, 5)
        blob.resize(20)
    later = blob[:2]
    assert view.diff.tolist() == [2, 3, 4]
    assert later.diff.tolist() == ([1, 2] if leave == "share_data" else [0, 0])
    view[1:].diff[...] = 7
    assert view.diff.tolist() == [2, 7, 7]
    assert view.copy().diff.tolist() == [2, 7, 7]


def test_views_of_blobs_that_leave_one_memory_keep_their_own_gradients():
    blob, other = Blob(2), Blob(2)
    other.share_data(blob)
    views = blob[:1], other[:1]
    blob.diff[...] = 1
    other.diff[...] = 2
    blob.resize(5)
    other.resize(5)
    assert [view.diff.tolist() for view in views] == [[1], [2]]


def test_a_gradient_is_freed_with_the_memory_that_a_blob_left():
    blob = Blob(2)
    view = blob[:1]
    gradient = weakref.ref(blob.diff.memory)
    blob.resize(5)
    gc.collect()
    assert gradient() is view.diff.memory
    del view
    gc.collect()
    assert gradient() is None


@pytest.mark.parametrize("side", ["host", "accelerator"])
def test_a_view_keeps_its_whole_gradient_when_its_blob_shrinks(accelerator, side):
    blob = Blob(4, device=accelerator)
    write(blob.diff, 7, side)
    view = blob.data
    gc.collect()
    blob.resize(2)
    view.mutable_cpu_diff()
    view.gpu_diff()
    view.mutable_gpu_diff()
    assert view.cpu_diff().tolist() == [7, 7, 7, 7]


def test_a_blob_that_shares_smaller_memory_gets_its_own_when_it_outgrows_it():
    # Caffe overruns the buffer here, because its capacity belongs to the Blob.
    blob, small = Blob(10), Blob(2)
    blob.resize(2)
    blob.share_data(small)
    write(small, [1, 2])
    blob.resize(8)
    assert blob.tolist() == [0] * 8
    assert small.tolist() == [1, 2]
    assert blob.memory is not small.memory


@pytest.mark.parametrize(
    "shape",
    [(-1,), ((2, -1),), ((2**62, 4),), ((1,) * 65,), (2.5,), ("x",), ((100000,) * 4 + (0,),)],
)
def test_a_resize_to_an_impossible_shape_changes_nothing(accelerator, shape):
    blob = Blob((2, 3), device=accelerator)
    write(blob, 5, "both")
    blob.mutable_cpu_diff()[...] = 6
    before = state(blob)
    with pytest.raises((TypeError, ValueError)):
        blob.resize(*shape)
    assert state(blob) == before
    assert blob.tolist() == [[5] * 3] * 2


@pytest.mark.parametrize("view", ["data", "diff", "const", "T"])
def test_views_are_not_resized(view):
    blob = Blob((2, 2))
    with pytest.raises(ValueError, match="resize"):
        getattr(blob, view).resize(1)
    assert blob.shape == (2, 2)


def test_resize_to_no_axes_holds_one_element_and_to_zero_none():
    blob = Blob(3)
    write(blob, 4)
    blob.resize()
    assert (blob.shape, blob.item()) == ((), 4)
    blob.resize(0, 5)
    assert blob.tolist() == []
    blob.resize_like(Blob((2, 1)))
    assert blob.tolist() == [[4], [4]]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["resize", *SIDES]), st.integers(0, 9)), min_size=2, max_size=12
    )
)
def test_random_resizes_show_a_part_of_a_list_that_only_grows(program):
    blob = Blob(4, device="simulated")
    expected, count = [0] * 4, 4
    with syncblob.use_device("simulated"):
        for action, number in program:
            if action != "resize":
                write(blob, number, action)
                expected[:count] = [number] * count
                continue
            blob.resize(number)
            count = number
            expected = [0] * number if number > len(expected) else expected
    assert blob.memory.nbytes == 4 * len(expected)
    assert blob.tolist() == expected[:count]
