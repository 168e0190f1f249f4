"""Functions that write: heads, transfers, errors, failures."""

import contextlib
import inspect
import itertools
import operator
import re

import numpy as np
import pytest
from call_texts import functions
from made_blobs import CPU, GPU, PAIR, SPLIT, SYNCED, blob_in, on, values

import syncblob
from syncblob import Blob, DeviceGuardError, TransferGuardError
from syncblob.calls import tables

DEVICES = ["cpu", "simulated:0"]


# Ufuncs, functions and a method, with an `out` by name and by position.
OUT = functions(
    """
    np.add(x, x, out=out); np.add(x, x, out); np.negative(x, out=(out,)); np.round(x, 1, out);
    np.concatenate([x[:1], x[1:]], out=out); np.concatenate([x[:1], x[1:]], 0, out);
    np.clip(x, 1, 3, out=out); x.clip(1, 3, out=out)
    """,
    "x, out",
    globals(),
)


@pytest.mark.parametrize("call", OUT.values(), ids=OUT)
@pytest.mark.parametrize("head", PAIR)
def test_a_whole_out_is_overwritten_without_a_transfer(simulated, call, head):
    out = blob_in(head)
    x = on("simulated:0", values())
    simulated.reset_counts()
    assert call(x, out) is out
    assert (out.head, simulated.uploads, simulated.downloads) == (GPU, 0, 0)
    assert out.tolist() == call(values(), np.empty((2, 3), "f4")).tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: np.cumsum(x, axis=0, out=out),
        lambda x, out: np.nancumsum(x, axis=0, out=out),
        lambda x, out: np.add.accumulate(x, out=out),
        lambda x, out: np.add.reduceat(x, [0, 1, 2], out=out),
        lambda x, out: np.median(x[None], keepdims=True, out=out),
        lambda x, out: np.dot(x * 1.0, x * 1.0, out[0, 0, ...]),
        lambda x, out: np.dot(x * 1.0, on("cpu", np.ones(3)), out[0, 0, ...]),
    ],
)
@pytest.mark.usefixtures("simulated")
def test_the_rest_of_a_larger_out_is_kept(call):
    out, expected = Blob((3, 3), "float64", device="simulated"), np.full((3, 3), 9.0)
    out.mutable_cpu_data()[...] = 9
    numbers = np.arange(3, dtype=np.int32)
    try:
        call(numbers, expected)
    except ValueError:
        # NumPy takes no larger one since 2.5, apart from reduceat.
        with pytest.raises(ValueError, match="wrong size"):
            call(on("simulated:0", numbers), out)
    else:
        call(on("simulated:0", numbers), out)
    assert out.tolist() == expected.tolist()


# Calls with a mask and an `out` of the shape of their result, which keeps elements, or, of a
# reduction, keeps none.
MASKED = functions(
    """
    np.add(x, 1, out=out, where=mask); np.clip(x, 1, 2, out=out, where=mask);
    np.fmin(x, 1, out=out, where=mask);
    np.add.outer(x[:, 0], x[0], out=out, where=mask);
    np.add.reduce(x, 0, where=mask, out=out); np.sum(x, 0, where=mask, out=out);
    np.mean(x, axis=0, out=out, where=mask); np.max(x, 0, out, initial=-1, where=mask);
    np.nansum(x, 0, out=out, where=mask); x.std(0, None, out, where=mask)
    """,
    "x, mask, out",
    globals(),
)


@pytest.mark.parametrize("head", PAIR)
@pytest.mark.parametrize("call", MASKED.values(), ids=MASKED)
def test_an_out_with_a_mask_is_brought_up_to_date_but_not_that_of_a_reduction(
    simulated, call, head
):
    x, mask = values() + 10, np.array([[True, True, False], [True, False, True]])
    shape = call(x, mask, None).shape
    out, expected = blob_in(head, shape=shape), values(shape=shape) * bool(head)
    call(x, mask, expected)
    blob, blob_mask = on("simulated:0", x), on("simulated:0", mask)
    simulated.reset_counts()
    assert call(blob, blob_mask, out) is out
    assert out.head is GPU
    brought = {CPU: 24, SPLIT: 4} if len(shape) > 1 else {}
    assert simulated.uploaded_bytes == brought.get(head, 0)
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_an_array_as_out_is_written_and_returned(device):
    blob = on(device, values())
    for call in OUT.values():
        out = np.full((2, 3), 7, "f4")
        assert call(blob, out) is out
        assert out.tolist() == call(values(), np.empty((2, 3), "f4")).tolist()
    np.copyto(out, blob + 1)
    np.putmask(out, blob > 2, 9)
    assert out.tolist() == [[1, 2, 3], [9, 9, 9]]
    out = np.full((2, 3), 7, "f4")
    assert np.add(blob, 1, out=out, where=values() > 2) is out
    assert out.tolist() == [[7, 7, 7], [4, 5, 6]]
    frozen = np.zeros((2, 3), "f4")
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        np.add(blob, 1, out=frozen)


FAILING = functions(
    """
    np.add(x, np.ones(5), out=out); np.add(x, 1j, out=out); np.cumsum(x, axis=4, out=out);
    np.log(x - 9, out=out)
    """,
    "x, out",
    globals(),
)


@pytest.mark.parametrize("call", FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("head", [CPU, SYNCED])
def test_a_function_that_fails_loses_nothing(call, head):
    out = blob_in(head)
    x = on("simulated:0", values())
    with np.errstate(all="raise"), pytest.raises((ValueError, TypeError, FloatingPointError)):
        call(x, out)
    # What is up to date is written in part, until NumPy raises.
    if "log" not in call.__code__.co_names or head is CPU:
        assert out.tolist() == values().tolist()


HOST_ONLY = functions(
    """
    np.putmask(texts, mask, ['z']); np.place(texts, mask, ['z']); np.put(texts, mask, ['z']);
    np.copyto(texts, 'z', where=mask); np.copyto(texts, mask, casting='unsafe');
    np.compress(mask, texts.copy(), out=texts[1:]);
    np.add.at(texts.view('M8[D]'), mask.view('i1'), 1);
    np.add(mask, mask, out=texts.view('m8[D]'), where=mask);
    np.isnat(texts.view('m8[D]'), out=mask, where=mask)
    """,
    "texts, mask",
    globals(),
)


@pytest.mark.parametrize("call", HOST_ONLY.values(), ids=HOST_ONLY)
def test_a_call_with_a_dtype_that_blobs_lack_runs_on_the_host(simulated, call):
    flags = np.array([True, False, True])
    arrays, mask = np.array(["ab", "cd", "ef"]), flags.copy()
    call(arrays, mask)
    texts, blob = np.array(["ab", "cd", "ef"]), on("simulated:0", flags)
    with syncblob.compute_only_on("simulated"), pytest.raises(DeviceGuardError, match="run on cpu"):
        call(texts, blob)
    for limit in (syncblob.no_transfers(), simulated.failing(transfer=1)):
        with limit, pytest.raises((TransferGuardError, RuntimeError)):
            call(texts, blob)
    assert (texts.tolist(), blob.head) == (["ab", "cd", "ef"], GPU)
    call(texts, blob)
    assert texts.tolist() == arrays.tolist()
    assert blob.tolist() == mask.tolist()


def test_arrays_and_scalars_of_other_dtypes_are_read_on_the_host():
    blob, mask = on("simulated:0", values()[1]), on("simulated:0", values()[0] > 0)
    days = np.array([1, 2, 3], "m8[D]")
    for call, expected in [
        (lambda: np.where(mask, days, days[:1]), np.where(values()[0] > 0, days, days[:1])),
        (lambda: np.where(mask, days[0], days[1]), np.where(values()[0] > 0, days[0], days[1])),
        (lambda: np.less(blob, np.longdouble(4)), values()[1] < 4),
        (lambda: np.isin(blob, np.array([4, 9], "g")), values()[1] == 4),
    ]:
        with syncblob.record_transfers() as log:
            result = call()
        assert result.device == "cpu"
        assert result.tolist() == expected.tolist()
        assert log.uploads == 0
    # Big-endian numbers can be uploaded.
    out = np.zeros(3, ">f4")
    assert np.add(blob, np.ones(3, ">f4"), out=out) is out
    assert out.tolist() == (values()[1] + 1).tolist()


@pytest.mark.usefixtures("machine")
def test_texts_with_a_mask_on_a_gpu():
    mask, names = on("cuda:0", np.array([True, False, True])), np.array(["a", "b", "c"])
    assert np.where(mask, names, "-").tolist() == ["a", "-", "c"]
    np.putmask(names, mask, ["z"])
    assert names.tolist() == ["z", "b", "z"]
    assert np.isnat(np.array([1, 2, 3], "m8[D]"), out=mask) is mask
    assert (mask.head, str(mask.device), mask.tolist()) == (CPU, "cuda:0", [False] * 3)


SEVERAL = {
    "modf": lambda x, out, **options: np.modf(x, out=out, **options),
    "frexp": lambda x, out, **options: np.frexp(x, out=out, casting="unsafe", **options),
    "divmod": lambda x, out, **options: np.divmod(x, 2, out=out, **options),
}


def _several_outs(head):
    """Yield the two targets of a call, and what makes it fail; each target counts up from 0."""
    yield blob_in(head), values(), "transfer"
    yield blob_in(head), values(), "guard"
    yield blob_in(head).T.copy().T, values(), "transfer"
    yield blob_in(head), blob_in(SYNCED).const, "const"
    yield blob_in(head), values(shape=(2, 4)), "shape"
    yield blob_in(head), values().astype(bool), "dtype"
    frozen = values()
    frozen.flags.writeable = False
    yield blob_in(head), frozen, "read-only"
    yield blob_in(head), np.frombuffer(frozen, "f4").reshape(2, 3), "read-only"


@pytest.mark.parametrize("call", SEVERAL.values(), ids=SEVERAL)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("head", PAIR[1:])
def test_if_one_of_several_outs_cannot_be_written_neither_is(
    simulated, call, swapped, masked, head
):
    x = on("simulated:0", values() + 0.25)
    options = {"where": on("simulated:0", values() > 2)} if masked else {}
    for one, two, reason in _several_outs(head):
        before = [np.array(one), np.array(two)]
        outs = (two, one) if swapped else (one, two)
        if reason == "dtype" and call is SEVERAL["frexp"]:
            continue
        failing = contextlib.nullcontext()
        if reason == "transfer":
            # With a mask, the contents come to the device first.
            copies = tuple(out.copy() for out in outs)
            wanted = simulated.uploads + simulated.downloads
            call(x, copies, **options)
            wanted = simulated.uploads + simulated.downloads - wanted
            failing = simulated.failing(transfer=max(wanted, 1))
        elif reason == "guard":
            failing = syncblob.no_transfers()
        with failing, pytest.raises((ValueError, TypeError, RuntimeError, TransferGuardError)):
            call(x, outs, **options)
        assert [out.tolist() for out in (one, two)] == [array.tolist() for array in before]


@pytest.mark.parametrize("call", SEVERAL.values(), ids=SEVERAL)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("head", PAIR[1:])
def test_several_outs_are_all_written(call, masked, head):
    x, mask, expected = values() + 0.25, values() > 2, (values(), values())
    call(x, expected, **({"where": mask} if masked else {}))
    x, options = on("simulated:0", x), {"where": on("simulated:0", mask)} if masked else {}
    gaps = on("cpu", np.full((2, 6), 9, "f4"))
    gaps[:, ::2] = values()
    for outs in (
        (blob_in(head), values()),
        (blob_in(head), blob_in(CPU)),
        (values(), gaps[:, ::2]),
        (on("simulated:0", values()), values()),
    ):
        results = call(x, outs, **options)
        assert all(map(operator.is_, results, outs))
        assert [out.tolist() for out in outs] == [array.tolist() for array in expected]
    assert gaps[:, 1].tolist() == [9, 9]


# Calls that write their argument, one of each function that does, and others that do not.
WRITING = functions(
    """
    np.copyto(x, 1); np.fill_diagonal(x, 9); np.median(x, overwrite_input=True);
    np.nan_to_num(x, copy=False); np.nanmedian(x, None, None, 1);
    np.nanpercentile(x, 9, overwrite_input=True); np.nanquantile(x, 0.9, overwrite_input=True);
    np.percentile(x, 9, overwrite_input=True); np.place(arr=x, mask=values() > 2, vals=[5]);
    np.put(x, [1], 5); np.put_along_axis(x, np.array([[0], [1]]), 5, 1);
    np.putmask(x, values() > 2, 5); np.quantile(x, 0.9, overwrite_input=True)
    """,
    "x",
    globals(),
)
READING = functions(
    """
    np.median(x, overwrite_input=False); np.nan_to_num(x, copy=True); np.nan_to_num(x);
    np.nanmedian(x)
    """,
    "x",
    globals(),
)


def test_every_function_of_the_table_is_called():
    called = {getattr(np, re.match(r"np\.(\w+)", text)[1]) for text in WRITING}
    assert called == tables._ALWAYS_WRITE | tables._WRITE_IF.keys()


@pytest.mark.parametrize("text", [*WRITING, *READING])
def test_the_table_says_who_writes(simulated, text):
    call, writes = (WRITING | READING)[text], text in WRITING
    blob = blob_in(SYNCED)
    array = values()
    call(blob)
    call(array)
    assert blob.head is (GPU if writes else SYNCED)
    assert simulated.downloads == 1  # the one that synced the Blob
    assert blob.tolist() == array.tolist()
    const = blob_in(SYNCED).const
    with pytest.raises(ValueError, match="const") if writes else contextlib.nullcontext():
        call(const)
    assert const.tolist() == values().tolist()
    assert const.head is SYNCED


def test_a_keyword_that_a_function_collects_is_not_written(tmp_path):
    blob = blob_in(GPU)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "blob.npz", out=blob.const)
        assert np.load(tmp_path / "blob.npz")["out"].tolist() == values().tolist()
    with pytest.raises(ValueError, match="read-only"):
        np.apply_along_axis(np.sum, 0, blob, out=blob_in(CPU, shape=()))
    assert blob.tolist() == values().tolist()


@pytest.mark.parametrize("as_blob", [False, True])
@pytest.mark.parametrize("function", [np.fft.hfft, np.fft.ifft2, np.fft.irfft2, np.cumsum])
def test_an_out_that_numpy_ignores_is_unchanged(function, as_blob):
    x = np.arange(16.0).reshape(4, 4)
    result = function(x)
    out, expected = np.full((2, *result.shape), 7, result.dtype)
    function(x, out=expected)
    if as_blob:
        out = on("cpu", out)
    assert np.array_equal(function(on("simulated:0", x), out=out), result)
    assert np.array_equal(out, expected)


def test_functions_without_a_signature_are_known_by_the_names_that_newer_versions_have():
    for function, names in tables._WITHOUT_SIGNATURE.items():
        with contextlib.suppress(ValueError):
            assert [*inspect.signature(function).parameters][: len(names)] == [*names]


@pytest.mark.parametrize("mask", [(), ("same_kind", [True, False, False])])
def test_copyto_of_everything_transfers_nothing_and_with_a_mask_it_does(simulated, mask):
    blob, expected = blob_in(CPU), values()
    source = on("simulated:0", values() + 5)
    simulated.reset_counts()
    np.copyto(blob, source, *mask)
    np.copyto(expected, values() + 5, *mask)
    assert (blob.head, simulated.uploads) == (GPU, len(mask) // 2)
    assert blob.tolist() == expected.tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_random_generators_copy_what_they_permute_and_warn_of_shuffling_items(device):
    blob = on(device, values(shape=(20,)))
    for permutation in (np.random.default_rng(0).permutation, np.random.permutation):
        assert sorted(permutation(blob).tolist()) == blob.tolist() == [*range(20)]
    with pytest.warns(UserWarning, match="shuffl"):
        np.random.default_rng(0).shuffle(blob)


def test_out_overlapping_an_operand_gives_what_numpy_gives():
    blob, array = on("cpu", np.arange(8.0)), np.arange(8.0)
    np.add(blob[:-1], 1, out=blob[1:])
    np.add(array[:-1], 1, out=array[1:])
    assert blob.tolist() == array.tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_a_callback_gets_a_read_only_array(device):
    blob = on(device, values())
    with pytest.raises(ValueError, match="read-only"):
        np.apply_along_axis(lambda row: row.fill(9), 0, blob)
    assert blob.tolist() == values().tolist()


def frexp(x, out):
    return pytest.importorskip("torch").frexp(x, out=out)


@pytest.mark.parametrize(
    ("call", "key", "dtype", "elsewhere"),
    [
        (lambda x, out: np.divmod(x, 2, out=out), ..., "float32", "cpu"),
        (frexp, ..., "int32", "simulated:0"),
        (frexp, np.s_[:, ::2], "int32", "simulated:0"),
    ],
)
def test_a_failure_changes_none_of_several_results(simulated, call, key, dtype, elsewhere):
    for kind, count in itertools.product(
        ("allocation", "host_allocation", "transfer"), range(1, 9)
    ):
        x, outs = on("simulated:0", values())[key], []
        for kind_of_out in ("float32", dtype):
            whole = Blob((2, 3), kind_of_out, device="simulated:0")
            # What the function overwrites is newest where it does not compute.
            whole.on(elsewhere)[...] = 9
            outs.append(whole[key])
        try:
            with simulated.failing(**{kind: count}):
                call(x, tuple(outs))
        except (MemoryError, RuntimeError):
            assert [set(out.ravel().tolist()) for out in outs] == [{9}, {9}]
    assert outs[0].tolist() != outs[1].tolist()


def raising(function):
    """Let a function raise after it has written, by floating-point errors."""
    return np.errstate(all="raise")(function)


RAISING = {
    "ufunc": raising(lambda x: np.divide(x, 0, out=x)),
    "in place": raising(lambda x: x.__itruediv__(0)),
    "in place, an array": raising(lambda x: x.__itruediv__(np.zeros(3, "f4"))),
    "accumulate": raising(lambda x: np.cumprod(np.full(6, 1e30, "f4"), out=x.reshape(-1))),
    "number": raising(lambda x: x.__setitem__(..., 1e300)),
    "put": lambda x: np.put(x, [0, 1, 99], 5),
    "method": lambda x: x.put([0, 1, 99], 5),
}


@pytest.mark.parametrize("call", RAISING.values(), ids=RAISING)
@pytest.mark.parametrize("head", PAIR)
def test_what_a_call_wrote_before_it_raised_is_newest(call, head):
    blob, expected = blob_in(head), values() * bool(head)
    before = expected.copy()
    for x in (blob, expected):
        with pytest.raises((ArithmeticError, IndexError)):
            call(x)
    np.testing.assert_array_equal(blob.cpu_data(), blob.gpu_data())
    # An output that is not up to date where NumPy computes is written only after a success.
    late = head is not SYNCED and np.array_equal(blob, before)
    np.testing.assert_array_equal(blob, before if late else expected)


@pytest.mark.parametrize("state", ["own side", "both sides", "other side", "untouched"])
def test_an_ndarray_beside_what_is_written_is_uploaded_once(state):
    array = np.ones((40, 50), np.float32)
    for write in (
        lambda x: operator.iadd(x, array),
        lambda x: np.add(array, 1, out=x),
        lambda x: np.copyto(x, array),
        lambda x: np.concatenate([array[:20], array[20:]], out=x),
    ):
        blob = Blob(array.shape, device="simulated")
        if state != "untouched":
            blob.mutable_gpu_data()[...] = 1
        if state == "both sides":
            blob.cpu_data()
        if state == "other side":
            blob.mutable_cpu_data()
        with syncblob.record_transfers() as log:
            write(blob)
        of_array = [transfer for transfer in log if transfer.memory != blob.memory.serial]
        assert sum(transfer.nbytes for transfer in of_array) == array.nbytes
        assert all(transfer.memory > 0 == transfer.offset for transfer in of_array)
        assert log.downloads == 0
