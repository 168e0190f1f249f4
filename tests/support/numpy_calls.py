"""One or several calls of every NumPy function that takes an array.

Each call is a function of the NumPy function and of `b`, a function that either makes a Blob of an
array or returns the array.
"""

import io
import types

import numpy as np

M = np.array([[4.0, -1.5, 2.0, 0.25], [7.5, 3.0, -8.0, 1.0], [0.5, 6.0, 5.5, -2.25]])
S = np.array([[6.0, 2.0, 1.0], [2.0, 5.0, 2.0], [1.0, 2.0, 4.0]])
V = np.array([0.5, 2.25, -1.0, 4.0, 3.5, 2.25])
U = np.array([0.125, 0.25, 0.5, 0.75, 0.875])
N = np.array([[1.0, np.nan, 3.0], [np.inf, 5.0, -np.inf]])
I = np.array([3, 1, 2, 1, 0, 5])  # noqa: E741  # integers
J = np.array([[1, 2, 3], [4, 5, 6]])
P = np.array([1, 2, 3, 1])
B = np.array([[True, False, True, True], [False, False, True, False], [True, True, False, False]])
C = np.array([[1 + 2j, 0.5 - 1j], [3 + 0j, -2.5 + 4j]])
D = np.arange(24.0).reshape(2, 3, 4)
BYTES = np.array([[1, 200, 7], [90, 4, 255]], dtype=np.uint8)
FUNCTION = type(np.sum)
# The functions of `numpy.strings`, `numpy.char` and `numpy.lib.recfunctions` need dtypes that Blobs
# lack.
MODULES = (np, np.linalg, np.fft, np.lib.stride_tricks, np.emath)


def listed():
    """Return NumPy's functions and ufuncs by name, each once, without aliases."""
    found = {}
    for module in MODULES:
        for name in dir(module):
            member = getattr(module, name)
            callable_ = isinstance(
                member, (FUNCTION, np.ufunc, types.FunctionType, types.BuiltinFunctionType)
            )
            if callable_ and not name.startswith("_"):
                known = member.__name__ if hasattr(module, member.__name__) else name
                found[f"{module.__name__}.{known}"] = member
    return found


def _saved(function, b, *args, **kwargs):
    file = io.BytesIO()
    function(file, b(M), *args, **kwargs)
    return len(file.getvalue())


def _written(target, *args):
    """Call a function that writes its first argument; return its result and the argument."""

    def call(f, b):
        first = b(target.copy())
        return f(first, *(b(x) if isinstance(x, np.ndarray) else x for x in args)), first

    return call


# Called with one array, or two.
ONE = {
    "M": """
        all amax amin angle any argmax argmin argpartition argsort argwhere around array2string
        array_repr array_str atleast_1d atleast_2d atleast_3d average column_stack copy corrcoef
        count_nonzero cov cumprod cumsum diag diagflat diagonal diff
        dsplit dstack ediff1d empty_like flatnonzero flip fliplr flipud gradient histogram
        histogram_bin_edges histogramdd hsplit hstack i0 imag iscomplex iscomplexobj isneginf
        isposinf isreal isrealobj matrix_transpose max mean median min min_scalar_type nan_to_num
        nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd
        nansum nanvar ndim nonzero ones_like prod ptp ravel real real_if_close rot90 round
        shape sinc size sort sort_complex squeeze std sum trace transpose trapezoid tril triu
        unique unique_all unique_counts unique_inverse unique_values unstack unwrap var vsplit
        vstack zeros_like block concatenate
        linalg.diagonal linalg.matrix_norm linalg.matrix_rank linalg.matrix_transpose linalg.norm
        linalg.pinv linalg.qr linalg.svd linalg.svdvals linalg.trace linalg.vector_norm
        fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ifftshift
        fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn
        """,
    "S": """
        linalg.cholesky linalg.cond linalg.det linalg.eig linalg.eigh linalg.eigvals
        linalg.eigvalsh linalg.inv linalg.slogdet poly diag_indices_from tril_indices_from
        triu_indices_from
        """,
    "V": "polyder polyint vander trim_zeros fft.ihfft ix_",
    "MM": """
        allclose append array_equal array_equiv isclose kron may_share_memory shares_memory
        outer setdiff1d setxor1d union1d intersect1d isin vdot
        broadcast_arrays common_type linalg.outer linalg.vecdot
        """,
    "SS": """
        dot inner tensordot cross linalg.cross linalg.matmul linalg.tensordot linalg.solve
        """,
    "VV": """
        convolve correlate meshgrid polyadd polymul polysub polydiv polyval histogram2d cov
        corrcoef broadcast_arrays ix_ dot inner
        """,
}
ARRAYS = {"M": M, "S": S, "V": V}

CALLS = {
    f"numpy.{name}": [lambda f, b, letters=letters: f(*(b(ARRAYS[each]) for each in letters))]
    for letters, names in ONE.items()
    for name in names.split()
}
# Functions with other calls, or with further ones.
_MORE = {
    "all": [lambda f, b: f(b(B), axis=1), lambda f, b: f(b(B), None, b(np.ones((), bool)))],
    "append": [lambda f, b: f(b(M), b(M), axis=0), lambda f, b: f(b(V), 3.0)],
    "apply_along_axis": [lambda f, b: f(np.cumsum, 1, b(M)), lambda f, b: f(np.sum, 0, arr=b(M))],
    "apply_over_axes": [lambda f, b: f(np.sum, b(D), [0, 2])],
    "argpartition": [lambda f, b: f(b(M), 1), lambda f, b: f(b(M), 1, axis=0)],
    "array2string": [lambda f, b: f(b(M), precision=1)],
    "array_split": [lambda f, b: f(b(V), 4), lambda f, b: f(b(M), np.array([1]), axis=1)],
    "astype": [lambda f, b: f(b(M), np.float32), lambda f, b: f(b(M), "float64", copy=False)],
    "average": [
        lambda f, b: f(b(M), axis=0, weights=b(U[:3])),
        lambda f, b: f(b(M), returned=True),
    ],
    "bincount": [lambda f, b: f(b(I)), lambda f, b: f(b(I), weights=b(V), minlength=9)],
    "block": [lambda f, b: f([[b(M), b(M)], [b(M), M]])],
    "broadcast_arrays": [lambda f, b: f(b(V[:4]), b(M)), lambda f, b: f(b(M), M[0], 2.0)],
    "broadcast_to": [lambda f, b: f(b(V), (2, 6)), lambda f, b: f(array=b(V), shape=(2, 6))],
    "can_cast": [lambda f, b: f(b(M), "float32")],
    "choose": [lambda f, b: f(b(P % 3), [b(P), b(P * 2), P * 3])],
    "clip": [
        lambda f, b: f(b(M), -1, 3.5),
        lambda f, b: f(b(M), b(M[0]), None, b(np.empty((3, 4)))),
        lambda f, b: f(b(M), min=0),
    ],
    "column_stack": [lambda f, b: f((b(V), b(V)))],
    "compress": [lambda f, b: f(b(B[0]), b(M), axis=1), lambda f, b: f([True, False], b(V))],
    "concatenate": [
        lambda f, b: f([b(M), M], axis=1),
        lambda f, b: f((b(J), b(J * 0.5)), 0, b(np.empty((4, 3)))),
        lambda f, b: f([b(M), b(M)], dtype="f4", casting="same_kind"),
    ],
    "copyto": [
        _written(M, M * 2),
        _written(M, M[0]),
        lambda f, b: f(dst=b(M * 1), src=b(M * 3), where=b(B)),
        lambda f, b: f(b(M * 1), 7, "same_kind", b(B)),
    ],
    "cumulative_sum": [lambda f, b: f(b(V), include_initial=True)],
    "cumulative_prod": [lambda f, b: f(b(V))],
    "delete": [lambda f, b: f(b(M), [0, 2], axis=1), lambda f, b: f(b(V), 1)],
    "diff": [lambda f, b: f(b(M), prepend=b(M[:, :1]))],
    "digitize": [lambda f, b: f(b(V), b(U))],
    "dot": [lambda f, b: f(b(S), b(S), b(np.empty((3, 3)))), lambda f, b: f(b(M), M.T)],
    "dsplit": [lambda f, b: f(b(D), 2)],
    "einsum": [
        lambda f, b: f("ij,kj->ik", b(M), b(M)),
        lambda f, b: f("ij,jk", b(S), b(S), out=b(np.empty((3, 3)))),
        lambda f, b: f(b(S), [0, 0]),
        lambda f, b: f("ii->i", b(S)),
    ],
    "einsum_path": [lambda f, b: f("ij,jk,kl->il", b(S), b(S), b(S))],
    "expand_dims": [lambda f, b: f(b(M), (0, 2))],
    "extract": [lambda f, b: f(b(B), b(M))],
    "fill_diagonal": [_written(S, 0), _written(S, U[:3])],
    "full_like": [lambda f, b: f(b(M), 3), lambda f, b: f(b(M), b(M[0]), dtype="f4")],
    "geomspace": [lambda f, b: f(b(U), 8.0, 4)],
    "gradient": [lambda f, b: f(b(V), b(np.arange(6.0)))],
    "histogram": [lambda f, b: f(b(V), bins=b(np.array([-1.0, 1.0, 5.0])))],
    "hsplit": [lambda f, b: f(b(M), 2)],
    "hstack": [lambda f, b: f([b(V), b(V)])],
    "insert": [lambda f, b: f(b(V), 1, b(U[:2])), lambda f, b: f(b(M), [1, 2], 5, axis=1)],
    "interp": [lambda f, b: f(b(U), b(np.arange(6.0)), b(V))],
    "intersect1d": [lambda f, b: f(b(I), b(P), return_indices=True)],
    "iscomplexobj": [lambda f, b: f(b(C))],
    "isin": [lambda f, b: f(b(I), [1, 2]), lambda f, b: f(b(I), P)],
    "isneginf": [lambda f, b: f(b(N), b(np.empty((2, 3), bool)))],
    "lexsort": [lambda f, b: f((b(I), b(I[::-1])))],
    "linspace": [lambda f, b: f(b(U), 8.0, 4), lambda f, b: f(0.0, b(U), 3, retstep=True)],
    "logspace": [lambda f, b: f(b(U), 2.0, 4)],
    "max": [lambda f, b: f(b(M), 1, initial=0.0, where=b(B))],
    "mean": [lambda f, b: f(b(M), 0, None, b(np.empty(4))), lambda f, b: f(b(M), keepdims=True)],
    "median": [_written(V, None, None, 1), lambda f, b: f(b(M), axis=1)],
    "meshgrid": [
        lambda f, b: f(b(V), b(U), copy=False),
        lambda f, b: f(b(V), b(U), sparse=True, copy=False),
    ],
    "moveaxis": [lambda f, b: f(b(D), 0, -1), lambda f, b: f(b(D), np.array([0, 1]), [1, 0])],
    "nan_to_num": [
        lambda f, b: f(b(N * 1)),
        lambda f, b: f(b(N * 1), copy=False),
        lambda f, b: f(b(N * 1), 0, 2.0),
    ],
    "nanmedian": [_written(N, None, None, 1)],
    "nanpercentile": [lambda f, b: f(b(N[0]), 30), lambda f, b: f(b(V * 1), 30, None, None, 1)],
    "nanquantile": [lambda f, b: f(b(N[0]), 0.3), lambda f, b: f(b(V * 1), 0.3, None, None, 1)],
    "pad": [lambda f, b: f(b(M), ((1, 1), (0, 2))), lambda f, b: f(b(V), 2, mode="reflect")],
    "partition": [lambda f, b: f(b(V), 3)],
    "percentile": [lambda f, b: f(b(V), 30), lambda f, b: f(b(V * 1), [30], None, None, 1)],
    "piecewise": [lambda f, b: f(b(V), [b(V < 0), b(V >= 0)], [lambda x: -x, 10])],
    "place": [_written(M, B, U), lambda f, b: f(arr=b(M * 1), mask=b(B), vals=[1.0])],
    "polyfit": [lambda f, b: f(b(np.arange(6.0)), b(V), 2)],
    "polyval": [lambda f, b: f([1, 2], b(V))],
    "put": [_written(V, [0, 2], 9.0), lambda f, b: f(a=b(V * 1), ind=b(P), v=b(U))],
    "put_along_axis": [_written(M, np.array([[0], [1], [2]]), 9.0, 1)],
    "putmask": [_written(M, B, U), lambda f, b: f(b(M * 1), mask=b(B), values=0)],
    "quantile": [
        lambda f, b: f(b(M), b(U), axis=1),
        lambda f, b: f(b(V * 1), 0.3, overwrite_input=True),
    ],
    "ravel": [lambda f, b: f(b(M), "F")],
    "ravel_multi_index": [lambda f, b: f((b(P), b(P)), (5, 6))],
    "real": [lambda f, b: f(b(C))],
    "imag": [lambda f, b: f(b(C))],
    "angle": [lambda f, b: f(b(C), deg=True)],
    "repeat": [lambda f, b: f(b(M), 2, axis=0), lambda f, b: f(b(P), np.array([1, 0, 2, 1]))],
    "reshape": [lambda f, b: f(b(M), (2, -1)), lambda f, b: f(b(M), np.array([4, 3]), order="F")],
    "resize": [lambda f, b: f(b(M), (5, 4))],
    "result_type": [lambda f, b: f(b(I), b(M[0].astype("f4")), 2.0)],
    "roll": [lambda f, b: f(b(M), 1), lambda f, b: f(b(M), (1, 2), axis=(0, 1))],
    "rollaxis": [lambda f, b: f(b(D), 2)],
    "round": [lambda f, b: f(b(M), 1, b(np.empty((3, 4))))],
    "save": [_saved],
    "savetxt": [_saved],
    "savez": [_saved, lambda f, b: f(io.BytesIO(), first=b(M))],
    "savez_compressed": [_saved],
    "searchsorted": [lambda f, b: f(b(U), b(V)), lambda f, b: f(b(U), 0.3)],
    "select": [lambda f, b: f([b(M < 0), b(M > 3)], [b(M), b(M * 2)], default=7.0)],
    "size": [lambda f, b: f(b(M), 1)],
    "sort": [lambda f, b: f(b(M), axis=None)],
    "split": [lambda f, b: f(b(V), 3), lambda f, b: f(b(V), np.array([2, 5]))],
    "stack": [lambda f, b: f([b(V), b(V)], axis=1, out=b(np.empty((6, 2))))],
    "std": [lambda f, b: f(b(M), 0, ddof=1)],
    "sum": [
        lambda f, b: f(b(M), (0, 1)),
        lambda f, b: f(b(M), 0, "f4"),
        lambda f, b: f(b(M), where=b(B), initial=b(np.array(2.0))),
    ],
    "swapaxes": [lambda f, b: f(b(D), 0, 2)],
    "take": [lambda f, b: f(b(M), b(P), 1, mode="clip"), lambda f, b: f(b(V), [0, 2])],
    "take_along_axis": [lambda f, b: f(b(M), b(np.argsort(M, axis=1)), axis=1)],
    "tensordot": [lambda f, b: f(b(D), b(M), axes=([1, 2], [0, 1]))],
    "tile": [lambda f, b: f(b(M), (2, 1))],
    "trace": [lambda f, b: f(b(S), 1, 0, 1, None, b(np.empty(())))],
    "transpose": [lambda f, b: f(b(D), np.array([1, 0, 2]))],
    "unique": [lambda f, b: f(b(I), return_counts=True, return_inverse=True)],
    "unpackbits": [lambda f, b: f(b(BYTES), axis=1)],
    "packbits": [lambda f, b: f(b(B))],
    "unravel_index": [lambda f, b: f(b(I), (2, 3))],
    "unstack": [lambda f, b: f(b(D), axis=1)],
    "vsplit": [lambda f, b: f(b(M), 3)],
    "vstack": [lambda f, b: f([b(V), b(V)])],
    "where": [lambda f, b: f(b(B), b(M), 0.0), lambda f, b: f(b(B))],
    "zeros_like": [lambda f, b: f(b(M), dtype="i4", shape=(2, 2)), lambda f, b: f(b(M.T))],
    "empty_like": [lambda f, b: f(b(M)).shape, lambda f, b: f(prototype=b(M)).dtype],
    "diag": [lambda f, b: f(b(V))],
    "linalg.lstsq": [lambda f, b: f(b(M.T), b(V[:4]))],
    "linalg.matrix_power": [lambda f, b: f(b(S), 3), lambda f, b: f(b(S), -1)],
    "linalg.multi_dot": [
        lambda f, b: f([b(S), b(M), b(M.T)]),
        lambda f, b: f([b(S), b(S)], out=b(np.empty((3, 3)))),
    ],
    "linalg.norm": [lambda f, b: f(b(M), axis=1)],
    "linalg.outer": [lambda f, b: f(b(V), b(U))],
    "linalg.solve": [lambda f, b: f(b(S), S[0])],
    "linalg.svd": [lambda f, b: f(b(M), compute_uv=False)],
    "linalg.tensorinv": [lambda f, b: f(b(np.eye(6).reshape(6, 2, 3)), ind=1)],
    "linalg.tensorsolve": [lambda f, b: f(b(np.eye(6).reshape(2, 3, 2, 3)), b(J * 1.0))],
    "lib.scimath.arccos": [lambda f, b: f(b(V)), lambda f, b: f(b(U))],
    "lib.scimath.arcsin": [lambda f, b: f(b(V)), lambda f, b: f(b(U))],
    "lib.scimath.arctanh": [lambda f, b: f(b(U * 3)), lambda f, b: f(b(U))],
    "lib.scimath.log": [lambda f, b: f(b(V)), lambda f, b: f(b(U))],
    "lib.scimath.log10": [lambda f, b: f(b(V)), lambda f, b: f(b(U))],
    "lib.scimath.log2": [lambda f, b: f(b(V)), lambda f, b: f(b(U))],
    "lib.scimath.logn": [lambda f, b: f(b(U), b(V[:5])), lambda f, b: f(2, b(U))],
    "lib.scimath.power": [lambda f, b: f(b(V), 0.5), lambda f, b: f(b(I), b(V))],
    "lib.scimath.sqrt": [lambda f, b: f(b(V)), lambda f, b: f(b(U))],
    "fft.fft": [lambda f, b: f(b(C), 4, 0, None, b(np.empty((4, 2), complex)))],
    "fft.irfft": [lambda f, b: f(b(C), n=5)],
    "lib.stride_tricks.sliding_window_view": [lambda f, b: f(b(M), (2, 2))],
}
for _name, _calls in _MORE.items():
    CALLS.setdefault(f"numpy.{_name}", []).extend(_calls)
# Functions that need other arguments than above.
for _name in """
    argpartition block concatenate dsplit hsplit vsplit histogramdd nan_to_num linalg.outer
    empty_like isin
    """.split():
    del CALLS[f"numpy.{_name}"][0]
CALLS["numpy.histogramdd"] = [lambda f, b: f(b(M), bins=2), lambda f, b: f((b(V), b(V)), 3)]
CALLS["numpy.linalg.cross"] = [lambda f, b: f(b(S), b(S))]

_DATES = "a Blob holds no dates"
_DEPRECATED = "NumPy has deprecated it"
_TO_NDARRAY = "it makes an ndarray of anything: that is what it is for"
CANNOT = {
    "numpy.busday_count": _DATES,
    "numpy.busday_offset": _DATES,
    "numpy.datetime_as_string": _DATES,
    "numpy.is_busday": _DATES,
    "numpy.isnat": _DATES,
    "numpy.array": _TO_NDARRAY,
    "numpy.asanyarray": _TO_NDARRAY,
    "numpy.asarray": _TO_NDARRAY,
    "numpy.asarray_chkfinite": _TO_NDARRAY,
    "numpy.ascontiguousarray": _TO_NDARRAY,
    "numpy.asfortranarray": _TO_NDARRAY,
    "numpy.asmatrix": _TO_NDARRAY,
    "numpy.bmat": _TO_NDARRAY,
    "numpy.from_dlpack": _TO_NDARRAY,
    "numpy.frombuffer": _TO_NDARRAY,
    "numpy.require": _TO_NDARRAY,
    "numpy.fix": _DEPRECATED,
    "numpy.in1d": _DEPRECATED,
    "numpy.row_stack": _DEPRECATED,
    "numpy.trapz": _DEPRECATED,
    "numpy.lib.stride_tricks.as_strided": _TO_NDARRAY,
    "numpy.roots": "NumPy asks the items of its argument, which are numbers: an ndarray",
}
# Functions that describe an argument, and accept Blobs without a protocol.
DESCRIBE = ("isfortran", "isscalar", "iterable")
TAKE_NO_ARRAY = """
    arange bartlett base_repr binary_repr blackman broadcast_shapes datetime_data diag_indices empty
    eye format_float_positional format_float_scientific fromfile fromfunction fromiter frompyfunc
    fromregex fromstring full genfromtxt get_include get_printoptions getbufsize geterr geterrcall
    hamming hanning identity indices info isdtype issubdtype kaiser load loadtxt mask_indices
    mintypecode nested_iters ones promote_types set_printoptions setbufsize seterr
    seterrcall show_config show_runtime tri tril_indices triu_indices typename zeros fft.fftfreq
    fft.rfftfreq printoptions
    """.split()
