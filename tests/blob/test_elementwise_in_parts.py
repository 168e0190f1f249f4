"""Elementwise operations on Blobs that do not fit on their device together."""

import operator

import numpy as np
import pytest
from devices import LIMITED

import syncblob
from syncblob import Blob, record_transfers
from syncblob.calls import in_parts
from syncblob.calls.operators import plans_of_operator

COUNT = 64
NBYTES = 4 * COUNT
NUMBERS = np.arange(COUNT, dtype=np.int32)

pytestmark = pytest.mark.usefixtures("small", "exact_parts")


@pytest.fixture
def room(limited, monkeypatch):
    """Give a device with room for one Blob of `NBYTES`, and for a part of another."""
    monkeypatch.setattr(in_parts, "_LEAST", 1)
    limited.capacity = NBYTES + 32
    return limited


def blob_of(values, device=LIMITED):
    """Make a Blob whose contents are on the host."""
    blob = Blob(values.shape, str(values.dtype), device=device)
    blob.overwrite_cpu_data()[...] = values
    return blob


@pytest.mark.parametrize("held", ["nowhere", "first", "second"])
@pytest.mark.parametrize("other", [LIMITED, "cpu"])
def test_operands_need_not_fit_together(room, held, other):
    first, second = blob_of(NUMBERS), blob_of(NUMBERS[::-1].copy(), other)
    if held == "first":
        first += 1
    elif held == "second":
        second.on(LIMITED).gpu_data()
    with record_transfers() as log:
        result = first * second
    assert room.used_nbytes <= room.capacity
    expected = (NUMBERS + (held == "first")) * NUMBERS[::-1]
    assert (str(result.device), result.shape) == (LIMITED, (COUNT,))
    assert result.on("cpu").tolist() == expected.tolist()
    # Each operand up, and what there is no room for of the result, and the first, down.
    assert log.nbytes <= 5 * NBYTES
    assert first.on("cpu").tolist() == (NUMBERS + (held == "first")).tolist()


@pytest.mark.parametrize("whole", [False, True])
def test_the_operand_may_be_a_view_that_fills_the_device(room, whole):
    room.capacity = NBYTES
    blob = blob_of(NUMBERS if whole else np.arange(COUNT * 4 // 3, dtype=np.int32))
    view = blob[: COUNT * 3 // 4 if whole else COUNT]
    if whole:
        blob.gpu_data()
    assert (view * 2).on("cpu").tolist() == [2 * x for x in range(view.size)]


@pytest.mark.usefixtures("room")
def test_the_result_has_the_class_of_the_operand_that_is_of_a_subclass():
    class Named(Blob):
        def __init__(self, *, title):
            super().__init__(COUNT, "int32", device=LIMITED)
            self.title = title

    first, second = blob_of(NUMBERS), Named(title="second")
    second.overwrite_cpu_data()[...] = 2
    for result in (first + second, second + first, np.add(first, second)):
        assert type(result) is Named
        assert result.on("cpu").tolist() == (NUMBERS + 2).tolist()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize(
    "function",
    [
        np.negative,
        lambda x: x + 2.5,
        lambda x: 3 - x,
        lambda x: x > 7,
        lambda x: x + x,
        np.sqrt,
        syncblob.square,
    ],
    ids=["ufunc", "dtype", "number first", "comparison", "itself", "root", "array API"],
)
def test_a_blob_may_be_larger_than_the_device(room, function):
    values = np.arange(4 * COUNT, dtype=np.float32).reshape(4, COUNT)
    result = function(blob_of(values))
    expected = values**2 if function is syncblob.square else function(values)
    assert room.used_nbytes <= room.capacity
    assert result.base is None
    assert np.array_equal(np.asarray(result.on("cpu")), expected)


@pytest.mark.parametrize(
    "function",
    [lambda x: np.divmod(x, 3), lambda x: np.divmod(x, x + 1), np.modf, np.frexp],
    ids=["number", "two Blobs", "modf", "frexp"],
)
def test_a_function_of_several_results_is_computed_in_parts(room, function):
    values = np.arange(4 * COUNT, dtype=np.float32).reshape(4, COUNT) / 2
    results = function(blob_of(values))
    assert room.used_nbytes <= room.capacity
    for result, expected in zip(results, function(values), strict=True):
        assert (str(result.device), result.dtype) == (LIMITED, expected.dtype)
        assert np.array_equal(np.asarray(result.on("cpu")), expected)


def test_parts_that_are_on_the_device_are_not_brought_again(room):
    room.capacity = 3 * NBYTES // 4
    blob = blob_of(NUMBERS)
    blob[: COUNT // 2].gpu_data()
    with record_transfers() as log:
        result = blob > 1
    assert result.on("cpu").tolist() == (NUMBERS > 1).tolist()
    assert log.nbytes <= NBYTES // 2


@pytest.mark.parametrize("held", ["nowhere", "first", "second"])
@pytest.mark.parametrize("devices", [(LIMITED, LIMITED), (LIMITED, "cpu"), ("cpu", LIMITED)])
def test_a_blob_is_written_in_parts(room, held, devices):
    room.capacity = 2 * NBYTES - 1
    first, second = (
        blob_of(x, device)
        for x, device in zip((NUMBERS, NUMBERS[::-1].copy()), devices, strict=True)
    )
    if held != "nowhere":
        (first if held == "first" else second).on(LIMITED).gpu_data()
    same = first
    with record_transfers() as log:
        first *= second
    assert first is same
    assert room.used_nbytes <= room.capacity
    assert first.on("cpu").tolist() == (NUMBERS * NUMBERS[::-1]).tolist()
    assert second.on("cpu").tolist() == NUMBERS[::-1].tolist()
    # Both up; the first down again, and what was there.
    assert log.nbytes <= 4 * NBYTES


@pytest.mark.parametrize(
    "write",
    [
        lambda x: operator.iadd(x, 2.5),
        lambda x: operator.iadd(x, x),
        lambda x: operator.imul(x[1:], 3),
        lambda x: operator.iadd(x[:2], x[2:]),
    ],
    ids=["number", "itself", "view", "halves"],
)
def test_a_blob_larger_than_the_device_is_written(room, write):
    values = np.arange(4 * COUNT, dtype=np.float32).reshape(4, COUNT)
    blob = blob_of(values)
    write(blob)
    write(values)
    assert room.used_nbytes <= room.capacity
    assert np.array_equal(np.asarray(blob.on("cpu")), values)


def test_what_is_written_in_parts_needs_room_for_a_part_of_each_operand(room):
    first, second = blob_of(NUMBERS), blob_of(NUMBERS)
    # For a part of eight numbers of each.
    room.capacity = 64
    with record_transfers() as log:
        first += second
    assert log.uploaded_bytes == 2 * NBYTES
    assert first.on("cpu").tolist() == (2 * NUMBERS).tolist()


def test_without_room_for_small_parts_nothing_is_written(room):
    blob, room.capacity = blob_of(NUMBERS), 3
    with pytest.raises(MemoryError, match=r"shape \(1,\)"):
        blob += 1
    assert blob.tolist() == NUMBERS.tolist()


@pytest.mark.usefixtures("room")
def test_views_that_share_elements_are_not_written_in_parts():
    values = np.arange(4 * COUNT, dtype=np.float32).reshape(4, COUNT)
    blob = blob_of(values)
    with pytest.raises(MemoryError, match="in use"):
        operator.iadd(blob[1:], blob[:-1])
    assert blob.tolist() == values.tolist()


@pytest.mark.parametrize(
    "function",
    [lambda x, y: x @ y, lambda x, _: np.sin(x.T), lambda x, y: x + y[0], lambda x, _: x.sum()],
    ids=["matrix product", "strided", "broadcast", "sum"],
)
@pytest.mark.usefixtures("room")
def test_other_operations_need_all_their_operands(function):
    values = np.ones((16, 16), np.float32)
    first, second = blob_of(values), blob_of(values)
    with pytest.raises(MemoryError, match="in use"):
        function(first, second)
    assert first.tolist() == second.tolist() == values.tolist()


def test_an_alias_of_an_operand_leaves_too_little_room(room):
    first, second = blob_of(NUMBERS), blob_of(NUMBERS)
    room.capacity = NBYTES + 3
    alias = np.asarray(first.gpu)
    with pytest.raises(MemoryError, match="a NumPy alias"):
        first + second
    alias[...] = 5
    del alias
    assert (first + second).on("cpu").tolist() == (5 + NUMBERS).tolist()


def test_what_has_been_written_is_not_written_again(room):
    first, second = blob_of(NUMBERS), blob_of(NUMBERS, "cpu")
    room.capacity = 4 * NBYTES

    def add_and_fail(x1, x2, out=None):
        result = np.add(x1, x2, out)
        if out is not None:
            raise MemoryError
        return result

    with pytest.raises(MemoryError):
        plans_of_operator("add", add_and_fail, in_place=True)[Blob](first, second)
    assert first.tolist() == (2 * NUMBERS).tolist()
