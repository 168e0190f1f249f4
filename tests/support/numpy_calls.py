"""One or several calls of every NumPy function that takes an array.

Each call is a function of the NumPy function and of `b`, a function that either makes a Blob of an
array or returns the array.
"""

import io
import re
import types

import numpy as np
from call_texts import texts

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


def saved(f, b):
    """Return the size of the file that a function saves an array to."""
    file = io.BytesIO()
    f(file, b(M))
    return len(file.getvalue())


def written(f, b, target, *args):
    """Call a function that writes its first argument; return its result and the argument."""
    first = b(target.copy())
    return f(first, *(b(x) if isinstance(x, np.ndarray) else x for x in args)), first


# Called with one array, or two.
ONE = {
    "M": """
        all amax amin angle any argmax argmin argsort argwhere around array2string array_repr
        array_str atleast_1d atleast_2d atleast_3d average column_stack copy corrcoef count_nonzero
        cov cumprod cumsum diag diagflat diagonal diff dstack ediff1d flatnonzero flip fliplr flipud
        gradient histogram histogram_bin_edges hstack i0 imag iscomplex iscomplexobj isneginf
        isposinf isreal isrealobj matrix_transpose max mean median min min_scalar_type nanargmax
        nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar
        ndim nonzero ones_like prod ptp ravel real real_if_close rot90 round shape sinc size sort
        sort_complex squeeze std sum trace transpose trapezoid tril triu unique unique_all
        unique_counts unique_inverse unique_values unstack unwrap var vstack zeros_like
        linalg.diagonal linalg.matrix_norm linalg.matrix_rank linalg.matrix_transpose linalg.norm
        linalg.pinv linalg.qr linalg.svd linalg.svdvals linalg.trace linalg.vector_norm fft.fft
        fft.fft2 fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.irfft
        fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn
        """,
    "S": """
        linalg.cholesky linalg.cond linalg.det linalg.eig linalg.eigh linalg.eigvals
        linalg.eigvalsh linalg.inv linalg.slogdet poly diag_indices_from tril_indices_from
        triu_indices_from
        """,
    "V": "polyder polyint vander trim_zeros fft.ihfft ix_",
    "MM": """
        allclose append array_equal array_equiv isclose kron may_share_memory shares_memory
        outer setdiff1d setxor1d union1d intersect1d vdot
        broadcast_arrays common_type linalg.vecdot
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
# Functions with other calls, or with further ones. `b` makes a Blob of an array, or nothing.
_MORE = """
all(b(B), axis=1); all(b(B), None, b(np.ones((), bool))); append(b(M), b(M), axis=0);
append(b(V), 3.0); apply_along_axis(np.cumsum, 1, b(M)); apply_along_axis(np.sum, 0, arr=b(M));
apply_over_axes(np.sum, b(D), [0, 2]); argpartition(b(M), 1); argpartition(b(M), 1, axis=0);
array2string(b(M), precision=1); array_split(b(V), 4); array_split(b(M), np.array([1]), axis=1);
astype(b(M), np.float32); astype(b(M), 'float64', copy=False);
average(b(M), axis=0, weights=b(U[:3])); average(b(M), returned=True); bincount(b(I));
bincount(b(I), weights=b(V), minlength=9); block([[b(M), b(M)], [b(M), M]]);
broadcast_arrays(b(V[:4]), b(M)); broadcast_arrays(b(M), M[0], 2.0); broadcast_to(b(V), (2, 6));
broadcast_to(array=b(V), shape=(2, 6)); can_cast(b(M), 'float32');
choose(b(P % 3), [b(P), b(P * 2), P * 3]); clip(b(M), -1, 3.5); clip(b(M), b(M[0]), None,
b(np.empty((3, 4)))); clip(b(M), min=0); column_stack((b(V), b(V)));
compress(b(B[0]), b(M), axis=1); compress([True, False], b(V)); concatenate([b(M), M], axis=1);
concatenate((b(J), b(J * 0.5)), 0, b(np.empty((4, 3)))); concatenate([b(M), b(M)], dtype='f4',
casting='same_kind'); written(copyto, M, M * 2); written(copyto, M, M[0]); copyto(dst=b(M * 1),
src=b(M * 3), where=b(B)); copyto(b(M * 1), 7, 'same_kind', b(B));
cumulative_sum(b(V), include_initial=True); cumulative_prod(b(V)); delete(b(M), [0, 2], axis=1);
delete(b(V), 1); diff(b(M), prepend=b(M[:, :1])); digitize(b(V), b(U));
dot(b(S), b(S), b(np.empty((3, 3)))); dot(b(M), M.T); dsplit(b(D), 2);
einsum('ij,kj->ik', b(M), b(M)); einsum('ij,jk', b(S), b(S), out=b(np.empty((3, 3))));
einsum(b(S), [0, 0]); einsum('ii->i', b(S)); einsum_path('ij,jk,kl->il', b(S), b(S), b(S));
expand_dims(b(M), (0, 2)); extract(b(B), b(M)); written(fill_diagonal, S, 0);
written(fill_diagonal, S, U[:3]); full_like(b(M), 3); full_like(b(M), b(M[0]), dtype='f4');
geomspace(b(U), 8.0, 4); gradient(b(V), b(np.arange(6.0))); histogram(b(V), bins=b(np.array([-1.0,
1.0, 5.0]))); histogramdd(b(M), bins=2); histogramdd((b(V), b(V)), 3); hsplit(b(M), 2);
hstack([b(V), b(V)]); insert(b(V), 1, b(U[:2])); insert(b(M), [1, 2], 5, axis=1);
interp(b(U), b(np.arange(6.0)), b(V)); intersect1d(b(I), b(P), return_indices=True);
iscomplexobj(b(C)); isin(b(I), [1, 2]); isin(b(I), P); isneginf(b(N), b(np.empty((2, 3), bool)));
lexsort((b(I), b(I[::-1]))); linspace(b(U), 8.0, 4); linspace(0.0, b(U), 3, retstep=True);
logspace(b(U), 2.0, 4); max(b(M), 1, initial=0.0, where=b(B)); mean(b(M), 0, None, b(np.empty(4)));
mean(b(M), keepdims=True); written(median, V, None, None, 1); median(b(M), axis=1);
meshgrid(b(V), b(U), copy=False); meshgrid(b(V), b(U), sparse=True, copy=False);
moveaxis(b(D), 0, -1); moveaxis(b(D), np.array([0, 1]), [1, 0]); nan_to_num(b(N * 1));
nan_to_num(b(N * 1), copy=False); nan_to_num(b(N * 1), 0, 2.0);
written(nanmedian, N, None, None, 1); nanpercentile(b(N[0]), 30);
nanpercentile(b(V * 1), 30, None, None, 1); nanquantile(b(N[0]), 0.3);
nanquantile(b(V * 1), 0.3, None, None, 1); pad(b(M), ((1, 1), (0, 2)));
pad(b(V), 2, mode='reflect'); partition(b(V), 3); percentile(b(V), 30);
percentile(b(V * 1), [30], None, None, 1); piecewise(b(V), [b(V < 0), b(V >= 0)], [lambda x: -x,
10]); written(place, M, B, U); place(arr=b(M * 1), mask=b(B), vals=[1.0]);
polyfit(b(np.arange(6.0)), b(V), 2); polyval([1, 2], b(V)); written(put, V, [0, 2], 9.0);
put(a=b(V * 1), ind=b(P), v=b(U)); written(put_along_axis, M, np.array([[0], [1], [2]]), 9.0, 1);
written(putmask, M, B, U); putmask(b(M * 1), mask=b(B), values=0); quantile(b(M), b(U), axis=1);
quantile(b(V * 1), 0.3, overwrite_input=True); ravel(b(M), 'F');
ravel_multi_index((b(P), b(P)), (5, 6)); real(b(C)); imag(b(C)); angle(b(C), deg=True);
repeat(b(M), 2, axis=0); repeat(b(P), np.array([1, 0, 2, 1])); reshape(b(M), (2, -1));
reshape(b(M), np.array([4, 3]), order='F'); resize(b(M), (5, 4));
result_type(b(I), b(M[0].astype('f4')), 2.0); roll(b(M), 1); roll(b(M), (1, 2), axis=(0, 1));
rollaxis(b(D), 2); round(b(M), 1, b(np.empty((3, 4)))); saved(save); saved(savetxt); saved(savez);
savez(io.BytesIO(), first=b(M)); saved(savez_compressed); searchsorted(b(U), b(V));
searchsorted(b(U), 0.3); select([b(M < 0), b(M > 3)], [b(M), b(M * 2)], default=7.0); size(b(M), 1);
sort(b(M), axis=None); split(b(V), 3); split(b(V), np.array([2, 5])); stack([b(V), b(V)], axis=1,
out=b(np.empty((6, 2)))); std(b(M), 0, ddof=1); sum(b(M), (0, 1)); sum(b(M), 0, 'f4'); sum(b(M),
where=b(B), initial=b(np.array(2.0))); swapaxes(b(D), 0, 2); take(b(M), b(P), 1, mode='clip');
take(b(V), [0, 2]); take_along_axis(b(M), b(np.argsort(M, axis=1)), axis=1);
tensordot(b(D), b(M), axes=([1, 2], [0, 1])); tile(b(M), (2, 1));
trace(b(S), 1, 0, 1, None, b(np.empty(()))); transpose(b(D), np.array([1, 0, 2])); unique(b(I),
return_counts=True, return_inverse=True); unpackbits(b(BYTES), axis=1); packbits(b(B));
unravel_index(b(I), (2, 3)); unstack(b(D), axis=1); vsplit(b(M), 3); vstack([b(V), b(V)]);
where(b(B), b(M), 0.0); where(b(B)); zeros_like(b(M), dtype='i4', shape=(2, 2)); zeros_like(b(M.T));
empty_like(b(M)).shape; empty_like(prototype=b(M)).dtype; diag(b(V));
linalg.lstsq(b(M.T), b(V[:4])); linalg.matrix_power(b(S), 3); linalg.matrix_power(b(S), -1);
linalg.multi_dot([b(S), b(M), b(M.T)]); linalg.multi_dot([b(S), b(S)], out=b(np.empty((3, 3))));
linalg.norm(b(M), axis=1); linalg.outer(b(V), b(U)); linalg.solve(b(S), S[0]);
linalg.svd(b(M), compute_uv=False); linalg.tensorinv(b(np.eye(6).reshape(6, 2, 3)), ind=1);
linalg.tensorsolve(b(np.eye(6).reshape(2, 3, 2, 3)), b(J * 1.0)); lib.scimath.arccos(b(V));
lib.scimath.arccos(b(U)); lib.scimath.arcsin(b(V)); lib.scimath.arcsin(b(U));
lib.scimath.arctanh(b(U * 3)); lib.scimath.arctanh(b(U)); lib.scimath.log(b(V));
lib.scimath.log(b(U)); lib.scimath.log10(b(V)); lib.scimath.log10(b(U)); lib.scimath.log2(b(V));
lib.scimath.log2(b(U)); lib.scimath.logn(b(U), b(V[:5])); lib.scimath.logn(2, b(U));
lib.scimath.power(b(V), 0.5); lib.scimath.power(b(I), b(V)); lib.scimath.sqrt(b(V));
lib.scimath.sqrt(b(U)); fft.fft(b(C), 4, 0, None, b(np.empty((4, 2), complex)));
fft.irfft(b(C), n=5); lib.stride_tricks.sliding_window_view(b(M), (2, 2))
"""
for _call in texts(_MORE):
    _function = re.search(r"^(?:(?:written|saved)\()?([\w.]+)", _call)
    _text = f"{_call[: _function.start(1)]}f{_call[_function.end(1) :]}"
    _text = re.sub(r"^(written|saved)\(f", r"\1(f, b", _text)
    CALLS.setdefault(f"numpy.{_function[1]}", []).append(
        lambda f, b, text=_text: eval(text, globals() | {"f": f, "b": b})  # noqa: S307  # a call above
    )

_REASONS = {
    "a Blob holds no dates": "busday_count busday_offset datetime_as_string is_busday isnat",
    "it makes an ndarray of anything: that is what it is for": """
        array asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray asmatrix bmat
        from_dlpack frombuffer require lib.stride_tricks.as_strided
        """,
    "NumPy has deprecated it": "fix in1d row_stack trapz",
    "NumPy asks the items of its argument, which are numbers: an ndarray": "roots",
}
CANNOT = {f"numpy.{name}": why for why, names in _REASONS.items() for name in names.split()}
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
