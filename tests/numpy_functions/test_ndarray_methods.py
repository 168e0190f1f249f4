"""The methods of ndarrays on Blobs: the same results, on the Blob's device."""

import operator

import numpy as np
import pytest
from call_texts import functions
from made_blobs import blob_in, filled, on, values

import syncblob
from syncblob import Blob, Head

A = np.array([[1.5, -2.0, 4.0], [0.5, 8.0, -3.0]])
C = np.array([[1 + 2j, 3 - 1j]])
DEVICES = ["cpu", "simulated:0"]


METHODS = functions(
    """
    x.sum(); x.sum(0, 'f4', keepdims=True); x.sum(0, 'f4', None, True);
    x.std(1, None, None, 1, True); x.max(1, None, True); x.argmin(1, keepdims=True);
    x.prod(axis=(0, 1)); x.mean(axis=-1); x.std(ddof=1); x.var(0); x.min(1); x.max(initial=9.0);
    (x > 7).any(axis=0); (x > -9).all(); x.argmin(); x.argmax(axis=1); x.cumsum(axis=1);
    x.cumprod(); x.trace(1); (x * 1.234).round(1); x.clip(-1, 3); x.clip(max=3); x.conj();
    (x > 1).conj(); x.tobytes(); bytes(x);
    x.conjugate(); x.dot(x.T); x.take([0, 2], axis=1); x.compress([False, True], axis=0);
    x.repeat(2, axis=0); x.nonzero()[1]; x[0, 1:].searchsorted([0.0, 5.0]); x.argsort(axis=0);
    x.argsort(1, 'stable'); x.argpartition(1, axis=0); (x > 0).astype(int).choose([x, -x]);
    x.ravel(); x.ravel('F'); x.flatten(); x.flatten('F'); x[:1].squeeze(0); x.swapaxes(0, -1);
    x.diagonal(1); x.real; x.imag; x.item(1); x.itemsize; x.nbytes; x.strides; x.sort(0) or x;
    x.partition(1) or x; x.put([0, 4], 7.0) or x; x.fill(2) or x; x.fill(np.float64(2.5)) or x
    """,
    "x",
    globals(),
)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_methods_give_what_those_of_an_ndarray_give(method, device):
    blob = on(device, A)
    expected = method(A.copy())
    with syncblob.no_transfers():
        actual = method(blob) if device == "cpu" else None
    if device != "cpu":
        actual = method(blob)
    if not isinstance(expected, (np.ndarray, np.generic)):
        assert actual == expected
        return
    assert type(actual) is Blob
    assert (actual.shape, actual.dtype, actual.device) == (expected.shape, expected.dtype, device)
    assert actual.tobytes() == expected.tobytes()


INTO = functions(
    """
    x.sum(0, None, out); x.prod(0, None, out); x.mean(0, None, out); x.std(0, None, out);
    x.var(0, None, out); x.min(0, out); x.max(0, out); x.any(0, out=out); x.all(0, out=out);
    x.argmin(0, out); x.argmax(0, out); x[0].cumsum(0, None, out); x[0].cumprod(0, None, out);
    x.trace(1, 0, 1, None, out[:1].reshape(())); x.take([0, 2, 4], None, out, 'clip');
    x.compress([True, False], 0, out[None]); x[0].round(1, out); x[0].clip(-1, 3, out);
    x[:, :1].T.dot(x, out[None])
    """,
    "x, out",
    globals(),
)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", INTO)
def test_methods_take_their_out_where_those_of_an_ndarray_take_it(name, device):
    kinds = {"any": bool, "all": bool, "argmin": np.intp, "argmax": np.intp}
    dtype = kinds.get(name.partition("(")[0].removeprefix("x."), float)
    out = on(device, np.zeros(3, dtype))
    array = np.zeros(3, dtype)
    result = INTO[name](on(device, A), out)
    INTO[name](A, array)
    assert type(result) is Blob
    assert out.tolist() == array.tolist()


def _set(x, name, values):
    setattr(x, name, values)
    return x


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("values", [7, [[1], [2]], C.real * 2], ids=str)
def test_parts_of_complex_numbers_can_be_assigned(values, device):
    array = np.vstack([C, C * 2j])
    for name in ("real", "imag"):
        assert (
            _set(on(device, array), name, values).tolist()
            == _set(array.copy(), name, values).tolist()
        )
    blob = on(device, array)
    blob.real *= 2
    blob.imag += 1
    assert blob.tolist() == (array.real * 2 + (array.imag + 1) * 1j).tolist()
    plain = on(device, A)
    plain.real = 3
    assert set(plain.ravel().tolist()) == {3}
    with pytest.raises(TypeError, match="complex"):
        plain.imag = 1
    with pytest.raises(ValueError, match="const"):
        blob.const.real = 1


@pytest.mark.parametrize("device", DEVICES)
def test_in_asks_all_elements(device):
    blob = on(device, A)
    assert 8 in blob
    assert -8 not in blob
    assert np.array([0.5, 0, 0]) in blob
    assert "text" not in blob


@pytest.mark.parametrize("device", DEVICES)
def test_imaginary_parts_of_real_numbers_are_const_zeros(device):
    blob = on(device, A)
    for zeros in (blob.imag, np.imag(val=blob)):
        assert np.asarray(zeros).tobytes() == A.imag.tobytes()
        assert (zeros.dtype, zeros.device, zeros.flags.writeable) == (A.dtype, device, False)
        with pytest.raises(ValueError, match="const"):
            zeros.mutable_cpu_data()


def test_methods_in_place_take_the_mutable_path_on_the_device(simulated):
    methods = "x.sort(axis=0); x.partition(1); x.put(0, 1); x.fill(3)"
    for method in functions(methods, "x", globals()).values():
        blob = blob_in(Head.SYNCED)
        simulated.reset_counts()
        method(blob)
        assert (blob.head, simulated.uploads) == (Head.HEAD_AT_GPU, 0)
        with pytest.raises(ValueError, match="const"):
            method(blob.const)
    with pytest.raises(ValueError, match="one value"):
        blob.fill([1, 2, 3])


FLAT = {
    "the same": A,
    "another layout": A.T,
    "of a flatiter": A.flat,
    "too few": A[0],
    "too few, and no divisor": [1, 2, 3, 4],
    "too many": np.arange(99),
    "one": [[7]],
    "a number": 2.5,
    "none": [],
    "other axes": np.arange(6, dtype="u1").reshape(3, 2),
}
PARTS = {
    "all": np.s_[...],
    "every other": np.s_[:, ::2],
    "backwards": np.s_[::-1, ::-1],
    "one": np.s_[0, 1:2],
    "no axes": np.s_[0, 1, ...],
    "none": np.s_[:0],
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("given", FLAT.values(), ids=FLAT)
def test_flat_is_assigned_as_numpys(given, part, device):
    expected = np.zeros((2, 3), "f4")
    expected[part].flat = given
    for source in (
        [given] if isinstance(given, np.flatiter) else [given, on(device, np.array(given))]
    ):
        blob = on(device, np.zeros((2, 3), "f4"))
        blob[part].flat = source
        assert (blob.tolist(), blob.device) == (expected.tolist(), device)


def test_flat_is_a_view_to_read_and_to_write():
    blob = on("cpu", A)
    blob.flat[4] = 7
    blob.flat[[0, 1]] = -1
    expected = A.copy()
    expected.flat[[4, 0, 1]] = 7, -1, -1
    assert blob.tolist() == expected.tolist()
    assert [float(number) for number in blob.flat] == [*expected.flat]
    blob.flat = blob.flat[::-1]
    assert blob.tolist() == expected[::-1, ::-1].tolist()
    assert blob.T[1:].flat.tolist() == [*expected[::-1, ::-1].T[1:].flat]
    for refused in (blob.T, blob.const):
        with pytest.raises(ValueError, match="const"):
            refused.flat[0] = 1


def test_flat_takes_the_mutable_path_on_the_device(simulated):
    blob, other = blob_in(Head.SYNCED), blob_in(Head.SYNCED)
    simulated.reset_counts()
    blob.flat = other.T.flat
    assert (blob.head, other.head, simulated.uploads) == (Head.HEAD_AT_GPU, Head.SYNCED, 0)
    assert blob.tolist() == values().T.reshape(2, 3).tolist()
    with pytest.raises(ValueError, match="const"):
        blob.const.flat = 0
    with pytest.raises(TypeError, match="complex"):
        blob.flat = [1j]
    assert blob.tolist() == values().T.reshape(2, 3).tolist()


def test_flags_tell_how_data_lies():
    blob, array = on("cpu", A), A.copy()
    names = [name for name in dir(array.flags) if not name.startswith("_") and name != "num"]
    keys = "C F O W A X B CA FA FNC FORC CONTIGUOUS FORTRAN BEHAVED CARRAY FARRAY OWNDATA".split()
    views = "x; x.T; x[:, ::2]; x[:1]; x[0, 0, ...]"
    for view in functions(views, "x", globals()).values():
        flags, expected = view(blob).flags, view(array).flags
        assert [getattr(flags, name) for name in names] == [getattr(expected, n) for n in names]
        assert [flags[key] for key in keys] == [expected[key] for key in keys]
    assert repr(blob.flags) == repr(array.flags).rstrip()
    assert not blob.const.flags.writeable
    assert not blob.const.flags.behaved
    with pytest.raises(AttributeError):
        blob.flags.aligned = False


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("settled", [False, True])
def test_writeable_makes_a_blob_const_from_then_on(device, settled):
    blob = syncblob.asarray(A, device=device) + 1
    row = blob[0] if settled else None
    torch = pytest.importorskip("torch") if settled else None
    if torch:  # it keeps a tensor
        torch.add(blob, 1)
        blob.mutable_cpu_data()
    blob.flags.writeable = False
    assert (blob.flags.writeable, blob.const.base) == (False, blob)
    before = blob.tolist()
    for write in (
        blob.mutable_cpu_data,
        blob.overwrite_gpu_data,
        lambda: operator.iadd(blob, 1),
        lambda: np.add(blob, 1, out=blob),
        lambda: operator.setitem(blob[1], 0, 5),
        lambda: operator.setitem(blob.diff, 0, 5),
        lambda: setattr(blob.flags, "writeable", True),
        lambda: np.from_dlpack(blob).fill(5),
    ):
        with pytest.raises(ValueError, match=r"const; \.copy|read-only"):
            write()
    assert blob.tolist() == before
    blob.copy()[...] = 5
    if settled:  # made before, so still writable, as in NumPy
        row[...] = 5
        assert blob[0].tolist() == [5, 5, 5]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_orders_of_copies_and_of_other_shapes(device, order):
    blob = on(device, np.arange(24.0).reshape(2, 3, 4))
    with syncblob.no_transfers():
        for view in (blob, blob.T, blob[:, ::2], blob.transpose(1, 0, 2)):
            copy = view.copy(order)
            expected = np.empty_like(np.lib.stride_tricks.as_strided(0.0, view.shape, view.strides))
            assert copy.strides == expected.copy(order).strides
            assert (copy.device, copy.memory is blob.memory) == (device, False)
    assert copy.tolist() == view.tolist()
    with pytest.raises(ValueError, match="order"):
        blob.copy("Z")
    if order != "K":
        array = np.asarray(blob)
        for view, same in ((blob, array), (blob.T, array.T)):
            shaped = view.reshape(6, -1, order=order)
            assert shaped.tolist() == same.reshape(6, -1, order=order).tolist()
        assert blob.T.reshape(-1, order="F").memory is blob.memory
    with pytest.raises(ValueError, match="order"):
        blob.reshape(6, 4, order="Z")


def test_a_result_of_repeat_that_cannot_exist_is_refused_before():
    for device, count in (("simulated", 2**59), ("cpu", syncblob.asarray([2**59] * 4))):
        with pytest.raises(ValueError, match=r"exceeds 2\*\*63 - 1 bytes"):
            syncblob.repeat(Blob((2, 4), device=device), count, axis=1)


@pytest.mark.parametrize("method", ["sum", "take", "round", "argmax"])
def test_a_keyword_that_a_method_does_not_have_moves_nothing(method):
    blob = filled(1, 4)
    with pytest.raises(TypeError, match="initially"), syncblob.no_transfers():
        getattr(blob, method)(initially=None)
    assert blob.head is Head.HEAD_AT_CPU
