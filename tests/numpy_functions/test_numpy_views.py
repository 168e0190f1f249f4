"""Results that are views, functions of shapes, and results on a Blob's device."""

from __future__ import annotations

import numpy as np
import pytest
from made_blobs import blob_in, values

import syncblob
from syncblob import Blob, Head

NONE, CPU, GPU, SYNCED, SPLIT = Head
DEVICES = ["cpu", "simulated:0"]


def on(device, array):
    blob = Blob(array.shape, array.dtype, device=device)
    blob[...] = array
    return blob


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


@pytest.mark.parametrize("device", DEVICES)
def test_windows_that_are_to_be_written_are_no_const_views(device):
    blob, array = on(device, values()), values()
    for x in (blob, array):
        windows = np.lib.stride_tricks.sliding_window_view(x, 2, axis=1, writeable=True)
        windows[:, 1] = 7
    assert blob.tolist() == array.tolist()


@pytest.mark.parametrize("head", Head)
def test_what_has_no_axes_is_not_read_at_an_address_that_holds_nothing(head):
    blob = blob_in(head, shape=())
    for function in (np.flip, np.squeeze, np.transpose, np.ravel, np.atleast_3d):
        assert function(blob).tolist() == function(np.float32(0)).tolist()


def test_shapes_and_views_of_what_was_never_touched_touch_nothing():
    blob = Blob((2, 3), device="simulated:0")
    assert (np.shape(blob), np.ndim(blob), np.size(blob)) == ((2, 3), 2, 6)
    assert (np.shape(a=blob), np.ndim(a=blob), np.size(a=blob, axis=1)) == ((2, 3), 2, 3)
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


@pytest.mark.parametrize("device", DEVICES)
def test_blobs_stand_for_axes_and_counts(device):
    one, two = (on(device, np.array(number)) for number in (1, 2))
    blob = on(device, values())
    assert np.size(blob, one) == np.size(blob, axis=one) == 3
    assert np.sum(blob, axis=one).tolist() == [3, 12]
    assert np.tile(values(), on(device, np.array([2, 1]))).shape == (4, 3)
    assert np.repeat(values(), two, axis=0).shape == (4, 3)
    assert np.roll(blob, one, axis=one).tolist() == np.roll(values(), 1, axis=1).tolist()
    assert np.reshape(blob, on(device, np.array([3, 2]))).shape == (3, 2)


def test_memory_is_shared_where_either_side_is_the_same_and_nothing_moves():
    blob = blob_in(GPU)
    host = np.zeros((2, 3), "f4")
    with syncblob.no_transfers():
        assert np.shares_memory(blob, blob.T)
        assert np.may_share_memory(blob, blob.gpu_data())
        assert not np.shares_memory(blob, host)
        assert not np.shares_memory(blob_in(GPU), blob)
        interleaved = blob[:, ::2], blob[:, 1::2]
        assert not np.shares_memory(*interleaved)
        # By default it compares only the first and last addresses.
        assert np.may_share_memory(*interleaved)
        assert not np.may_share_memory(*interleaved, max_work=-1)
    assert np.shares_memory(host, syncblob.asarray(host))


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_a_memory_without_buffers_is_shared(device):
    blob = Blob(4, device=device)
    assert np.shares_memory(blob, blob[:2])
    assert np.may_share_memory(blob[1:], blob[::-1])
    assert not np.shares_memory(blob[:2], blob[2:])
    assert not np.may_share_memory(blob, Blob(4, device=device))
    assert blob.head is Head.UNINITIALIZED


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


@pytest.mark.parametrize("device", DEVICES)
def test_piecewise_of_a_blob_without_axes(device):
    x = syncblob.asarray(2.0, device=device)
    functions = [lambda part: part * 2, 7]
    assert [np.piecewise(x, x < end, functions).tolist() for end in (3, 1)] == [4, 7]
    result = np.piecewise(x, condlist=x < 3, funclist=functions)
    assert (result.device, result.tolist()) == (device, 4)


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.5.0", reason="NumPy checks the bounds since 2.5"
)
@pytest.mark.parametrize("device", DEVICES)
def test_as_strided_checks_the_bounds_of_a_slice_by_the_whole_memory(device):
    as_strided = np.lib.stride_tricks.as_strided
    array = np.arange(12.0).reshape(3, 4)
    blob = syncblob.asarray(array, device=device)
    for shape, strides in (((3, 4), (-8, 8)), ((2, 2), (-32, 8)), ((2, 3), (32, 8))):
        result = as_strided(blob[1:], shape, strides, check_bounds=True)
        assert result.tolist() == as_strided(array[1:], shape, strides).tolist()
        assert not result.flags.writeable
    with pytest.raises(ValueError, match="out of bounds"):
        as_strided(blob[1:], (3, 40), (32, 8), check_bounds=True)


def test_a_view_of_the_users_array_sees_its_later_writes():
    array = np.zeros(3)
    _, view = np.atleast_2d(on("cpu", values()), array)
    view.memory.bind(syncblob.simulated(0))
    view.gpu_data()
    array[0] = 5
    assert view.gpu_data()[0, 0] == 5
