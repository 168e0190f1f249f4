"""Operators: both orders, in place, operands of all types, and errors."""

import array
import builtins
import enum
import operator
from collections import deque
from contextlib import nullcontext
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from call_texts import functions, texts
from devices import DEVICES
from made_blobs import blob_in

import syncblob as xp
from syncblob import Blob, Head, compute_only_on, no_transfers, use_device
from syncblob.errors import DeviceGuardError

try:
    import torch
except ImportError:
    torch = None

HEADS = [Head.HEAD_AT_CPU, Head.HEAD_AT_GPU, Head.SYNCED]

ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
BITWISE = ("and_", "or_", "xor", "lshift", "rshift")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
IN_PLACE = tuple(f"i{name.removesuffix('_')}" for name in ARITHMETIC + BITWISE)


@pytest.fixture(autouse=True)
def _on_simulated():
    with use_device("simulated"):
        yield


def integers(device="cpu"):
    return xp.asarray([1, 2, 3], device="cpu").to_device(device) + 0


def equal(blob, array):
    """Compare a Blob with an array, including dtype and shape."""
    array = np.asarray(array)
    return (
        type(blob) is Blob
        and (blob.dtype, blob.shape) == (array.dtype, array.shape)
        and np.array_equal(np.asarray(blob), array)
    )


# --- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ARITHMETIC + BITWISE + COMPARISONS)
def test_operators_compute_what_numpys_do(name, device):
    apply = getattr(operator, name)
    array, other = np.array([1, 2, 3]), np.array([[4], [5]])
    blob, second = integers(device), xp.asarray(other, device="cpu").to_device(device)
    with no_transfers():
        results = [apply(blob, second), apply(second, blob), apply(blob, 2), apply(2, blob)]
    expected = [apply(array, other), apply(other, array), apply(array, 2), apply(2, array)]
    for result, reference in zip(results, expected, strict=True):
        assert equal(result, reference)
        assert result.device == device


@pytest.mark.parametrize("name", ["neg", "pos", "abs", "invert"])
def test_operators_of_one_operand(name):
    apply = getattr(operator, name)
    assert equal(apply(integers()), apply(np.array([1, 2, 3])))


def test_matrices_are_multiplied():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    assert equal(Blob.asarray(a) @ Blob.asarray(b), a @ b)
    assert equal(a @ Blob.asarray(b)[:, 0], a @ b[:, 0])
    square = Blob.asarray(b[:, :3].copy()) + 0
    same = square
    square @= square
    assert square is same
    assert equal(square, b[:, :3] @ b[:, :3])


@pytest.mark.parametrize("scalar", [True, 2, -3, 0.5, 1j])
def test_scalars_take_the_dtype_of_the_blob_where_they_can(scalar):
    for dtype in ("int8", "uint16", "float32", "complex64"):
        array = np.array([1, 2], dtype)
        if dtype == "uint16" and scalar == -3:
            with pytest.raises(OverflowError):
                Blob.asarray(array) + scalar
            continue
        assert equal(Blob.asarray(array) + scalar, array + scalar)
        assert equal(scalar * Blob.asarray(array), scalar * array)


# --- operands of other types ---------------------------------------------------------------------

OTHERS = {
    "ndarray": lambda _: np.array([4, 5, 6]),
    "strided ndarray": lambda _: np.arange(10)[::3][1:],
    "read-only ndarray": lambda _: np.broadcast_to(np.array(4), 3),
    "ndarray of another byte order": lambda _: np.array([4, 5, 6], ">i4"),
    "scalar of NumPy": lambda _: np.int64(4),
    "float32 scalar": lambda _: np.float32(4),
    "Python integer": lambda _: 4,
    "Python float": lambda _: 0.5,
    "array without axes": lambda _: np.array(4),
    "const view": lambda _: (integers() * 4).const,
    "view": lambda device: integers(accelerator_beside(device))[::-1],
    "tensor": lambda _: torch.tensor([4, 5, 6]),
    "tensor without axes": lambda _: torch.tensor(2.0),
}


def accelerator_beside(device):
    return "simulated:0" if device == "cpu" else device


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", list(OTHERS))
def test_operands_of_other_libraries_are_taken(name, device):
    if torch is None and "tensor" in name:
        pytest.skip("torch is not installed")
    blob, array, other = integers(device) * 1.0, np.array([1.0, 2, 3]), OTHERS[name](device)
    reference = other if isinstance(other, (int, float)) else np.asarray(other).copy()[()]
    for apply in (operator.sub, operator.truediv, operator.lt, operator.eq, operator.ne):
        result, reflected = apply(blob, other), apply(other, blob)
        assert equal(result, apply(array, reference))
        assert result.device == (accelerator_beside(device) if name == "view" else device)
        assert np.array_equal(np.asarray(reflected), apply(reference, array))
        # Torch decides what its operators return: see docs/torch.md.
        assert type(reflected) is (torch.Tensor if "tensor" in name else Blob)
    blob -= other
    assert equal(blob, array - reference)
    assert np.array_equal(other, reference)


class Unknown:
    """An operand that defines addition from either side."""

    def __add__(self, _):
        return "added"

    __radd__ = __add__

    def __eq__(self, _):
        return True

    __hash__ = None


def test_unknown_operands_have_their_turn():
    blob = integers()
    assert blob + Unknown() == Unknown() + blob == "added"
    assert (blob == Unknown()) is True
    for name in ("__add__", "__radd__", "__iadd__", "__eq__", "__lt__", "__matmul__", "__rpow__"):
        assert getattr(blob, name)(Unknown()) is NotImplemented
        assert getattr(blob, name)(None) is NotImplemented
        assert getattr(blob, name)("text") is NotImplemented
    for apply in (operator.add, operator.iadd, operator.lt):
        for other in (None, "1", [1, 2, 3], object()):
            with pytest.raises(TypeError):
                apply(blob, other)
    assert blob.tolist() == [1, 2, 3]


# --- in place ------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [*DEVICES, *HEADS])
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_operators_write_where_the_blob_is(name, made):
    apply = getattr(operator, name)
    dtype = "float64" if name == "itruediv" else "int64"
    if isinstance(made, Head):
        blob = blob_in(made, dtype, (3,))
    else:
        blob = integers(made) if dtype == "int64" else integers(made) * 1.0
    device, memory = blob.device, blob.memory
    expected = np.array([0, 1, 2] if isinstance(made, Head) else [1, 2, 3], dtype)
    counts = np.array([1, 2, 3], dtype)
    for other in (2, "reversed", xp.asarray(counts, device="cpu").to_device(device)):
        operand, reference = other, counts if isinstance(other, Blob) else other
        if isinstance(other, str):
            operand, reference = blob[::-1], expected[::-1].copy()
        view = blob
        with no_transfers(), np.errstate(all="ignore"):
            blob = apply(blob, operand)
            expected = apply(expected, reference)
        assert blob is view
        assert blob.memory is memory
        assert blob.device == device
        assert blob.head is (Head.HEAD_AT_CPU if device == "cpu" else Head.HEAD_AT_GPU)
        assert np.array_equal(blob[...].copy(), expected, equal_nan=dtype == "float64")
        if device == "cpu":
            blob.mutable_cpu_data()
        else:
            blob.mutable_gpu_data()


def test_in_place_operators_write_without_another_array(simulated):
    blob = integers("simulated:0") * 1.0
    start = blob.mutable_gpu_data().__array_interface__["data"][0]
    simulated.reset_counts()
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"):
        blob = getattr(operator, name)(blob, 3)
        assert blob.gpu_data().__array_interface__["data"][0] == start
    assert (simulated.allocations, simulated.uploads, simulated.downloads) == (0, 0, 0)


def test_in_place_on_the_host_with_an_operand_on_the_accelerator_is_computed_there():
    blob, other = integers("cpu"), integers("simulated:0")
    view = blob[1:]
    blob += other
    # The newest contents are on the side that computed them. The device of a Blob never changes.
    assert (blob.device, blob.head) == ("cpu", Head.HEAD_AT_GPU)
    assert (view.device, view.head) == ("cpu", Head.HEAD_AT_GPU)
    assert (blob.tolist(), view.tolist()) == ([2, 4, 6], [4, 6])
    assert ((blob + 1).device, (blob + other).device) == ("cpu", "simulated:0")
    host, blob = integers("cpu"), integers("simulated:0")
    blob += host
    assert (blob.device, host.device) == ("simulated:0", "cpu")
    assert (blob.tolist(), host.tolist()) == ([2, 4, 6], [1, 2, 3])


def test_a_power_takes_no_modulus():
    for base, exponent in ((xp.ones(3), 2), (2, xp.ones(3))):
        with pytest.raises(TypeError):
            pow(base, exponent, 3)


# --- errors of in-place operators ----------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("other", [2, np.int8(2), "Blob", "another Blob", "ndarray"])
def test_integers_are_not_divided_in_place_and_the_error_names_the_dtypes(other, size, device):
    blob = xp.ones(size, dtype="int32", device=device)
    if isinstance(other, str):
        made = {
            "Blob": blob,
            "another Blob": xp.ones(size, dtype="int8", device=device),
            "ndarray": np.ones(size, "int32"),
        }
        other = made[other]
    message = "in-place divide keeps the dtype, int32, and the result would be float64; write x ="
    with pytest.raises(TypeError, match=message):
        blob /= other
    assert blob.tolist() == [1] * size


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("made", ["fresh", "at the other side"])
@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_bfloat16_takes_python_floats_in_place_as_numpy_does(name, made, device):
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    if device.startswith("sycl"):
        pytest.skip("dpnp has no bfloat16")
    numbers = np.array([1, 2.5, 3], dtype)
    expected = getattr(operator, name)(numbers.copy(), 0.75)
    blob = xp.positive(xp.asarray(numbers, device=device))
    if made != "fresh":
        blob = blob.on(accelerator_beside(device))
        blob.mutable_gpu_data() if device == "cpu" else blob.mutable_cpu_data()
        blob = blob.on(device)
    assert getattr(operator, name)(blob, 0.75) is blob
    assert blob.dtype == dtype
    np.testing.assert_array_equal(np.asarray(blob), expected)


def test_bfloat16_takes_no_wider_numbers_in_place():
    pytest.importorskip("ml_dtypes")
    blob = xp.ones(3, dtype="bfloat16")
    for other, dtype in ((np.float64(0.5), "float64"), (0.5j, "complex")):
        with pytest.raises(TypeError, match=f"bfloat16.* {dtype}"):
            blob *= other
    assert blob.tolist() == [1] * 3


# The error, and the operator, the Blob and the other operand, a number or an array, of each call.
REFUSED = {
    "TypeError": """
        iadd int32[3] 1.5; iadd int32[3] float32[3]; iadd int8[3] int16[3];
        imul float32[3] float64[3]; imul float32[3] 1j; itruediv int32[3] 2;
        itruediv int32[3] int32[3]; ipow bool[3] bool[3]; ifloordiv bool[3] bool[3];
        ifloordiv bool[3] True; isub bool[3] bool[3]; ilshift float32[3] 1;
        iand float32[3] float32[3]
        """,
    "OverflowError": "iadd uint8[3] -1; iadd uint8[3] 256",
    "ValueError": """
        iadd int32[3] int32[2,3]; iadd int32[3] int32[1,3]; iadd int32[] int32[1];
        iadd int32[1] int32[0]; iadd int32[3] int32[2]; ifloordiv int32[3] int32[1,3];
        ifloordiv float32[] float32[1]; ipow float32[2,1] float32[2,3];
        imatmul float32[2,2] float32[2]; imatmul float32[2,2] float32[1,2,2];
        imatmul float32[2,2] float32[2,1]; imatmul float32[2] float32[2]; imatmul float32[2,2] 2.0
        """,
}


def typed(text):
    """Return the dtype and the shape of an array in the table, or a number."""
    dtype, bracket, shape = text.rstrip("]").partition("[")
    if not bracket:
        return eval(text)  # noqa: S307  # of the table
    return dtype, tuple(int(dim) for dim in shape.split(",") if dim)


@pytest.mark.parametrize("made", ["fresh", *HEADS])
@pytest.mark.parametrize(
    ("call", "error"), [(call, error) for error, calls in REFUSED.items() for call in texts(calls)]
)
def test_what_is_refused_in_place_has_changed_nothing(call, error, made):
    name, *operands = call.split()
    (dtype, shape), other = map(typed, operands)
    if isinstance(made, Head):
        blob = blob_in(made, dtype, shape)
    else:
        blob = (
            xp.positive(xp.ones(shape, dtype=dtype))
            if dtype != "bool"
            else ~xp.ones(shape, dtype=dtype)
        )
    before, device = blob.tobytes(), blob.device
    if isinstance(made, Head) and made is Head.HEAD_AT_GPU:
        blob.mutable_gpu_data()
    operands = [other]
    if isinstance(other, tuple):
        operands = [
            xp.ones(other[1], dtype=other[0], device=where) for where in ("cpu", "simulated:0")
        ]
        operands += [np.ones(other[1], other[0])]
    for operand in operands:
        # NumPy finds that matrices do not fit, where they are multiplied. Arrays are taken first.
        moves, head = name == "imatmul" or isinstance(operand, np.ndarray), blob.head
        with nullcontext() if moves else no_transfers(), pytest.raises(getattr(builtins, error)):
            getattr(operator, name)(blob, operand)
        assert (blob.shape, blob.dtype, blob.device) == (shape, np.dtype(dtype), device)
        assert moves or blob.head is head
        assert blob.tobytes() == before


def test_what_is_const_is_refused_before_operands_are_transferred():
    const, other = xp.ones(3, device="simulated:0").const, integers("cpu")
    mask = xp.ones(3, dtype="bool", device="simulated:0")
    mask.mutable_cpu_data()
    writes = [
        lambda: operator.iadd(const, other),
        lambda: operator.iadd(const, other.on("simulated:1")),
        lambda: np.add(other, 1, out=const),
        lambda: np.copyto(const, other, where=mask),
    ]
    for write in writes:
        with no_transfers(), pytest.raises(ValueError, match="const view"):
            write()


def test_const_views_refuse_in_place_operators():
    blob = integers()
    for const in (blob.const, blob[1:].const, blob.const[::-1], (blob + 0).const):
        for name in (*IN_PLACE, "imatmul"):
            before = const.tolist()
            with pytest.raises(ValueError, match="const view"):
                getattr(operator, name)(const, 1)
            assert const.tolist() == before
        # A result can be assigned to the name of a const view.
        assert (const + 1).tolist() == [value + 1 for value in const.tolist()]


class Label(enum.IntEnum):
    CAT = 2


class Ratio(float):
    """A float with its own operators."""

    def __radd__(self, _):
        return "added"

    def __eq__(self, _):
        return True

    __hash__ = None


class Declining(int):
    """An int that declines operators with arrays."""

    __array_ufunc__ = None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "number",
    [Label.CAT, type("Float", (float,), {})(2.5), type("Complex", (complex,), {})(2j)],
    ids=["int", "float", "complex"],
)
def test_subclasses_of_numbers_act_as_with_ndarrays(device, number):
    x = xp.asarray([1, 2, 3], dtype="float32", device=device)
    array = np.array([1, 2, 3], "float32")
    for name in ("eq", "ne", "add", "sub", "mul", "truediv"):
        apply = getattr(operator, name)
        assert equal(apply(x, number), apply(array, number))
        assert equal(apply(number, x), apply(number, array))
        assert apply(x, number).dtype == apply(array, number).dtype
    for name in ("add", "divide", "maximum", "not_equal"):
        function, of_numpy = getattr(xp, name), getattr(np, name)
        for result, expected in (
            (function(x, number), of_numpy(array, number)),
            (function(number, x), of_numpy(number, array)),
        ):
            assert (result.dtype, result.device) == (expected.dtype, x.device)
            assert equal(result, expected)
    assert equal(xp.where(x > 1, x, number), np.where(array > 1, array, number))
    assert xp.result_type(x, number) == np.result_type(array, number)
    if number == Label.CAT:
        assert equal(x[x == number], array[1:2])
        assert number in x
        assert equal(x < number, array < number)
        y = x
        y *= number
        assert y is x
        assert equal(x, array * 2)
    with pytest.raises(TypeError, match="expects a Blob"):
        xp.add(number, number)


def test_numbers_with_operators_of_their_own_have_their_turn():
    x = integers()
    assert x + Ratio(1) == "added"
    assert (x == Ratio(1)) is True
    assert equal(x - Ratio(1), np.array([0.0, 1, 2]))
    assert equal(Ratio(1) + x, np.array([2.0, 3, 4]))
    for apply in (operator.add, operator.iadd, operator.lt, xp.add):
        with pytest.raises(TypeError):
            apply(x, Declining(1))
    assert (x == Declining(1)) is False
    x += Ratio(1)
    assert x == "added"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "other",
    [
        range(1, 4),
        deque([1, 5, 3]),
        array.array("i", [1, 5, 3]),
        bytearray(b"\1\5\3"),
        memoryview(b"\1\5\3"),
        Fraction(2),
        Decimal(2),
        [Fraction(1), None, 10**30],
    ],
    ids=lambda other: type(other).__name__,
)
def test_sequences_and_numbers_are_compared_as_by_an_array(device, other):
    x, array = integers(device), np.array([1, 2, 3])
    for apply in (operator.eq, operator.ne):
        result = apply(x, other)
        assert equal(result, apply(array, other))
        assert result.device == device
    with pytest.raises(TypeError):
        _ = x < other


def test_numbers_that_python_compares_are_compared_on_the_host():
    x = integers("simulated:0")
    with compute_only_on("simulated"), pytest.raises(DeviceGuardError, match=r"equal .* cpu"):
        _ = x == Fraction(2)


@pytest.mark.parametrize("device", DEVICES)
def test_lists_and_tuples_are_compared_element_by_element(device):
    x = integers(device)
    array = np.array([1, 2, 3])
    for other in ([1, 5, 3], (1, 5, 3), [[1], [3]]):
        assert equal(x == other, array == other)
        assert equal(other != x, array != other)
    for other in (None, "text", b"text", ["text"], {}, {1}, object(), np.ndarray):
        assert (x == other) is False
        assert (x != other) is True
    with pytest.raises(ValueError, match="broadcast"):
        _ = x == [1, 2]
    with pytest.raises(TypeError):
        _ = x < [1, 5, 3]


@pytest.mark.parametrize("device", DEVICES)
def test_dtypes_that_an_operator_does_not_take_are_a_type_error(device):
    x = xp.ones(3, device=device)
    for call in (lambda: x & 1, lambda: 1 << x, lambda: ~x, lambda: np.gcd(x, x)):
        with pytest.raises(TypeError):
            call()


# --- integers that do not fit, as in NumPy --------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("number", [-(2**70), -1, 127, 300, 2**63, 2**64])
def test_integers_of_any_size_are_operands(device, dtype, number):
    limits = np.iinfo(dtype)
    array = np.array([limits.min, 1, limits.max], dtype)
    x = xp.asarray(array, device=device)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        compare = getattr(operator, name)
        expected = [compare(int(each), number) for each in array]
        assert compare(x, number).tolist() == expected
        assert compare(x, number).device == device
    assert (x / number).tolist() == (array / number).tolist()
    assert (number / x[1:]).tolist() == (number / array[1:]).tolist()
    out = xp.zeros(3, dtype="bool", device=device)
    assert np.less(number, x, out=out) is out
    assert out.tolist() == [number < int(each) for each in array]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "call",
    functions(
        """
        np.full_like(x, 300); np.full_like(x, fill_value=-200); np.full_like(x, 300, dtype='uint8');
        xp.full_like(x, 300); x + 300; np.copyto(x, 300); np.copyto(src=-300, dst=x);
        np.putmask(x, x > 1, 300); x.put([0], 300); np.pad(x, 1, constant_values=300)
        """,
        "x",
        globals(),
    ).values(),
)
def test_an_integer_that_does_not_fit_raises(device, call):
    x = xp.asarray(np.array([1, 2, 3], "int8"), device=device)
    with pytest.raises(OverflowError):
        call(x)
    assert x.tolist() == [1, 2, 3]
    assert np.full_like(x, 300, dtype="int16").tolist() == [300] * 3
    x.put([0], 100)
    assert x.tolist() == [100, 2, 3]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("exponent", [-1, np.int64(-1), [1, 0, -2]])
def test_integers_have_no_negative_powers(device, exponent):
    x = xp.asarray(np.array([1, 2, 3], "int8"), device=device)
    calls = [operator.pow, np.power, xp.pow]
    if type(exponent) is list:
        exponent = xp.asarray(np.array(exponent, "int8"), device=device)
    else:
        # With an array, NumPy raises after it has written what precedes.
        calls.append(operator.ipow)
    for call in calls:
        with pytest.raises(ValueError, match="negative integer"):
            call(x, exponent)
    assert x.tolist() == [1, 2, 3]
    assert (xp.astype(x, "float32") ** -1).tolist() == pytest.approx([1, 1 / 2, 1 / 3])
    assert (x ** abs(exponent)).tolist() == (np.asarray(x) ** np.asarray(abs(exponent))).tolist()
