"""What functions write: heads, transfers, refusals, failures; and results that are views."""

from __future__ import annotations

import numpy as np
import pytest
from made_blobs import address, blob_in, values

import syncblob
from syncblob import Blob, Head
from syncblob.interop.numpy_functions import WRITES

NONE, CPU, GPU, SYNCED = Head
DEVICES = ["cpu", "simulated:0"]


def on(device, array):
    blob = Blob(array.shape, array.dtype, device=device)
    blob[...] = array
    return blob


OUT = {
    "ufunc": lambda x, out: np.add(x, x, out=out),
    "ufunc, positional": lambda x, out: np.add(x, x, out),
    "one operand": lambda x, out: np.negative(x, out=(out,)),
    "function": lambda x, out: np.concatenate([x[:1], x[1:]], out=out),
    "function, positional": lambda x, out: np.round(x, 1, out),
    "clip": lambda x, out: np.clip(x, 1, 3, out=out),
    "method": lambda x, out: x.clip(1, 3, out=out),
    "cumsum": lambda x, out: np.cumsum(x, axis=0, out=out),
    "accumulate": lambda x, out: np.add.accumulate(x, out=out),
}


@pytest.mark.parametrize("call", OUT.values(), ids=OUT)
@pytest.mark.parametrize("head", Head)
def test_a_whole_out_is_overwritten_without_a_transfer(simulated, call, head):
    out = blob_in(head)
    x = on("simulated:0", values())
    simulated.reset_counts()
    assert call(x, out) is out
    assert (out.head, simulated.uploads, simulated.downloads) == (GPU, 0, 0)
    assert out.tolist() == call(values(), np.empty((2, 3), "f4")).tolist()


@pytest.mark.parametrize("head", Head)
def test_an_out_with_a_mask_is_brought_up_to_date(simulated, head):
    out = blob_in(head)
    before = values() * bool(head)
    x = on("simulated:0", values() + 10)
    mask = on("simulated:0", values() > 2)
    simulated.reset_counts()
    assert np.add(x, 1, out=out, where=mask) is out
    assert out.head is GPU
    assert simulated.uploads == (head is CPU)
    assert out.tolist() == np.where(values() > 2, values() + 11, before).tolist()


def test_an_out_that_is_a_part_keeps_the_rest(simulated):
    out = blob_in(CPU)
    row = on("simulated:0", values()[0])
    simulated.reset_counts()
    np.multiply(row, 10, out=out[1])
    assert (out.head, simulated.uploads) == (GPU, 1)
    assert out.tolist() == [[0, 1, 2], [0, 10, 20]]


def test_out_says_where_to_compute_as_operands_do():
    out = Blob((2, 3), device="simulated:0")
    assert np.add(on("cpu", values()), values(), out=out) is out
    assert out.head is GPU
    here = Blob((2, 3), device="cpu")
    np.add(on("simulated:0", values()), 1, out=here)
    assert (here.head, here.device) == (GPU, "simulated:0")


@pytest.mark.parametrize("device", DEVICES)
def test_an_array_as_out_is_written_and_returned(device):
    blob = on(device, values())
    for call in OUT.values():
        out = np.full((2, 3), 7, "f4")
        assert call(blob, out) is out
        assert out.tolist() == call(values(), np.empty((2, 3), "f4")).tolist()
    out = np.full((2, 3), 7, "f4")
    assert np.add(blob, 1, out=out, where=values() > 2) is out
    assert out.tolist() == [[7, 7, 7], [4, 5, 6]]
    frozen = np.zeros((2, 3), "f4")
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        np.add(blob, 1, out=frozen)


@pytest.mark.parametrize("device", DEVICES)
def test_functions_write_arrays_with_the_contents_of_blobs(device):
    target = np.zeros((2, 3), "f4")
    np.copyto(target, on(device, values()))
    assert target.tolist() == values().tolist()
    np.putmask(target, on(device, values() > 3), 9)
    assert target.tolist() == [[0, 1, 2], [3, 9, 9]]
    np.put(target, [0], on(device, np.float32([5])))
    assert target[0, 0] == 5


def test_several_outs_and_none_among_them():
    x = on("simulated:0", values())
    whole = Blob((2, 3), device="simulated:0")
    fraction, same = np.modf(x, out=(None, whole))
    assert same is whole
    assert whole.tolist() == values().tolist()
    assert fraction.tolist() == [[0] * 3] * 2


FAILING = {
    "shape": lambda x, out: np.add(x, np.ones(5), out=out),
    "dtype": lambda x, out: np.add(x, 1j, out=out),
    "raised": lambda x, out: np.log(x - 9, out=out),
    "axis": lambda x, out: np.cumsum(x, axis=4, out=out),
}


@pytest.mark.parametrize("call", FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("head", [CPU, SYNCED])
def test_a_function_that_fails_loses_nothing(call, head):
    out = blob_in(head)
    x = on("simulated:0", values())
    with np.errstate(all="raise"), pytest.raises((ValueError, TypeError, FloatingPointError)):
        call(x, out)
    if call is not FAILING["raised"] or head is CPU:
        assert out.tolist() == values().tolist()


def test_a_failed_transfer_loses_nothing(simulated):
    out, x = blob_in(CPU), on("simulated:0", values())
    with simulated.failing(transfer=1), pytest.raises(RuntimeError, match="injected"):
        np.add(x, 1, out=out, where=on("simulated:0", values() > 2))
    assert (out.head, out.tolist()) == (CPU, values().tolist())


# Each with and without what makes it write.
WRITING = {
    np.copyto: [(lambda x: np.copyto(x, 1), True)],
    np.fill_diagonal: [(lambda x: np.fill_diagonal(x, 9), True)],
    np.median: [
        (lambda x: np.median(x, overwrite_input=True), True),
        (lambda x: np.median(x, overwrite_input=False), False),
    ],
    np.nan_to_num: [
        (lambda x: np.nan_to_num(x, copy=False), True),
        (lambda x: np.nan_to_num(x, copy=True), False),
        (np.nan_to_num, False),
    ],
    np.nanmedian: [(lambda x: np.nanmedian(x, None, None, 1), True), (np.nanmedian, False)],
    np.nanpercentile: [(lambda x: np.nanpercentile(x, 9, overwrite_input=True), True)],
    np.nanquantile: [(lambda x: np.nanquantile(x, 0.9, overwrite_input=True), True)],
    np.percentile: [(lambda x: np.percentile(x, 9, overwrite_input=True), True)],
    np.place: [(lambda x: np.place(arr=x, mask=values() > 2, vals=[5]), True)],
    np.put: [(lambda x: np.put(x, [1], 5), True)],
    np.put_along_axis: [(lambda x: np.put_along_axis(x, np.array([[0], [1]]), 5, 1), True)],
    np.putmask: [(lambda x: np.putmask(x, values() > 2, 5), True)],
    np.quantile: [(lambda x: np.quantile(x, 0.9, overwrite_input=True), True)],
}
WRITING_CALLS = [(call, writes) for calls in WRITING.values() for call, writes in calls]


def test_every_function_of_the_table_is_called():
    assert set(WRITING) == set(WRITES)


@pytest.mark.parametrize(("call", "writes"), WRITING_CALLS)
def test_the_table_says_who_writes(simulated, call, writes):
    blob = blob_in(SYNCED)
    array = values()
    call(blob)
    call(array)
    assert blob.head is (GPU if writes else SYNCED)
    assert simulated.downloads == 1  # the one that synced it
    assert blob.tolist() == array.tolist()
    const = blob_in(SYNCED).const
    if writes:
        with pytest.raises(ValueError, match="const"):
            call(const)
    else:
        call(const)
    assert const.tolist() == values().tolist()
    assert const.head is SYNCED


def test_copyto_of_everything_transfers_nothing_and_with_a_mask_it_does(simulated):
    blob = blob_in(CPU)
    source = on("simulated:0", values() + 5)
    simulated.reset_counts()
    np.copyto(blob, source)
    assert (blob.head, simulated.uploads) == (GPU, 0)
    assert blob.tolist() == source.tolist()
    mask = [True, False, False]
    for args, kwargs in [((), {"where": mask}), (("same_kind", mask), {})]:
        blob = blob_in(CPU)
        simulated.reset_counts()
        np.copyto(blob, source, *args, **kwargs)
        assert blob.tolist() == [[5, 1, 2], [8, 4, 5]]
        assert simulated.uploads == 1


# --- views ---------------------------------------------------------------------------------------

VIEWS = {
    "transpose": np.transpose,
    "reshape": lambda x: np.reshape(x, (3, 2)),
    "ravel": np.ravel,
    "squeeze": lambda x: np.squeeze(x[:1]),
    "expand_dims": lambda x: np.expand_dims(x, 0),
    "flip": np.flip,
    "rot90": np.rot90,
    "split": lambda x: np.split(x, 3, axis=1)[1],
    "atleast_3d": np.atleast_3d,
    "einsum": lambda x: np.einsum("ij->ji", x),
    "method": lambda x: x.swapaxes(0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
}


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_results_that_share_memory_are_views(view, device, fresh):
    blob = np.copy(on(device, values())) if fresh else on(device, values())
    with syncblob.no_transfers():
        result = view(blob)
    assert result.memory is blob.memory
    assert np.shares_memory(result, blob)
    result[...] = 7
    expected = values()
    view(expected)[...] = 7
    assert blob.tolist() == expected.tolist()


@pytest.mark.parametrize("fresh", [False, True])
def test_the_same_array_is_the_same_blob(fresh):
    blob = np.copy(on("cpu", values())) if fresh else on("cpu", values())
    for function in (np.real, np.atleast_1d, np.atleast_2d):
        assert function(blob) is blob
    assert np.nan_to_num(blob, copy=False) is blob


@pytest.mark.parametrize("device", DEVICES)
def test_views_whose_elements_overlap_are_const(device):
    blob = on(device, values())
    windows = np.lib.stride_tricks.sliding_window_view(blob, 2, axis=1)
    same, broadcast = np.broadcast_arrays(blob, on(device, values()[0]))
    assert same is blob
    for view in (np.broadcast_to(blob, (4, 2, 3)), np.diagonal(blob), windows, broadcast):
        with pytest.raises(ValueError, match="const"):
            view[...] = 0
    assert blob.diagonal().tolist() == [0, 4]


def test_shapes_and_views_of_what_was_never_touched_touch_nothing():
    blob = Blob((2, 3), device="simulated:0")
    assert (np.shape(blob), np.ndim(blob), np.size(blob)) == ((2, 3), 2, 6)
    assert np.result_type(blob, np.float64) == np.float64
    assert np.zeros_like(blob).tolist() == [[0] * 3] * 2
    assert np.full_like(blob, 3).device == "simulated:0"
    assert np.transpose(blob).shape == np.swapaxes(blob, 0, 1).shape == (3, 2)
    assert blob.head is NONE


@pytest.mark.parametrize("device", DEVICES)
def test_an_array_among_the_results_is_not_taken_away_from_its_owner(device):
    array = np.zeros((2, 3), "f4")
    _, adopted = np.atleast_1d(on(device, values()), array)
    array[...] = 3
    assert np.asarray(adopted).tolist() == [[3] * 3] * 2


def test_memory_is_shared_where_either_side_is_the_same_and_nothing_moves():
    blob = blob_in(GPU)
    host = np.zeros((2, 3), "f4")
    with syncblob.no_transfers():
        assert np.shares_memory(blob, blob.T)
        assert np.may_share_memory(blob, blob.gpu_data())
        assert not np.shares_memory(blob, host)
        assert not np.shares_memory(blob_in(GPU), blob)
    assert np.shares_memory(host, syncblob.asarray(host, device="simulated"))


def test_creation_functions_with_like_make_blobs_there():
    model = on("simulated:0", values())
    for made in (
        np.zeros((2, 3), like=model),
        np.ones((2, 3), like=model),
        np.full((2, 3), 2, like=model),
        np.arange(6, like=model),
        np.eye(3, like=model),
        np.array([[1, 2]], like=model),
        np.asarray(np.ones(2), like=model),
    ):
        assert made.device == "simulated:0"
        assert isinstance(made, Blob)
    assert np.arange(6, like=model).tolist() == [0, 1, 2, 3, 4, 5]


def test_texts_and_files_are_read_on_the_host(tmp_path, simulated):
    blob = on("simulated:0", values())
    assert np.array_str(blob) == np.array_str(values())
    np.save(tmp_path / "blob.npy", blob)
    np.savez(tmp_path / "blob.npz", first=blob)
    assert (blob.head, simulated.downloads) == (SYNCED, 1)
    assert np.load(tmp_path / "blob.npy").tolist() == values().tolist()
    assert np.load(tmp_path / "blob.npz")["first"].tolist() == values().tolist()


def test_out_overlapping_an_operand_gives_what_numpy_gives():
    blob, array = on("cpu", np.arange(8.0)), np.arange(8.0)
    np.add(blob[:-1], 1, out=blob[1:])
    np.add(array[:-1], 1, out=array[1:])
    assert blob.tolist() == array.tolist()


def test_the_result_of_an_out_lies_in_the_blobs_own_memory():
    out = on("cpu", values())
    before = address(out.cpu_data())
    np.add(out, out, out=out)
    assert address(out.cpu_data()) == before
