"""Cached plans of calls. Each later call differs from the first one in some respect."""

import numpy as np
import pytest
from call_texts import functions
from devices import OTHER, SYCL
from in_threads import in_threads
from numpy.lib.recfunctions import unstructured_to_structured

import syncblob
from syncblob import Blob, DeviceGuardError, Head
from syncblob._blob import Blob as BaseBlob
from syncblob.calls import engine, numpy_protocols
from syncblob.calls.index_checks import check_indices
from syncblob.devices import accelerator

A = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
B = A[::-1] * 2
DEVICES = ["cpu", "simulated:0"]


class Sub(BaseBlob):
    """A user's class."""

    __slots__ = ()


@pytest.fixture(params=["fresh", "settled"])
def make(request):
    """Make Blobs of arrays, either results of computations or Blobs with a memory."""

    def made(array, device="cpu"):
        blob = Blob(array.shape, array.dtype, device=device)
        blob[...] = array
        return blob if request.param == "settled" else blob.copy() * array.dtype.type(1)

    return made


def same(result, expected):
    assert isinstance(result, Blob)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    assert result.tobytes() == expected.tobytes()


# --- other arguments of the same function ---------------------------------------------------------

# Each row calls one function in several ways. Their plans must not be mixed up.
WAYS = [
    [*functions(calls, "a, b", globals()).values()]
    for calls in """
    np.sum(a); np.sum(a, 0); np.sum(a, axis=(0, 1)); np.sum(a, axis=1, keepdims=True);
    np.sum(a, axis=None, dtype=None, out=None, keepdims=False); np.sum(a, where=b > 0);
    np.sum(a, axis=0, where=b > 0, initial=3.0); np.sum(a=a, dtype=np.float64);
    np.sum(a, dtype=np.dtype('f8')); np.sum(a, dtype='f8')

    np.where(a > b, a, b); np.where(a > b, a, 0); np.where(a > b, 1, b);
    np.where([True, False, True, False], a, b); np.where(b > 0, np.float64(2), a)

    np.take(a, 1); np.take(a, [0, 2], axis=0); np.take(a, ((0, 2), (1, 1)));
    np.take(a, np.int64(1), 1); np.take(a, np.argsort(b, axis=None));
    np.take(a, indices=np.argmax(b), mode='clip'); np.take(a=a, indices=np.argmax(b))

    np.repeat(a, 2); np.repeat(a, repeats=2, axis=1); np.repeat(a, [1, 0, 2], 0);
    np.repeat(a, np.argmax(b, axis=1), axis=0)

    np.concatenate((a, b)); np.concatenate([a, b], axis=1); np.concatenate(a);
    np.concatenate((a, [[1.0, 2.0, 3.0, 4.0]])); np.concatenate([a, b, a], axis=None);
    np.concatenate((a, b), dtype='f8', casting='same_kind'); np.block([[a, b], [b, a]])

    np.clip(a, 0, 3); np.clip(a, 0, 3, None); np.clip(a, 0, 3, a.copy()); np.clip(a, None, 3);
    np.clip(a, min=0); np.clip(a, b, None); np.clip(a, b, 4)

    np.diag(a); np.diag(a, 1); np.diag(a[0]); np.diag(v=a, k=-1)
    """.split("\n\n")
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ways", WAYS)
def test_ways_to_call_a_function_are_told_apart(ways, device, make):
    for _ in range(2):
        for way in ways + ways[::-1]:
            same(way(make(A, device), make(B, device)), np.asarray(way(A, B)))


def test_what_no_blob_holds_is_given_as_numpy_gives_it(make):
    for function in (np.sum, np.cumsum, np.mean):
        assert isinstance(function(make(A)), Blob)
        result = function(make(A), dtype=np.longdouble)
        assert type(result) is type(function(A, dtype=np.longdouble))
        assert isinstance(function(make(A)), Blob)


def test_a_blob_in_a_list_that_numpy_refuses_is_not_read():
    blob = Blob((3, 4))
    with pytest.raises(TypeError):
        np.result_type(blob, [blob])
    assert blob.head is Head.UNINITIALIZED


@pytest.mark.parametrize("device", DEVICES)
def test_a_view_that_no_blob_holds_is_read_only(device, make):
    pairs = np.dtype("f4,f4")
    blob = make(A[:, :2].copy(), device)
    view = unstructured_to_structured(blob, pairs)
    assert view.tolist() == unstructured_to_structured(A[:, :2], pairs).tolist()
    assert not view.flags.writeable
    assert unstructured_to_structured(blob, pairs, copy=True).flags.writeable


def test_classes_have_plans_of_their_own():
    sub = Sub((3, 4))
    sub[...] = A
    blob = syncblob.asarray(A.copy())
    for _ in range(2):
        for function in (np.sum, np.sort, np.transpose):
            assert [type(function(x)) for x in (blob, sub)] == [Blob, Sub]
        for function in (lambda *both: np.concatenate(both), syncblob.add, lambda a, b: a @ b.T):
            assert [type(function(blob, x)) for x in (blob, sub)] == [Blob, Sub]
            assert type(function(sub, blob)) is Sub
        assert type(np.array(blob, like=sub)) is Sub


def test_strangers_are_asked_after_a_call_without_one(make):
    masked = np.ma.masked_less(A, 0)
    for function in (lambda a, b: np.concatenate((a, b)), lambda a, b: a.sum(where=b > 0)):
        function(make(A), make(A))
        with pytest.raises(TypeError):
            function(make(A), masked)


# --- Blobs that have changed ----------------------------------------------------------------------


def test_a_blob_that_has_moved_is_read_where_it_runs(make):
    blob = make(A, "simulated:0")
    assert np.sum(blob).device == blob.device
    # Now the newest contents are on the host.
    blob.mutable_cpu_data()[...] = B
    with syncblob.record_transfers() as log:
        result = np.cumsum(blob, axis=0)
    assert log.uploads == 1
    assert result.head is Head.HEAD_AT_GPU
    same(result, np.cumsum(B, axis=0))
    same(np.cumsum(blob.on("cpu"), axis=0), np.cumsum(B, axis=0))


# --- views ----------------------------------------------------------------------------------------


def test_views_of_two_blobs_over_one_array_are_of_the_right_one(make):
    blob, array = make(A), A.copy()
    for first, second in ((blob[:2], blob[1:]), map(syncblob.asarray, (array[:1], array[1:]))):
        results = np.atleast_3d(first, second)
        assert [x.memory is y.memory for x, y in zip(results, (first, second), strict=True)] == [
            True,
            True,
        ]
        results[1][...] = 70
        assert second.tolist() == [[70] * 4] * 2
    assert blob[:2].tolist()[1] == [70] * 4
    assert first.tolist() == A[:1].tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", [np.ix_, np.atleast_2d, syncblob.broadcast_arrays])
def test_a_view_of_a_const_blob_is_const_beside_the_blob_itself(device, function, make):
    blob = make(A[0], device)
    const = blob.const
    for operands in ((blob, const), (const, blob), (blob, const, make(A[0]))):
        for _ in range(2):
            for x, operand in zip(function(*operands), operands, strict=True):
                assert x.memory is operand.memory
                assert operand is not const or not x.flags.writeable


# --- guards ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("join", [np.concatenate, np.stack, lambda x: np.where(x[0], *x)])
def test_blobs_of_several_homes_are_copied_only_to_where_they_are_joined(join):
    """A Blob of the host, newest on the accelerator, stays there for a call that runs there."""
    ours, other = Blob((4,)), Blob((4,), device="simulated")
    with syncblob.use_device("simulated"):
        ours.mutable_gpu_data()[...] = 1
    other.mutable_gpu_data()[...] = 2
    with syncblob.record_transfers() as log:
        join([ours, other])
    assert not [*log]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "join",
    [
        lambda x: np.concatenate([x, np.ones(4, np.longdouble)]),
        lambda x: np.concatenate([x, np.array([None])]),
        lambda x: np.block([[x, np.array(["text"])]]),
        lambda x: np.stack([x, [np.longdouble(1)] * 4]),
    ],
)
def test_a_blob_beside_a_dtype_of_the_host_is_copied_only_to_there(join, device):
    """Such a call runs on the host, whatever the device of the Blob in the list before."""
    blob = Blob((4,), device=device)
    with syncblob.use_device("simulated"):
        blob.mutable_gpu_data()[...] = 1
    blob.mutable_cpu_data()[...] = 2
    with syncblob.record_transfers() as log, syncblob.no_transfers():
        result = join(blob)
    assert isinstance(result, np.ndarray)
    assert not [*log]
    assert blob.head is Head.HEAD_AT_CPU


def test_an_alias_causes_one_copy_for_a_list_with_an_array():
    """What an alias may write is copied by each access, and such a call makes only one."""
    blob = Blob((4,), device="simulated")
    alias = np.asarray(blob.cpu)
    alias[...] = 1
    with syncblob.record_transfers() as log:
        np.concatenate([blob, np.ones(2, np.float32)])
    assert [each.nbytes for each in log] == [16, 8]


def test_a_forbidden_call_copies_nothing():
    """The guard refuses before the operands are brought to where the call would run."""
    ours = Blob((4,))
    with syncblob.use_device("simulated"):
        ours.mutable_gpu_data()[...] = 1
    for call in (lambda: np.sum(ours), lambda: np.stack([ours, ours])):
        with (
            syncblob.record_transfers() as log,
            syncblob.compute_only_on("simulated"),
            pytest.raises(DeviceGuardError),
        ):
            call()
        assert not [*log]


# --- cached plans ---------------------------------------------------------------------------------


def test_a_call_again_makes_no_plan(make, monkeypatch):
    calls = (lambda: np.sum(make(A), axis=0), lambda: np.stack([make(A), make(B)]))
    for call in calls:
        call()
    monkeypatch.setattr(engine, "Plan", None)
    for call in calls:
        call()


def test_threads_may_plan_at_once(make):
    a, b = make(A), make(B)

    def work():
        for _ in range(200):
            numpy_protocols.FUNCTIONS.clear()
            assert float(np.sum(a)) == A.sum()
            assert np.concatenate((a, b)).tolist() == np.concatenate((A, B)).tolist()
            assert np.split(a, 3)[1].tolist() == A[1:2].tolist()

    in_threads(*[work] * 4)


# --- indices, on each device ----------------------------------------------------------------------

# `v` has 5 elements, `m` the shape (2, 5), and `i` makes an array of indices.
SELECTIONS = """
    np.take(v, i(7)); np.take(v, i([7, -9])); np.take(v, i([4, -5])); v.take(i([5]))
    np.take(v, i([7, -9]), mode='raise'); np.take(v, i([7, -9]), None, None, 'wrap')
    np.take(v, i([7, -9]), mode='clip'); np.take(m, i([2, -1]), 0); np.take(m, i([2, -1]), axis=1)
    np.take(m, i([2, -3]), axis=0, mode='wrap'); np.take(v, i([200], 'u1'), mode='wrap')
    np.take(v[:0], i([0]), mode='clip'); np.take(v, i([0]), mode='other'); np.take(v, [5], 0)
    np.put(v, i([7, -9]), 8); v.put(i([7]), 8); v.put(i([-5, 4]), [8, 9]); np.put(v, [5], 8)
    np.put(v, i([7, -9]), i([8, 9]), 'wrap'); v.put(i([7, -9]), i([8, 9]), mode='clip')
    np.take_along_axis(v, i([7]), 0); np.take_along_axis(m, i([[5]]), 1)
    np.take_along_axis(m, i([[-3]]), 0); np.take_along_axis(m, i([[1]]), 0)
    xp.take(m, i([2]), axis=0); xp.take(m, i([-2]), axis=0); xp.take_along_axis(m, i([[5]]), axis=1)
    np.put_along_axis(v, i([5]), 8, 0); np.put_along_axis(m, i([[4], [-5]]), 8, 1)
    np.choose(i([0, 2]), [v[:2], v[2:4]]); np.choose(i([-1, 0]), [v[:2], v[2:4]])
    np.choose(i([-1, 3]), [v[:2], v[2:4]], mode='wrap'); np.extract(i([0, 1, 0, 1, 0, 0]), v)
    np.extract(i([0, 1, 0, 1, 0, 1]), v); np.compress(i([0, 1]), m, axis=1)
""".replace("\n", ";").split(";")


@pytest.mark.parametrize(
    ("function", "arguments", "error"),
    [
        (np.choose, ([0, 2], [A, A]), ValueError),
        (np.choose, ([-1, 0], [A, A]), ValueError),
        (np.compress, ([0, 0, 0, 1], A, 0), IndexError),
        (np.extract, ([0] * 12 + [1], A), IndexError),
    ],
)
def test_indices_are_checked_for_a_library_that_checks_none(function, arguments, error):
    first, *rest = arguments
    blob = syncblob.asarray(first, device=OTHER)
    blob.mutable_gpu_data()
    with pytest.raises(error, match=r"out of bounds|longer than"):
        check_indices(function, accelerator(OTHER), dict(enumerate((blob, *rest))))


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("call", [call.strip() for call in SELECTIONS if call.strip()])
@pytest.mark.parametrize("device", [*DEVICES, OTHER, SYCL])
def test_indices_out_of_bounds_are_numpys(device, call, there):
    run = eval  # the rows are above

    def on_device(values, dtype=None, *, there=True):
        blob = syncblob.asarray(np.array(values, dtype), device=device)
        if there and device != "cpu":
            blob.mutable_gpu_data()
        return blob

    v, m = np.arange(5), np.arange(10).reshape(2, 5)
    names = {"np": np, "xp": np, "v": v, "m": m, "i": np.array}
    ours = {"np": np, "xp": syncblob, "v": on_device(v), "m": on_device(m)}
    ours["i"] = lambda values, dtype=None: on_device(values, dtype, there=there)
    try:
        expected = run(call, names)
    except (IndexError, ValueError) as error:
        with pytest.raises(IndexError if isinstance(error, IndexError) else ValueError):
            run(call, ours)
    else:
        result = run(call, ours)
        if expected is not None:
            same(result, np.asarray(expected))
    assert (ours["v"].tolist(), ours["m"].tolist()) == (v.tolist(), m.tolist())
