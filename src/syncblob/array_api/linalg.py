"""Linear algebra: an extension, four functions of which are in the main namespace, too.

Python scalars raise a TypeError. Dtypes are promoted as in NumPy. The last two axes are those of
the matrices, the axes before them those of a stack. Integers are converted to float64.
Decompositions do not support float16. Invalid values, such as a singular matrix, raise
`numpy.linalg.LinAlgError`, a ValueError; CuPy does not check values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from syncblob._dtypes import as_dtype
from syncblob._made_functions import defined_names
from syncblob._shape import canonical_axis, is_integer
from syncblob.array_api._checks import require_blobs
from syncblob.calls.namespace import apply, plans_of_kernel, view
from syncblob.calls.operands import as_blob

if TYPE_CHECKING:
    from syncblob._blob import Blob
    from syncblob.array_api._checks import Axes, DType

_SPACE = 3


class EigResult(NamedTuple):
    """Complex eigenvalues, and complex eigenvectors in the columns of matrices."""

    eigenvalues: Blob
    eigenvectors: Blob


class EighResult(NamedTuple):
    """Real eigenvalues, ascending, and orthonormal eigenvectors in the columns of matrices."""

    eigenvalues: Blob
    eigenvectors: Blob


class QRResult(NamedTuple):
    """Matrices with orthonormal columns, and upper triangular matrices."""

    Q: Blob
    R: Blob


class SVDResult(NamedTuple):
    """Left singular vectors in columns, singular values, and right singular vectors in rows."""

    U: Blob
    S: Blob
    Vh: Blob


class SlogdetResult(NamedTuple):
    """Signs of determinants, and the logarithms of their absolute values."""

    sign: Blob
    logabsdet: Blob


_MATMUL = plans_of_kernel(np.matmul)


def cholesky(x: Blob, /, *, upper: bool = False) -> Blob:
    """Compute the Cholesky decomposition of Hermitian positive-definite matrices, (..., M, M).

    Reads one triangle only. Returns the lower triangular factor, or the upper one if `upper`.
    """
    return apply("linalg.cholesky", x, upper=upper)


def cross(x1: Blob, x2: Blob, /, *, axis: int = -1) -> Blob:
    """Compute the cross product of vectors along an axis of size 3; the other axes broadcast.

    Raises a ValueError for another size, an IndexError for an axis out of range.
    """
    x1, x2 = require_blobs("cross", (x1, x2))
    sizes = [x.shape[canonical_axis(axis, x.shape)] for x in (x1, x2)]
    if sizes != [_SPACE, _SPACE]:
        # CuPy accepts vectors of two elements.
        raise ValueError(
            f"cross expects axes of size {_SPACE}, and axis {axis} has sizes {sizes[0]} and "
            f"{sizes[1]} in operands of shapes {x1.shape} and {x2.shape}"
        )
    return apply("linalg.cross", x1, x2, axis=axis)


def det(x: Blob, /) -> Blob:
    """Compute the determinants of matrices of shape (..., M, M)."""
    return apply("linalg.det", x)


def diagonal(x: Blob, /, *, offset: int = 0) -> Blob:
    """Return a view of a diagonal of each matrix, as the last axis.

    `offset` 0 is the main diagonal; positive numbers lie above it.
    """
    return view(x, "diagonal", lambda array: _diagonal(array, offset))


def _diagonal(array: Any, offset: int) -> Any:
    result = array.diagonal(offset, -2, -1)
    if isinstance(array, np.ndarray):
        # NumPy's diagonal is always read-only; a view of a Blob is writable if the Blob is.
        result.flags.writeable = array.flags.writeable
    return result


def eig(x: Blob, /) -> EigResult:
    """Compute eigenvalues, (..., M), and eigenvectors of matrices, (..., M, M): always complex."""
    values, vectors = apply("linalg.eig", x)
    return EigResult(_as_complex(values), _as_complex(vectors))


def _as_complex(x: Blob) -> Blob:
    """Convert the results of NumPy, which are real if all eigenvalues are."""
    # float32 gives complex64, float64 complex128.
    return x.astype(np.result_type(x.dtype, np.complex64), copy=False)


def eigh(x: Blob, /) -> EighResult:
    """Compute eigenvalues, (..., M), and eigenvectors of Hermitian matrices, (..., M, M).

    Only the lower triangles are read. The eigenvalues are real.
    """
    return EighResult(*apply("linalg.eigh", x))


def eigvals(x: Blob, /) -> Blob:
    """Compute the eigenvalues of matrices: complex, of shape (..., M)."""
    return _as_complex(apply("linalg.eigvals", x))


def eigvalsh(x: Blob, /) -> Blob:
    """Compute the eigenvalues of Hermitian matrices: real, ascending, of shape (..., M).

    Only the lower triangles are read.
    """
    return apply("linalg.eigvalsh", x)


def inv(x: Blob, /) -> Blob:
    """Compute the inverses of matrices of shape (..., M, M)."""
    return apply("linalg.inv", x)


def matmul(x1: Blob, x2: Blob, /) -> Blob:
    """Multiply matrices, (..., M, K) and (..., K, N), whose leading axes broadcast: ``x1 @ x2``.

    A 1-d `x1` is a row, a 1-d `x2` a column, and the result lacks that axis. Raises a ValueError if
    an operand is 0-d, or the shapes do not match.
    """
    if type(x1) is not type(x2):
        x1, x2 = require_blobs("matmul", (x1, x2))
    return _MATMUL[type(x1), type(x2)](x1, x2)


def matrix_norm(
    x: Blob, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Blob:
    """Compute the norm of each matrix, real.

    `ord` is ``"fro"`` or None for Frobenius; ``"nuc"`` for the sum of the singular values; 1, -1
    for the largest and the smallest sum of a column; inf, -inf for those of a row; 2, -2 for the
    largest and the smallest singular value. `keepdims` keeps the last two axes, with size 1.
    """
    return apply("linalg.matrix_norm", x, keepdims=keepdims, ord=ord)


def matrix_power(x: Blob, n: int, /) -> Blob:
    """Raise matrices of shape (..., M, M) to an integer power.

    0 returns identity matrices, 1 a view of `x`, negative numbers powers of the inverse.
    """
    return apply("linalg.matrix_power", x, n=n)


def matrix_rank(x: Blob, /, *, rtol: float | Blob | None = None) -> Blob:
    """Return the rank of each matrix, the number of singular values that are not small, as int64.

    Small are those up to `rtol` times the largest: a number, or a Blob that broadcasts with the
    stack; None for ``max(M, N)`` times the machine epsilon. Raises a ValueError if there are fewer
    than two axes.
    """
    return apply(_matrix_rank, as_blob("matrix_rank", x, rtol), rtol)


def _matrix_rank(xp: Any, x: Any, rtol: Any) -> Any:
    # NumPy's function would accept vectors.
    singular = xp.linalg.svdvals(x)
    rtol = _default_rtol(x.shape, singular.dtype) if rtol is None else xp.asarray(rtol)[..., None]
    # Sorted in descending order. A slice, because empty matrices have no singular values.
    return xp.sum(singular > singular[..., :1] * rtol, axis=-1, dtype=np.int64)


def _default_rtol(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return the standard's default tolerance."""
    return max(shape[-2:]) * np.finfo(dtype).eps


def matrix_transpose(x: Blob, /) -> Blob:
    """Return a view of a stack of matrices with the last two axes swapped.

    Raises a ValueError if there are fewer than two axes.
    """
    return as_blob("matrix_transpose", x).mT


def outer(x1: Blob, x2: Blob, /) -> Blob:
    """Compute the outer product of two vectors."""
    x1, x2 = require_blobs("outer", (x1, x2))
    return apply("linalg.outer", x1, x2)


def pinv(x: Blob, /, *, rtol: float | Blob | None = None) -> Blob:
    """Compute the pseudo-inverses of matrices; `rtol` as for `matrix_rank`."""
    return apply(_pinv, as_blob("pinv", x, rtol), rtol)


def _pinv(xp: Any, x: Any, rtol: Any) -> Any:
    # The default tolerance of NumPy's and CuPy's functions ignores the shape.
    if rtol is None:
        rtol = _default_rtol(x.shape, x.dtype if x.dtype.kind in "fc" else np.float64)
    return xp.linalg.pinv(x, rtol=rtol)


def qr(x: Blob, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Decompose matrices into one with orthonormal columns and an upper triangular one.

    With K for the smaller of M and N, the shapes are (..., M, K) and (..., K, N), or with `mode`
    ``"complete"`` (..., M, M) and (..., M, N). Raises a ValueError for another `mode`.
    """
    if mode not in {"reduced", "complete"}:
        raise ValueError(f'expected mode "reduced" or "complete", got {mode!r}')
    return QRResult(*apply("linalg.qr", x, mode=mode))


def slogdet(x: Blob, /) -> SlogdetResult:
    """Compute the signs and logarithms of determinants, also of those that overflow in `det`.

    The signs have the dtype of `x`, the logarithms are real; 0 and -inf for a singular matrix.
    """
    return SlogdetResult(*apply("linalg.slogdet", x))


def solve(x1: Blob, x2: Blob, /) -> Blob:
    """Solve ``x1 @ x = x2`` for one vector `x2`, of shape (M,), or matrices, of shape (..., M, K).

    Stacks broadcast. The result has shape (..., M) for a vector, (..., M, K) for matrices.
    """
    x1, x2 = require_blobs("solve", (x1, x2))
    return apply(_solve, x1, x2)


def _solve(xp: Any, x1: Any, x2: Any) -> Any:
    # CuPy does not broadcast stacks, and divides by the size of a result.
    if x2.ndim > 1 and x1.shape[:-2] != x2.shape[:-2]:
        stack = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        x1 = xp.broadcast_to(x1, stack + x1.shape[-2:])
        x2 = xp.broadcast_to(x2, stack + x2.shape[-2:])
    matrix = x2.shape[-2:] if x2.ndim > 1 else (*x2.shape, 1)
    if 0 in matrix and x1.shape[-2:] == (matrix[0], matrix[0]):
        shape = x2.shape if x2.ndim > 1 else x1.shape[:-1]
        one = (np.ones((1, 1), x.dtype) for x in (x1, x2))
        return xp.empty(shape, dtype=np.linalg.solve(*one).dtype)
    return xp.linalg.solve(x1, x2)


def svd(x: Blob, /, *, full_matrices: bool = True) -> SVDResult:
    """Compute the singular value decomposition of matrices, (..., M, N).

    With K for the smaller of M and N, the singular values are real, descending, of shape (..., K).
    U and Vh have shapes (..., M, M) and (..., N, N), or (..., M, K) and (..., K, N) unless
    `full_matrices`.
    """
    return SVDResult(*apply("linalg.svd", x, full_matrices=full_matrices))


def svdvals(x: Blob, /) -> Blob:
    """Compute the singular values of matrices: real, descending, of shape (..., K)."""
    return apply("linalg.svdvals", x)


def tensordot(
    x1: Blob, x2: Blob, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Blob:
    """Multiply two Blobs, not conjugated, and sum over some axes of both, which do not broadcast.

    `axes` is a number N for the last N of `x1` and the first N of `x2`, or two sequences of as many
    axes. Raises a ValueError if the number is negative, an axis is repeated, or the sizes of two
    differ; an IndexError for an axis out of range.
    """
    x1, x2 = require_blobs("tensordot", (x1, x2))
    if not is_integer(axes):
        first, second = axes  # type: ignore[misc]  # no integer here
        axes = _each_once(first, x1.shape), _each_once(second, x2.shape)
    elif axes < 0:  # type: ignore[operator]  # an integer here
        # NumPy takes a negative number for 0.
        raise ValueError(f"tensordot expects a number of axes of at least 0, got {axes}")
    return apply("tensordot", x1, x2, axes=axes)


def _each_once(axes: Sequence[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return axes of a shape. CuPy accepts repeated ones."""
    result = tuple(canonical_axis(axis, shape) for axis in axes)
    if len(set(result)) < len(result):
        raise ValueError(
            f"tensordot sums over each axis once, got axes {tuple(axes)} of shape {shape}"
        )
    return result


def trace(x: Blob, /, *, offset: int = 0, dtype: DType = None) -> Blob:
    """Sum a diagonal of each matrix; `offset` as for `diagonal`, `dtype` as for `sum`."""
    wanted = None if dtype is None else as_dtype(dtype)
    return apply("linalg.trace", x, offset=offset, dtype=wanted)


def vecdot(x1: Blob, x2: Blob, /, *, axis: int = -1) -> Blob:
    """Multiply vectors, or stacks of them: the sum of ``conj(x1) * x2`` along one axis.

    The other axes broadcast. Raises a ValueError if the sizes of the axis differ, or the axis is
    out of range.
    """
    x1, x2 = require_blobs("vecdot", (x1, x2))
    return apply("vecdot", x1, x2, axis=axis)


def vector_norm(x: Blob, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Blob:
    """Compute the norms of vectors, real. Several axes, or all (None), count as one.

    `ord` is the p of the p-norm; inf and -inf for the largest and the smallest absolute value, 0
    for the number of nonzero elements. `keepdims` keeps the axes, with size 1.
    """
    return apply("linalg.vector_norm", x, axis=axis, keepdims=keepdims, ord=ord)


if not TYPE_CHECKING:  # mypy reads only literal lists
    __all__ = defined_names(globals())  # noqa: PLE0605  # a list
