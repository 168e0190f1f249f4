"""Calls of every function of the namespace, and references for their results.

If a function has a correction, the corrected values are left out, or the reference is another
function than NumPy's of that name. Corrections have separate tests.
"""

import re
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

import syncblob

DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
    "complex128"
).split()
KINDS = {name: np.dtype(name).kind for name in DTYPES}
# Pairs of dtypes that NumPy promotes.
MIXED = [("int8", "uint8"), ("int32", "float32"), ("float32", "float64"), ("uint64", "int64")]

# Each row has the shapes of arrays, and calls with them, as x, y and z; "|" parts other shapes.
# Before them are the kinds of dtypes, if they are not all: those that NumPy refuses must be
# refused; "tame" for values of ordinary size, or "no zero"; and "promotes" if the pairs above are
# tried, too. NAME stands for each of the names in braces, and what follows "=" is the reference, if
# it is not NumPy's function of that name.
TABLE = """
# --- elementwise ---
{abs acos acosh asin asinh atan atanh bitwise_invert conj cos cosh exp isfinite isinf isnan log
    log10 log1p log2 logical_not negative positive real reciprocal signbit sin sinh sqrt square tan}
    (3,4) | (): xp.NAME(x)
{ceil floor trunc} iuf (3,4) | iuf (): xp.NAME(x)
c (3,4): xp.imag(x)
iufc (3,4): xp.round(x)
no zero (3,4): xp.sign(x)
# Their corrections concern special values of complex numbers.
biuf (3,4): xp.expm1(x); xp.tanh(x)
c no zero (3,4): xp.expm1(x)
c tame (3,4): xp.tanh(x)
{add atan2 bitwise_and bitwise_or bitwise_xor copysign divide equal greater greater_equal hypot less
    less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter
    not_equal remainder subtract} promotes (3,4) (3,4) | (3,1) (4,) | () (): xp.NAME(x, y)
{add atan2 copysign divide equal greater greater_equal hypot less less_equal logaddexp maximum
    minimum multiply nextafter not_equal remainder subtract} iuf (3,4): xp.NAME(x, 2)
iu (5,): xp.bitwise_left_shift(x, 3); xp.bitwise_right_shift(x, 3)
biuf tame promotes (3,4) (3,4): xp.floor_divide(x, y)
bufc tame promotes (3,4) (3,4): xp.pow(x, y)
iu (3,4): xp.pow(x, 2)
iuf (3,4) (4,) (3,1): xp.clip(x, y, z)
iuf (3,4): xp.clip(x, 1, 3)
# --- reductions ---
{sum prod max min mean all any count_nonzero} (2,3,4): xp.NAME(x); xp.NAME(x, axis=0);
    xp.NAME(x, axis=-1, keepdims=True); xp.NAME(x, axis=(0, 2)); xp.NAME(x, axis=())
{sum prod all any count_nonzero} (0,): xp.NAME(x)
{std var} (2,3,4): xp.NAME(x); xp.NAME(x, axis=0); xp.NAME(x, axis=-1, keepdims=True);
    xp.NAME(x, axis=(0, 2)); xp.NAME(x, correction=1); xp.NAME(x, correction=0.5)
{argmax argmin} (2,3,4): xp.NAME(x); xp.NAME(x, axis=0); xp.NAME(x, axis=-1, keepdims=True)
{sum prod cumulative_sum cumulative_prod} biuf (3,4): xp.NAME(x, axis=1, dtype=np.float64)
{cumulative_sum cumulative_prod} (7,): xp.NAME(x)
{cumulative_sum cumulative_prod} iufc (3,4): xp.NAME(x, axis=0, include_initial=True)
# --- rearrangements ---
(3,1) (4,): xp.broadcast_arrays(x, y)
(2,3) (2,1): xp.concat([x, y], axis=1)
(2,3) (4,): xp.concat((x, y), axis=None)
(2,3) (2,3): xp.stack([x, y], axis=-1)
(3,4): xp.broadcast_to(x, (2, 3, 4)); xp.expand_dims(x, 1); xp.expand_dims(x, (-1, 2)); xp.flip(x);
    xp.flip(x, axis=1); xp.repeat(x, 3); xp.repeat(x, 2, axis=1); xp.reshape(x, (2, -1));
    xp.roll(x, 2); xp.roll(x, (1, -1), axis=(0, 1)); xp.roll(x, -1, axis=1); xp.tile(x, (2, 1, 3));
    xp.tile(x, (2,)); xp.unstack(x, axis=1); xp.diff(x); xp.diff(x, axis=0, n=2); xp.diff(x, n=0);
    xp.astype(x, np.complex128); xp.astype(x, np.bool)
(2,3,4): xp.moveaxis(x, (0, 1), (-1, 0)); xp.permute_dims(x, (2, 0, 1)); xp.flip(x, axis=(1, -1));
    xp.tril(x, k=1); xp.triu(x, k=-1)
(1,3,1): xp.squeeze(x, 0); xp.squeeze(x, (-3,))
(3,) (4,): xp.meshgrid(x, y); xp.meshgrid(x, y, indexing="ij")
biu (3,4): xp.astype(x, np.int64)
biuf (3,4): xp.astype(x, np.float32)
# --- selections ---
(3,8): xp.argsort(x, stable=True); xp.argsort(x, axis=0, stable=True); xp.sort(x, stable=True);
    xp.sort(x, axis=0, stable=True)
(3,4) (5,): xp.isin(x, y)
(6,) (3,4): xp.searchsorted(xp.sort(x), y)
(3,4): xp.nonzero(x); xp.take(x, xp.arange(2, -2, -1), axis=0);
    xp.take_along_axis(x, xp.argsort(x, stable=True), axis=-1);
    xp.unique_all(x); xp.unique_counts(x); xp.unique_inverse(x);
    xp.unique_values(x) = np.unique(x, equal_nan=False)
(3,4) (4,): xp.where(x > y, x, y)
iuf (3,4): xp.where(x > 1, x, 3)
# --- products of matrices ---
{matmul linalg.matmul} iufc (3,4) (4,2) | (2,3,4) (4,) | (4,) (4,) | iufc (5,1,2,3) (6,3,4) |
    iufc (2,0) (0,3): xp.NAME(x, y)
{matrix_transpose linalg.matrix_transpose} (2,3,4): xp.NAME(x)
{tensordot linalg.tensordot} (3,4) (4,2): xp.NAME(x, y, axes=1)
{tensordot linalg.tensordot} iufc (3,4) (4,3): xp.NAME(x, y, axes=0);
    xp.NAME(x, y, axes=((-1, 0), (0, -1))); xp.NAME(x, y, axes=((), ()))
{vecdot linalg.vecdot} iufc (3,4) (4,) | iufc (4,) (4,): xp.NAME(x, y)
{vecdot linalg.vecdot} iufc (3,4) (3,4): xp.NAME(x, y, axis=-2)
# --- decompositions ---
{det inv slogdet} fc tame (2,3,3): xp.linalg.NAME(x)
{eigh eigvalsh cholesky} fc tame (2,3,3):
    xp.linalg.NAME(xp.matmul(x, xp.conj(xp.matrix_transpose(x))) + xp.eye(3, dtype=x.dtype))
iufc (4,3) (4,3): xp.linalg.cross(x, y)
(2,3,4): xp.linalg.diagonal(x, offset=1)
fc tame (2,3,3): xp.linalg.eig(x) = tuple(map(as_complex, np.linalg.eig(x)));
    xp.linalg.eigvals(x) = as_complex(np.linalg.eigvals(x));
    xp.linalg.matrix_power(x, -2); xp.linalg.matrix_power(x, 0); xp.linalg.matrix_power(x, 1);
    xp.linalg.matrix_power(x, 3)
{'fro' 'nuc' 1 -1 2 -2 np.inf} fc tame (2,3,4): xp.linalg.matrix_norm(x, ord=NAME)
(3,) (4,): xp.linalg.outer(x, y)
# NumPy's default tolerance of pinv is not the standard's.
fc tame (2,3,4): xp.linalg.matrix_norm(x, keepdims=True); xp.linalg.matrix_rank(x);
    xp.linalg.pinv(x, rtol=1e-3); xp.linalg.svd(x); xp.linalg.svd(x, full_matrices=False);
    xp.linalg.svdvals(x)
fc tame (2,4,3): xp.linalg.qr(x)
fc tame (4,3): xp.linalg.qr(x, mode="complete")
fc tame (3,3) (3,) | fc tame (2,3,3) (2,3,2): xp.linalg.solve(x, y)
iufc (2,3,4): xp.linalg.trace(x, offset=1)
{0 1 2 3.5 np.inf -np.inf} fc tame (3,4): xp.linalg.vector_norm(x, ord=NAME, axis=1)
{0 1 2 3.5 np.inf -np.inf} fc tame (2,3,4):
    xp.linalg.vector_norm(x, ord=NAME, axis=(0, -1), keepdims=True)
fc tame (3,4): xp.linalg.vector_norm(x, keepdims=True)
# --- transforms ---
{fft ifft hfft irfft} c (3,4): xp.fft.NAME(x); xp.fft.NAME(x, n=6);
    xp.fft.NAME(x, axis=-2, n=3, norm="forward"); xp.fft.NAME(x, norm="ortho")
{rfft ihfft} f (3,4): xp.fft.NAME(x); xp.fft.NAME(x, n=6);
    xp.fft.NAME(x, axis=-2, n=3, norm="forward"); xp.fft.NAME(x, norm="ortho")
{fftn ifftn irfftn} c (3,4): xp.fft.NAME(x); xp.fft.NAME(x, axes=(0,));
    xp.fft.NAME(x, s=(2, 6), axes=(-1, 0), norm="forward"); xp.fft.NAME(x, norm="ortho")
f (3,4): xp.fft.rfftn(x); xp.fft.rfftn(x, axes=(0,));
    xp.fft.rfftn(x, s=(2, 6), axes=(-1, 0), norm="forward"); xp.fft.rfftn(x, norm="ortho")
{fftshift ifftshift} (3,4): xp.fft.NAME(x); xp.fft.NAME(x, axes=1)
{fftshift ifftshift} (2,3,5): xp.fft.NAME(x, axes=(0, 2))
{fftfreq rfftfreq}: xp.fft.NAME(7, d=0.3);
    xp.fft.NAME(8, dtype=np.float32) = np.fft.NAME(8).astype(np.float32)
# --- creation ---
{int8 uint64 float32 complex64}: xp.arange(2, 9, 3, dtype="NAME"); xp.eye(3, 4, dtype="NAME", k=-1);
    xp.full((2, 3), 3, dtype="NAME"); xp.zeros((2, 3), dtype="NAME"); xp.ones(3, dtype="NAME")
: xp.arange(7); xp.arange(2, 9); xp.arange(1, 2, 0.25); xp.arange(5, 0, -1); xp.eye(3);
    xp.full((2, 3), True); xp.full((2, 3), 3); xp.full((2, 3), 1.5); xp.full((2, 3), 2j);
    xp.zeros(3); xp.ones(()); xp.linspace(0.1, 3, 8); xp.linspace(1, 2j, 5, endpoint=False);
    xp.linspace(0, 3, 8, dtype=np.float32)
(3,4): xp.full_like(x, 1); xp.zeros_like(x); xp.ones_like(x, dtype=np.int16); xp.asarray(x);
    xp.asarray(x, copy=True); xp.from_dlpack(x)
"""


def as_complex(array):
    return array.astype(np.result_type(array, np.complex64))


@dataclass
class Call:
    """A call of one function, of arrays of these shapes, as an expression of `xp`."""

    name: str
    text: str
    reference: str
    shapes: tuple[tuple[int, ...], ...]
    kinds: str = "biufc"
    values: str = "any"
    promotes: bool = False

    @property
    def plain(self):
        """Whether the arrays are arguments of the function, and of no other."""
        return self.text.count("xp.") == 1 and not re.search(r"[\[>]|\(\(x", self.text)

    def with_blobs(self, arrays):
        return self._evaluated(self.text, syncblob, arrays)

    def with_numpy(self, arrays):
        return self._evaluated(self.reference, np, arrays)

    def _evaluated(self, text, xp, arrays):
        names = {"xp": xp, "np": np, "as_complex": as_complex}
        return eval(_compiled(text), names | dict(zip("xyz", arrays, strict=False)))  # noqa: S307  # a row above


@cache
def _compiled(text):
    return compile(text, __file__, "eval")


def calls():
    """List all calls."""
    lines = re.sub("(?m)^#.*\n", "", TABLE).strip()
    for row in re.split(r"\n(?! )", lines):
        heads, _, texts = " ".join(row.split()).partition(":")
        names, heads = re.fullmatch(r"(?:\{(.*)\})?(.*)", heads).groups()
        for head, name in product(heads.split("|"), names.split() if names else [""]):
            shapes = tuple(eval(shape) for shape in re.findall(r"\(.*?\)", head))  # noqa: S307  # as above
            kinds = re.search(r"\b[biufc]+\b", head)
            values = next((x for x in ("tame", "no zero") if x in head), "any")
            for text in texts.replace("NAME", name).split(";"):
                ours, _, reference = text.strip().partition(" = ")
                function = re.match(r"xp\.([\w.]+)", ours)[1]
                yield Call(
                    *(function, ours, reference or ours, shapes),
                    *(kinds[0] if kinds else "biufc", values, "promotes" in head),
                )
