"""Results in which the standard differs from NumPy or CuPy, on every device.

The tests of all functions compare their usual results with NumPy's: see `test_bit_for_bit`.
"""

import itertools

import numpy as np
import pytest
from call_texts import texts
from hypothesis import given
from hypothesis import strategies as st

import syncblob as xp
from syncblob import Blob, linalg

A = np.arange(12).reshape(3, 4)
S = np.array([[1, 4, 9, 16], [0, 0, 5, 7]])
NAN = float("nan")

# The calls, with Blobs made by `on`, and their results.
RESULTS = [
    # --- scalars ---
    # The standard: a scalar becomes an array with the dtype that it has in operations with x1. In
    # double precision, 0.2 is less than the nearest single precision number.
    ("xp.searchsorted(on([0.1, 0.2, 0.3], 'f4'), 0.2, side='right')", 2),
    ("xp.searchsorted(on([0.1, 0.2, 0.3], 'f4'), 1)", 3),
    ("xp.searchsorted(on([1, 2, 3]), 2.5)", 2),
    # The standard since 2024.12: x1 or x2 of `where` may be a scalar.
    ("xp.where(on([True, False]), on([1, 2], 'i1'), 3)", np.array([1, 3], "i1")),
    ("xp.where(on([True, False]), 3, on([1, 2], 'i1'))", np.array([3, 2], "i1")),
    ("xp.where(on([True, False]), on([1, 2], 'f4'), 2.5)", np.array([1, 2.5], "f4")),
    ("xp.where(on([True, False]), 7, on([1, 2], 'f4'))", np.array([7, 2], "f4")),
    ("xp.where(on([True, False]), on([1, 2], 'c8'), 1j)", np.array([1, 1j], "c8")),
    ("xp.where(on([True, False]), on([True, True]), False)", [True, False]),
    # The standard since 2025.12: either argument of `isin` may be a scalar. Elements are compared
    # as by `equal`; 300 modulo 256 is 44.
    ("xp.isin(on([[1, 2], [3, 4]]), on([2, 4, 6]))", [[False, True], [False, True]]),
    ("xp.isin(on([[1, 2], [3, 4]]), on([2, 4]), invert=True)", [[True, False], [True, False]]),
    ("xp.isin(on([1, 2]), 2)", [False, True]),
    ("xp.isin(2, on([[1], [2]]))", True),
    ("xp.isin(9, on([1, 2]))", False),
    ("xp.isin(on([nan, 1.0]), on([nan, 1.0]))", [False, True]),
    ("xp.isin(on([-0.0]), on([0.0]))", [True]),
    ("xp.isin(on([], 'f8'), on([1]))", np.zeros(0, bool)),
    ("xp.isin(on([0.1], 'f4'), 0.1)", [True]),
    ("xp.isin(on([1, 44], 'i1'), 300)", [False, False]),
    ("xp.isin(300, on([1, 44], 'i1'), invert=True)", True),
    # --- indices of every integer dtype; NumPy refuses uint64 ---
    *(
        row
        for dtype in ("i1", "u2", "i8", "u8")
        for row in (
            (f"xp.take(on(A), on([2, 0, 0], '{dtype}'), axis=0)", A[[2, 0, 0]]),
            (f"xp.take(on(A), on([2, 0, 0], '{dtype}'), axis=-1)", A[:, [2, 0, 0]]),
            (f"xp.take_along_axis(on(A), on([[1], [0], [3]], '{dtype}'))", [[1], [4], [11]]),
            # The standard: the other axes are broadcast.
            (f"xp.take_along_axis(on(A), on([[2, 1, 0, 0]], '{dtype}'), axis=0)", [[8, 5, 2, 3]]),
            (f"xp.take_along_axis(on(A), on([[1, 1]], '{dtype}'), axis=1)", A[:, [1, 1]]),
            (f"xp.repeat(on(A), on([2, 0, 1], '{dtype}'), axis=0)", A[[0, 0, 2]]),
            (f"xp.repeat(on(A), on([1, 2, 0, 0], '{dtype}'), axis=-1)", A[:, [0, 1, 1]]),
            (f"xp.repeat(on([[1, 2]]), on([3], '{dtype}'))", [1, 1, 1, 2, 2, 2]),
            (
                f"xp.searchsorted(on([3, 1, 2]), on([[2], [0]]), sorter=on([1, 2, 0], '{dtype}'))",
                [[1], [0]],
            ),
        )
    ),
    # The standard since 2024.12: -1 is the last element. With one axis, `axis` is optional.
    ("xp.take(on([5, 6, 7]), on([-1, 0]))", [7, 5]),
    ("xp.take(on([5, 6, 7]), on([], 'i8'))", np.zeros(0, int)),
    ("xp.take_along_axis(on(A), on([[-1]] * 3))", [[3], [7], [11]]),
    # --- differences: the axis has M + N1 + N2 - n elements; NumPy ignores N1 and N2 if n is 0 ---
    *(
        row
        for n in (0, 1, 2)
        for row in (
            (
                f"xp.diff(on(S), n={n}, prepend=on(S[:, :1] - 5), append=on(S[:, :2] + 30))",
                np.diff(np.concatenate([S[:, :1] - 5, S, S[:, :2] + 30], axis=1), n=n),
            ),
            (
                f"xp.diff(on(S), n={n}, append=on(S[:, :2] + 30))",
                np.diff(np.concatenate([S, S[:, :2] + 30], axis=1), n=n),
            ),
        )
    ),
    # --- unique elements: each NaN is another one, with a count of one; zeros are the same ---
    ("xp.unique_values(on([nan, 1.0, nan]))", [1.0, NAN, NAN]),
    ("xp.unique_counts(on([nan, 1.0, nan])).counts", [1, 1, 1]),
    ("xp.unique_all(on([complex(0, nan)] * 2)).counts", [1, 1]),
    ("xp.unique_counts(on([0.0, -0.0, 0.0])).counts", [3]),
    ("xp.unique_all(on(5)).inverse_indices", 0),
    ("xp.unique_all(on([[3, 1], [3, 2]], 'i2')).values", np.array([1, 2, 3], "i2")),
    ("xp.unique_all(on([[3, 1], [3, 2]], 'i2')).indices", [1, 3, 0]),
    ("xp.unique_all(on([[3, 1], [3, 2]], 'i2')).inverse_indices", [[2, 0], [2, 1]]),
    ("xp.unique_inverse(on([[3, 1], [3, 2]])).inverse_indices", [[2, 0], [2, 1]]),
    ("xp.unique_counts(on([[3, 1], [3, 2]])).counts", [1, 1, 2]),
    # --- sums ---
    *(
        row
        for name, initial in (("cumulative_sum", 0), ("cumulative_prod", 1))
        for row in (
            (f"xp.{name}(on(5))", [5]),
            (f"xp.{name}(on(5), include_initial=True)", [initial, 5]),
        )
    ),
    *(
        (f"xp.{name}(on([2], 'i1'), axis=0, dtype='{dtype}')", np.array(result, dtype))
        for name, result in (
            ("sum", 2),
            ("prod", 2),
            ("cumulative_sum", [2]),
            ("cumulative_prod", [2]),
        )
        for dtype in ("int32", "float64", "complex128")
    ),
    *(
        (f"linalg.trace(on([[100] * 3] * 3, '{dtype}'))", np.array(300, total))
        for dtype, total in zip(
            "i1 i8 u1 f4 f8 c8".split(), "i8 i8 u8 f4 f8 c8".split(), strict=True
        )
    ),
    ("linalg.trace(on([[100] * 3] * 3, 'i1'), dtype=xp.uint16)", np.uint16(300)),
    ("linalg.trace(on([[1.0, 0], [0, 1]]), offset=7)", 0.0),
    # --- ranks: singular values above `rtol` times the largest ---
    ("linalg.matrix_rank(on([diag(8.0, 4, 1), diag(8, 0, 0), diag(0, 0, 0)]))", [3, 1, 0]),
    ("linalg.matrix_rank(on([diag(8.0, 4, 1), diag(8, 0, 0)]), rtol=0.5)", [1, 1]),
    ("linalg.matrix_rank(on([diag(8.0, 4, 1)] * 2), rtol=on([0.0, 0.3]))", [3, 2]),
    ("linalg.matrix_rank(on([diag(8.0, 4, 1)] * 2), rtol=on(0.3))", [2, 2]),
    # max(M, N) * eps is 4.8e-7 for float32.
    ("linalg.matrix_rank(on(diag(1, 1, 1, 3e-7), 'f4'))", 3),
    ("linalg.matrix_rank(on(np.ones((0, 3))))", 0),
    ("linalg.matrix_rank(on(np.ones((2, 0, 3))))", [0, 0]),
    ("linalg.matrix_rank(on(np.ones((0, 2, 2))))", np.zeros(0, int)),
    ("linalg.pinv(on(np.ones((2, 0, 3))))", np.ones((2, 3, 0))),
    ("linalg.slogdet(on(np.zeros((2, 2))))[0]", 0.0),
    ("linalg.slogdet(on(np.zeros((2, 2))))[1]", -np.inf),
    # --- products ---
    ("linalg.outer(on([1j, 2]), on([1j, 1]))", [[-1, 1j], [2j, 2]]),
    ("linalg.cross(on([[1], [0], [0]]), on([[[0], [1], [0]]]), axis=-2)", [[[0], [0], [1]]]),
    # --- shapes ---
    ("xp.flip(on(5), axis=())", 5),
    ("xp.broadcast_to(on(1.0), (0, 2))", np.ones((0, 2))),
    ("xp.reshape(on([[1, 2, 3], [4, 5, 6]]).T, (6,))", [1, 4, 2, 5, 3, 6]),
    ("xp.unstack(on([[1, 2], [3, 4]]), axis=1)[1]", [2, 4]),
    ("xp.concat((on([1], 'f4'), on([2], 'f8')))", [1.0, 2.0]),
    ("xp.concat([on([[1]]), on([[2]])], axis=-1)", [[1, 2]]),
    ("xp.concat([on([[1]]), on([[2]])], axis=None)", [1, 2]),
    ("xp.stack([on([1], 'f4'), on([2], 'f8')], axis=-1)", [[1.0, 2.0]]),
]


def diag(*values):
    return np.diag(values)


@pytest.mark.parametrize(("call", "expected"), RESULTS, ids=[call for call, _ in RESULTS])
def test_results(call, expected, on, device):
    names = {"xp": xp, "np": np, "linalg": linalg, "A": A, "S": S, "nan": NAN, "diag": diag}
    with xp.record_transfers() as log:
        result = eval(call, names | {"on": on})  # noqa: S307  # of the table
    # `on` uploads.
    assert (type(result), result.device, log.downloads) == (Blob, device, 0)
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected), strict=True)


# Calls of `x`, [1, 2], whose results NumPy may make of the memory of the operand.
NEW = texts(
    """
    xp.sort(x, descending=True); xp.diff(x, n=0); xp.tile(x, (1,)); xp.concat([x]);
    xp.concat([x], axis=None); xp.stack([x]); xp.reshape(x, (2, 1), copy=True);
    xp.tril(xp.reshape(x, (1, 2))); xp.triu(xp.reshape(x, (1, 2)), k=-1); xp.roll(x, 0);
    xp.tile(x, ()); xp.astype(x, x.dtype); xp.positive(x); xp.round(x); xp.conj(x);
    xp.ceil(x); xp.floor(x); xp.trunc(x);
    xp.repeat(x, 1, axis=0); xp.clip(x)
    """
)
# Those that are views.
VIEWS = texts(
    """
    xp.flip(x); xp.real(x); linalg.matrix_power(xp.reshape(x, (1, 2))[:, :1], 1);
    xp.reshape(x, (2, 1), copy=False); xp.broadcast_to(x, (1, 2)); xp.broadcast_arrays(x, on(1))[0];
    xp.fft.fftn(x, axes=())
    """
)


@pytest.mark.parametrize("call", [*NEW, *VIEWS])
def test_results_that_are_views_share_memory_and_the_others_do_not(call, on):
    given = on([1, 2], complex if "fft" in call else None)
    # The second operand has no memory yet.
    for x in (given, given + 0):
        result = eval(call, {"x": x, "xp": xp, "linalg": linalg, "on": on})  # noqa: S307  # of the table
        assert (result.memory is x.memory) is (call in VIEWS)
        result[...] = 7
        assert x.tolist() == (
            [7] * result.size + [1, 2][result.size :] if call in VIEWS else [1, 2]
        )


def test_repeated_elements_cannot_be_written(on):
    x = on([[1.0], [2.0]])
    for view in (*xp.broadcast_arrays(x, on([1.0, 2.0, 3.0])), xp.broadcast_to(x, (2, 2))):
        with pytest.raises(ValueError, match="const view"):
            view[...] = 0
    assert x.tolist() == [[1], [2]]


FIELDS = {
    "unique_all": "values indices inverse_indices counts",
    "unique_counts": "values counts",
    "unique_inverse": "values inverse_indices",
    "linalg.eig": "eigenvalues eigenvectors",
    "linalg.eigh": "eigenvalues eigenvectors",
    "linalg.qr": "Q R",
    "linalg.svd": "U S Vh",
    "linalg.slogdet": "sign logabsdet",
}


def test_several_results_are_tuples_and_have_the_names_of_the_standard():
    for name, fields in FIELDS.items():
        result = eval(f"xp.{name}(xp.eye(2))")  # noqa: S307  # of the table
        assert result._fields == tuple(fields.split())
        assert {type(part) for part in result} == {Blob}
    assert type(xp.unstack(xp.eye(2))) is type(xp.nonzero(xp.eye(2))) is tuple


# --- across devices -------------------------------------------------------------------------------


def test_broadcast_arrays_leaves_each_on_its_device(accelerator):
    there, here = xp.asarray([1.0], device=accelerator), xp.asarray([1.0, 2.0])
    with xp.no_transfers():
        results = xp.broadcast_arrays(there, here)
    assert type(results) is tuple
    assert [y.device for y in results] == [accelerator, "cpu"]
    assert xp.broadcast_arrays() == xp.broadcast_shapes() == ()
    assert xp.broadcast_shapes((2, 1), (3,), ()) == (2, 3)


@pytest.mark.parametrize("join", [xp.concat, xp.stack])
def test_joining_across_devices_is_done_on_the_accelerator(join, accelerator):
    a = np.ones((2, 3), "f4")
    result = join([xp.asarray(a), xp.asarray(2 * a, device=accelerator)])
    assert result.device == accelerator
    numpys = np.concat if join is xp.concat else np.stack
    np.testing.assert_array_equal(np.asarray(result), numpys([a, 2 * a]), strict=True)


# --- sorting --------------------------------------------------------------------------------------


@given(
    values=st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, -np.inf, np.inf, np.nan]), max_size=40),
    descending=st.booleans(),
)
@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_equal_elements_keep_their_order_in_both_directions(device, values, *, descending):
    """The standard: a stable sort keeps the relative order of equal elements."""
    a = np.array(values, "f8")
    x = xp.asarray(a, device=device)
    # By Python's stable sort, with NaN as the greatest value.
    key = [(np.isnan(v), 0 if np.isnan(v) else v) for v in a.tolist()]
    order = sorted(range(len(key)), key=lambda i: key[i], reverse=descending)
    assert xp.argsort(x, descending=descending).tolist() == order
    expected = a[order]
    result = np.asarray(xp.sort(x, descending=descending))
    np.testing.assert_array_equal(result, expected, strict=True)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result)[number], np.signbit(expected)[number])


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("axis", [0, 1, -1, -3])
def test_descending_order_along_an_axis(axis, stable, on):
    a = np.random.default_rng(0).permutation(24).reshape(2, 3, 4).astype("u1")
    x = on(a)
    with xp.no_transfers():
        values = xp.sort(x, axis=axis, descending=True, stable=stable)
        indices = xp.argsort(x, axis=axis, descending=True, stable=stable)
    for result, ascending in ((values, np.sort(a, axis)), (indices, np.argsort(a, axis))):
        expected = np.flip(ascending, axis)
        np.testing.assert_array_equal(np.asarray(result), expected, strict=True)
        # dpnp keeps the order of a flipped array.
        assert result.flags.c_contiguous or str(result.device).startswith("sycl")


# --- statistics -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "dtype", "axis", "correction"),
    [
        ([1.0, 3.0], "f4", None, 2),
        ([1.0, 3.0], "f8", 0, 2.5),
        ([[1.0, 3.0]], "f4", (0, 1), 3),
        ([[1, 2], [3, 4]], "i4", -1, 2),
        ([1j, 2.0], "c8", None, 2),
        (1.0, "f4", None, 1),
        ([], "f4", None, 0),
    ],
)
def test_without_degrees_of_freedom_they_are_nan(values, dtype, axis, correction, on):
    """The standard: NaN if M - correction is 0 or less. NumPy divides by zero, giving infinity."""
    x = on(values, dtype)
    for function, keepdims in itertools.product((xp.var, xp.std), (False, True)):
        result = function(x, axis=axis, correction=correction, keepdims=keepdims)
        assert result.shape == np.sum(np.ones(x.shape), axis=axis, keepdims=keepdims).shape
        assert result.dtype == ("f8" if dtype == "i4" else np.empty(0, dtype).real.dtype)
        assert np.isnan(np.asarray(result)).all()


@pytest.mark.parametrize("name", ["std", "var"])
def test_numpys_name_of_the_correction(name, on):
    array = A.astype("f4")
    result = getattr(xp, name)(on(array), axis=1, ddof=2)
    expected = getattr(np, name)(array, axis=1, ddof=2)
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-6)
