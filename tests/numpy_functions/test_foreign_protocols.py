"""Functions and operators with array-likes that implement NumPy's protocols themselves."""

import operator
from fractions import Fraction

import numpy as np
import pytest
from made_blobs import on

from syncblob import Blob, TransferGuardError, no_transfers, record_transfers
from syncblob.calls.nested import replace_instances

A = np.array([[1.5, -2.0, 4.0], [0.5, 8.0, -3.0]])
MASK = np.array([[True, False, True], [False, True, True]])
DEVICES = ["cpu", "simulated:0"]


class Stranger:
    """An array-like that implements both protocols."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return "ufunc", ufunc

    def __array_function__(self, func, types, args, kwargs):
        return "function", func

    def __radd__(self, other):
        return "radd"


class Doubled(np.lib.mixins.NDArrayOperatorsMixin):
    """Accepts ndarrays and objects of its own type, like `sparse.COO` and Astropy's quantities."""

    def __init__(self, array):
        self.array = array

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **kwargs):
        if not all(isinstance(x, (np.ndarray, float, Doubled)) for x in (*inputs, *out)):
            return NotImplemented
        return getattr(ufunc, method)(
            *replace_instances(inputs, Doubled, Doubled.doubled), **kwargs
        )

    def __array_function__(self, func, types, args, kwargs):
        if not all(issubclass(kind, (np.ndarray, Doubled)) for kind in types):
            return NotImplemented
        args, kwargs = replace_instances((args, kwargs), Doubled, Doubled.doubled)
        return Doubled(func(*args, **kwargs))

    def doubled(self):
        return 2 * self.array

    @property
    def shape(self):
        return self.array.shape


class Raising(Doubled):
    """Raises where others return NotImplemented, like `sparse.COO` in ``matmul``."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        answer = super().__array_ufunc__(ufunc, method, *inputs, **kwargs)
        if answer is NotImplemented:
            raise TypeError("Unsupported types.")
        return answer


class Variable:
    """The variable of a solver, which takes Python's and NumPy's numbers, as OR-Tools' does."""

    def with_number(self, other):
        if isinstance(other, Blob):
            raise TypeError("expected a number")
        return "variable", float(other)

    __rmul__ = __radd__ = __rsub__ = __eq__ = __ge__ = __rtruediv__ = with_number
    __hash__ = None

    def __add__(self, other):
        return NotImplemented if isinstance(other, Blob) else self.with_number(other)


class UfuncVariable:
    """A variable that calls the operator for a ufunc, as that of PySCIPOpt does."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if any(isinstance(x, np.ndarray) and x.shape for x in inputs):
            return "matrix"
        inputs = [x.item() if isinstance(x, (np.generic, np.ndarray)) else x for x in inputs]
        return operator.mul(*inputs)

    def __rmul__(self, other):
        return "variable", float(other)

    __mul__ = __rmul__


class Unkept(Doubled):
    """Its reflected operator is wrong, as in pint, but ndarrays only call the ufunc."""

    def __rmatmul__(self, other):
        return self @ other


@pytest.mark.parametrize("x", [A, on("cpu", A)], ids=["ndarray", "Blob"])
def test_types_with_their_own_answer_are_asked(x):
    assert np.add(x, Stranger()) == ("ufunc", np.add)
    assert np.concatenate([x, Stranger()]) == ("function", np.concatenate)
    assert x + Stranger() == ("ufunc", np.add)


def test_who_knows_blobs_is_asked_before_it_is_an_array():
    dask = pytest.importorskip("dask.array")
    blob = on("simulated:0", A)
    chunked = dask.from_array(A.T, chunks=2)
    lazy = [np.tensordot(blob, chunked, 1), np.concatenate([blob, chunked.T]), blob + chunked.T]
    assert {type(one) for one in lazy} == {type(chunked)}
    with no_transfers():
        assert np.stack([on("cpu", A), Doubled(A), Stranger()]) == ("function", np.stack)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("made", [Doubled, lambda a: np.ma.masked_array(a, MASK)])
def test_who_declines_a_blob_gets_a_const_array(device, made):
    def results(x):
        other = made(A)
        yield from (np.hypot(x, other), np.hypot(other, x), x * other, other - x, x <= other)
        yield from (x % other, other == x)
        yield from np.divmod(other, x)

    blob = on(device, A)
    for actual, expected in zip(results(blob), results(A), strict=True):
        assert type(actual) is type(expected)
        assert repr(np.ma.asarray(actual).tolist()) == repr(np.ma.asarray(expected).tolist())


FUNCTIONS = {
    "dot": lambda x, other: np.dot(x, other(A.T)),
    "dot, the other first": lambda x, other: np.dot(other(A.T), x),
    "tensordot": lambda x, other: np.tensordot(other(A.T), x, axes=1),
    "a list": lambda x, other: np.concatenate([x, other(A)]),
    "keywords": lambda x, other: np.average(x, axis=0, weights=other(A)),
    "nested": lambda x, other: np.block([[x, other(A)], [other(A), x]]),
    "a method": lambda x, other: x.dot(other(A.T)),
    "linalg": lambda x, other: np.linalg.solve(x[:, :2], other(A[:, 1:])),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_give_who_declines_a_const_array(function, device):
    seen = []

    class Witness(Doubled):
        def __array_function__(self, func, types, args, kwargs):
            answer = super().__array_function__(func, types, args, kwargs)
            if answer is not NotImplemented:
                replace_instances((args, kwargs), np.ndarray, seen.append)
            return answer

    blob = on(device, A)
    if function is FUNCTIONS["a method"]:
        expected = Doubled(A.dot(2 * A.T))
    else:
        expected = function(A, Doubled)
    actual = function(blob, Witness)
    assert type(actual) is Doubled
    assert actual.array.tolist() == expected.array.tolist()
    assert seen
    assert not any(array.flags.writeable for array in seen)
    assert (blob.device, blob.tolist()) == (on(device, A).device, A.tolist())


def test_a_guard_forbids_the_download():
    blob = on("simulated:0", A)
    with no_transfers(), pytest.raises(TransferGuardError):
        np.concatenate([blob, Doubled(A)])
    assert np.concatenate([blob, Doubled(A)]).array.shape == (4, 3)
    for call in (np.hypot, operator.mul):
        # Those that raise for a Blob get a const array, too.
        assert call(blob, Raising(A)).tolist() == call(A, Raising(A)).tolist()


@pytest.mark.parametrize("call", [np.dot, np.array_equal, lambda a, b: np.concatenate([a, b])])
def test_masked_arrays_are_refused_for_their_masks_would_be_lost(call):
    with pytest.raises(TypeError, match="MaskedArray"):
        call(on("cpu", A), np.ma.masked_array(A, MASK))
    with pytest.raises(TypeError, match="mask"):
        call(np.ma.masked_array(A, MASK), on("cpu", A))


def test_who_declines_cannot_write_a_blob():
    blob = same = on("cpu", A)
    for write in (
        lambda: np.add(blob, Doubled(A), out=blob),
        lambda: np.add.at(blob, [0], Doubled(A[0])),
        lambda: np.copyto(blob, Doubled(A)),
        lambda: np.dot(Doubled(A), A.T, out=blob[:, :2]),
        lambda: np.stack([Doubled(A[0]), A[1]], 0, blob),
    ):
        with pytest.raises(TypeError, match="Doubled"):
            write()
    with pytest.raises(TypeError, match=r"add .*Doubled"):
        blob += Doubled(A)
    assert blob is same
    assert blob.tolist() == A.tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_operators_ask_by_the_ufunc_as_ndarrays_do(device):
    blob, other = on(device, A[:, :2]), Unkept(A[:, 1:])
    assert (
        (blob @ other).tolist()
        == (A[:, :2] @ other).tolist()
        == (A[:, :2] @ (2 * A[:, 1:])).tolist()
    )


@pytest.mark.parametrize("device", DEVICES)
def test_a_0d_blob_is_a_number_to_objects_with_operators(device):
    blob, variable = on(device, A), Variable()
    item = blob[0, 0]
    item[...] = 1.5
    with record_transfers() as log:
        for name in ("mul", "add", "sub", "eq", "le", "truediv", "imul"):
            assert getattr(operator, name)(item, variable) == ("variable", 1.5)
    assert log.nbytes <= 7 * item.nbytes
    assert (variable + item, item != variable) == (("variable", 1.5), False)
    assert np.multiply(item, variable) == ("variable", 1.5)
    assert item + Fraction(1, 2) == 2.0
    with pytest.raises(TypeError, match="'Blob' and 'Variable'"):
        item @ variable
    for other in ([1.5], "text", {}):
        with pytest.raises(TypeError, match="Blob"):
            item + other
    with no_transfers():
        assert item.__mul__(None) is NotImplemented
        assert blob.__mul__(variable) is NotImplemented


@pytest.mark.parametrize("device", DEVICES)
def test_an_object_with_only_a_ufunc_gets_numpys_values(device):
    blob, variable = on(device, A), UfuncVariable()
    item = blob[0, 0]
    item *= variable
    assert item == ("variable", 1.5)
    for x in (A, blob):
        assert x * variable == np.multiply(x, variable) == "matrix"
        for item in (x[0, 0], x[0, 0, ...]):
            assert item * variable == np.multiply(item, variable) == ("variable", 1.5)


class Lazy:
    """An array that cannot be exported, and has no device, as ndonnx's."""

    __array_priority__ = 1

    def __dlpack_device__(self):
        raise ValueError("no control over the device")

    def __dlpack__(self, **kwargs):
        raise BufferError("no export")

    def __radd__(self, other):
        return NotImplemented if isinstance(other, Blob) else ("lazy", other.tolist())

    __add__ = __radd__


class Concrete(Lazy):
    """The same with values."""

    def __array__(self, dtype=None, copy=None):
        return A + 1


@pytest.mark.parametrize("device", DEVICES)
def test_an_array_without_a_device_is_taken_by_its_values_or_left_to_its_operators(device):
    blob = on(device, A)
    assert blob + Lazy() == Lazy() + blob == ("lazy", A.tolist())
    total = blob + Concrete()
    assert (total.device, total.tolist()) == (blob.device, (2 * A + 1).tolist())
    assert Blob.asarray(Concrete()).tolist() == (A + 1).tolist()
    with pytest.raises(BufferError, match="no control"):
        Blob.asarray(Lazy())
    with pytest.raises(TypeError, match="Lazy"):
        blob += Lazy()


def test_scipys_sparse_arrays_get_an_array():
    sparse = pytest.importorskip("scipy.sparse")
    array, blob = sparse.csr_array(A), on("simulated:0", A)
    for name in ("add", "sub", "mul", "eq", "lt", "ge"):
        compute = getattr(operator, name)
        for both in (lambda x, f=compute: f(array, x), lambda x, f=compute: f(x, array)):
            actual, expected = both(blob), both(A)
            assert type(actual) is type(expected)
            assert (actual != expected).sum() == 0
    with pytest.raises(TypeError, match=r"add .*csr_array"):
        blob += array
    with pytest.raises(TypeError, match="csr_array"):
        blob / array
    assert blob.tolist() == A.tolist()
