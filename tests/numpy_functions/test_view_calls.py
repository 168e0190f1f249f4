"""Results that are views, functions of shapes, and results on a Blob's device."""

import numpy as np
import pytest
from call_texts import functions
from made_blobs import GPU, PAIR, blob_in, on, values

import syncblob
from syncblob import Blob

DEVICES = ["cpu", "simulated:0"]


windows = np.lib.stride_tricks.sliding_window_view

# Calls that make views of an array of shape (2, 3) and dtype complex64.
VIEWS = functions(
    """
    np.array_split(x, 2, axis=1); np.atleast_2d(x[0]); np.atleast_3d(x);
    np.broadcast_to(x, shape=(4, 2, 3)); np.diag(x, 1); np.diag(v=x); x.diagonal();
    np.dsplit(x[None], 3); np.expand_dims(x, 0);
    np.flip(x); np.flip(x, axis=(0, 1)); np.fliplr(x); np.flipud(x); np.hsplit(x, [1]); np.imag(x);
    x.imag; np.linalg.diagonal(x); np.matrix_transpose(x); np.moveaxis(x, (0, 1), (1, 0));
    np.ravel(x); x.T.ravel(order='F'); np.ravel(x.T, 'A'); np.ravel(a=x.T, order='F');
    np.real(x); x.real; np.reshape(x, (3, 2));
    np.reshape(x.T, 6, order='A'); x.T.reshape(6, order='F'); np.reshape(x, shape=-1, copy=False);
    np.reshape(x[:, 1:], (2, 1, 2)); np.rollaxis(x, 1); np.rot90(x); windows(x, 2, axis=1);
    np.split(x, 3, axis=1); np.split(ary=x, indices_or_sections=[1]); np.squeeze(x[:1]);
    np.squeeze(a=x[:, :1], axis=1); np.swapaxes(x, axis1=0, axis2=1); np.transpose(x);
    np.transpose(a=x, axes=(1, 0)); np.unstack(x, axis=1); np.vsplit(x, 2);
    windows(x=x, window_shape=3, axis=1, writeable=True)
    """,
    "x",
    globals(),
)

# Other calls of the same functions, which make new arrays.
COPIES = functions(
    """
    np.astype(x, np.complex64); np.astype(x, np.complex128, copy=False); np.diag(x[0]);
    np.einsum('ij->i', x); np.einsum('ij,ij->ij', x, x);
    np.einsum('ij->ji', x, out=np.empty_like(x.T)); np.flip(x[0, 0, ...]); np.imag(np.abs(x));
    np.meshgrid(x[0], x[1]); np.meshgrid(x.T, x[1], copy=False, sparse=True)[0]; np.ravel(x.T);
    np.ravel(x, 'F'); np.ravel(x[::-1], 'K'); np.reshape(x.T, 6); np.reshape(x, 6, copy=True);
    np.reshape(x, 6, order='F'); np.unstack(x[0])
    """,
    "x",
    globals(),
)


def blobs_in_every_state(device):
    """Yield Blobs of shape (2, 3), with their values."""
    for head in PAIR:
        array = values("complex64") if head else np.zeros((2, 3), "complex64")
        yield blob_in(head, "complex64").on(device), array
    yield np.copy(on(device, values("complex64"))), values("complex64")


def listed(result):
    return result if isinstance(result, (list, tuple)) else [result]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_transfer_nothing_and_share_memory(view, device):
    for blob, array in blobs_in_every_state(device):
        head = blob.head
        with syncblob.no_transfers():
            results = view(blob)
        expected = view(array)
        assert blob.head is head
        assert type(results) is type(expected) or isinstance(results, Blob)
        for result, part in zip(listed(results), listed(expected), strict=True):
            assert (result.shape, result.dtype, result.device) == (part.shape, part.dtype, device)
            assert result.memory is blob.memory
            overlaps = any(
                n > 1 and not step for n, step in zip(part.shape, part.strides, strict=True)
            )
            const = overlaps or not part.flags.writeable
            assert result.flags.writeable is not const
            if result.flags.writeable:
                result[...] = part[...] = 7
            assert result.tolist() == part.tolist()
        assert blob.tolist() == array.tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_copies_by_functions_of_views_are_computed_on_the_device(copy, device):
    for blob, array in blobs_in_every_state(device):
        results, expected = copy(blob), copy(array)
        for result, part in zip(listed(results), listed(expected), strict=True):
            assert result.device == device
            assert result.memory is not blob.memory
            assert result.tolist() == part.tolist()


@pytest.mark.parametrize("fresh", [False, True])
def test_the_same_array_is_the_same_blob(fresh):
    blob = np.copy(on("cpu", values())) if fresh else on("cpu", values())
    for function in (np.real, np.atleast_1d, np.atleast_2d):
        assert function(blob) is blob
    assert np.nan_to_num(blob, copy=False) is blob


@pytest.mark.parametrize("head", PAIR)
def test_what_has_no_axes_is_not_read_at_an_address_that_holds_nothing(head):
    blob = blob_in(head, shape=())
    for function in (np.flip, np.squeeze, np.transpose, np.ravel, np.atleast_3d):
        assert function(blob).tolist() == function(np.float32(0)).tolist()


def test_a_shape_is_asked_of_a_result_without_a_memory():
    result = Blob((2, 3)) + 1
    assert np.zeros_like(result).shape == np.shape(result) == (2, 3)
    assert np.zeros_like(result).sum() == 0
    assert result.known_memory is None
    with (
        syncblob.compute_only_on("simulated"),
        pytest.raises(syncblob.DeviceGuardError, match="zeros"),
    ):
        np.zeros_like(result)


def test_an_array_among_the_results_is_not_taken_away_from_its_owner():
    array = np.zeros((2, 3), "f4")
    _, adopted = np.atleast_1d(on("cpu", values()), array)
    array[...] = 3
    assert np.asarray(adopted).tolist() == [[3] * 3] * 2


@pytest.mark.parametrize("device", DEVICES)
def test_blobs_stand_for_axes_and_counts(device):
    one, two = (on(device, np.array(number)) for number in (1, 2))
    blob = on(device, values())
    assert np.size(blob, one) == np.size(blob, axis=one) == 3
    assert np.sum(blob, axis=one).tolist() == [3, 12]
    assert np.diag(blob, k=one).tolist() == [1, 5]
    assert np.flip(blob, axis=one).tolist() == values()[:, ::-1].tolist()
    assert np.transpose(blob, (one, 0)).tolist() == values().T.tolist()
    ends = on(device, np.array([1, 2]))
    assert [part.shape for part in np.split(blob, ends, axis=1)] == [(2, 1)] * 3
    # These call other functions, with a Blob that has no array yet.
    three = on(device, np.array(3))
    assert [part.shape for part in np.hsplit(Blob((2, 3), device=device), three)] == [(2, 1)] * 3
    assert np.tile(values(), on(device, np.array([2, 1]))).shape == (4, 3)
    assert np.repeat(values(), two, axis=0).shape == (4, 3)
    assert np.roll(blob, one, axis=one).tolist() == np.roll(values(), 1, axis=1).tolist()
    assert np.reshape(blob, on(device, np.array([3, 2]))).shape == (3, 2)


def test_memory_is_shared_where_it_is_on_the_host():
    host = np.zeros((2, 3), "f4")
    blob = syncblob.asarray(host)
    assert np.shares_memory(host, blob)
    assert np.shares_memory(blob, blob.T)
    assert not np.shares_memory(blob[:, ::2], blob[:, 1::2])
    # By default it compares only the first and last addresses.
    assert np.may_share_memory(blob[:, ::2], blob[:, 1::2])
    assert not np.shares_memory(blob_in(GPU), blob)


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
