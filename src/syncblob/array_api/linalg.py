"""The extension for linear algebra (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/extensions/linear_algebra_functions.html

Operands are Blobs; arrays of other libraries are refused. The last two axes are those of the
matrices, the axes before them those of a stack. Every function returns new Blobs, unless it says
that it returns a view. It is computed on the device of the operands, without a transfer; on the
accelerator where only one of two is there.

Integers are computed with as float64. float16 has no decompositions. What is refused for its
values, a singular matrix for example, raises `numpy.linalg.LinAlgError`, a ValueError; CuPy does
not look at values.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Literal, NamedTuple

from syncblob._dtypes import as_dtype
from syncblob.array_api import _corrected_linalg
from syncblob.array_api._operands import require_blobs
from syncblob.array_api.linear_algebra_functions import matmul, matrix_transpose, tensordot, vecdot
from syncblob.blob.compute import apply, view

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from syncblob.blob import Blob

__all__ = [
    "EigResult",
    "EighResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors in the columns of matrices: both complex."""

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


def cholesky(x: Blob, /, *, upper: bool = False) -> Blob:
    """Decompose Hermitian, positive-definite matrices into a triangular one and its adjoint.

    Parameters
    ----------
    x
        Of shape (..., M, M). Only one triangle is read.
    upper
        Return the upper triangular factor instead of the lower one.
    """
    return apply("linalg.cholesky", x, upper=upper)


def cross(x1: Blob, x2: Blob, /, *, axis: int = -1) -> Blob:
    """Compute the cross product of vectors of three elements.

    Parameters
    ----------
    x1, x2
        Their other axes broadcast.
    axis
        The axis of the vectors, counted from the last.

    Raises
    ------
    ValueError
        If the size of the axis is not 3.
    IndexError
        If there is no such axis.
    """
    require_blobs("cross", x1, x2)
    return apply(_corrected_linalg.cross, x1, x2, axis=axis)


def det(x: Blob, /) -> Blob:
    """Compute the determinants of matrices of shape (..., M, M)."""
    return apply("linalg.det", x)


def diagonal(x: Blob, /, *, offset: int = 0) -> Blob:
    """Return a view of a diagonal of each matrix, in the last axis.

    Parameters
    ----------
    x
        Of shape (..., M, N).
    offset
        Which diagonal: the main one for 0, above it for positive numbers.
    """
    return view(x, "diagonal", lambda array: _corrected_linalg.diagonal(array, offset))


def eig(x: Blob, /) -> EigResult:
    """Compute eigenvalues and eigenvectors of matrices of shape (..., M, M).

    Returns
    -------
    EigResult
        Of shapes (..., M) and (..., M, M), always complex, in the precision of `x`.

    Raises
    ------
    NotImplementedError
        On a CUDA device with a CuPy older than version 14.
    """
    return EigResult(*apply(_corrected_linalg.eig, x))


def eigh(x: Blob, /) -> EighResult:
    """Compute eigenvalues and eigenvectors of Hermitian matrices of shape (..., M, M).

    Only the lower triangles are read.

    Returns
    -------
    EighResult
        Of shapes (..., M), real, and (..., M, M).
    """
    return EighResult(*apply("linalg.eigh", x))


def eigvals(x: Blob, /) -> Blob:
    """Compute the eigenvalues of matrices: complex, of shape (..., M).

    Raises
    ------
    NotImplementedError
        On a CUDA device with a CuPy older than version 14.
    """
    return apply(_corrected_linalg.eigvals, x)


def eigvalsh(x: Blob, /) -> Blob:
    """Compute the eigenvalues of Hermitian matrices: real, ascending, of shape (..., M).

    Only the lower triangles are read.
    """
    return apply("linalg.eigvalsh", x)


def inv(x: Blob, /) -> Blob:
    """Compute the inverses of matrices of shape (..., M, M)."""
    return apply("linalg.inv", x)


def matrix_norm(
    x: Blob, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Blob:
    """Compute the norm of each matrix, real.

    Parameters
    ----------
    x
        Of shape (..., M, N).
    keepdims
        Keep the last two axes, with size 1.
    ord
        ``"fro"`` or None: Frobenius; ``"nuc"``: the sum of the singular values; 1, -1: the largest
        and the smallest sum of a column; inf, -inf: those of a row; 2, -2: the largest and the
        smallest singular value.
    """
    return apply("linalg.matrix_norm", x, keepdims=keepdims, ord=ord)


def matrix_power(x: Blob, n: int, /) -> Blob:
    """Raise matrices of shape (..., M, M) to an integer power; a view of `x` for 1.

    A power of 0 gives identity matrices, a negative one powers of the inverse.
    """
    return apply("linalg.matrix_power", x, n=operator.index(n))


def matrix_rank(x: Blob, /, *, rtol: float | Blob | None = None) -> Blob:
    """Count the singular values of each matrix that are not small: int64.

    Parameters
    ----------
    x
        Of shape (..., M, N).
    rtol
        Which are small: those up to `rtol` times the largest. A number, or a Blob that broadcasts
        with the stack; None for ``max(M, N)`` times the distance from 1 to the next number.

    Raises
    ------
    ValueError
        If there are fewer than two axes.
    """
    return apply(_corrected_linalg.matrix_rank, x, rtol)


def outer(x1: Blob, x2: Blob, /) -> Blob:
    """Multiply each element of one vector with each of another: shape (N, M).

    Raises
    ------
    ValueError
        If one has another number of axes than one.
    """
    require_blobs("outer", x1, x2)
    return apply(_corrected_linalg.outer, x1, x2)


def pinv(x: Blob, /, *, rtol: float | Blob | None = None) -> Blob:
    """Compute the pseudo-inverses of matrices: shape (..., N, M).

    Parameters
    ----------
    x
        Of shape (..., M, N).
    rtol
        Which singular values count as zero; as for `matrix_rank`.
    """
    return apply(_corrected_linalg.pinv, x, rtol)


def qr(x: Blob, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Decompose matrices into one with orthonormal columns and an upper triangular one.

    Parameters
    ----------
    x
        Of shape (..., M, N).
    mode
        ``"reduced"`` for shapes (..., M, K) and (..., K, N), where K is the smaller of M and N;
        ``"complete"`` for (..., M, M) and (..., M, N).

    Raises
    ------
    ValueError
        If `mode` is another one.
    """
    if mode not in {"reduced", "complete"}:
        raise ValueError(f'expected mode "reduced" or "complete", got {mode!r}')
    return QRResult(*apply("linalg.qr", x, mode=mode))


def slogdet(x: Blob, /) -> SlogdetResult:
    """Compute the signs and logarithms of determinants, which may be too large or small for `det`.

    Parameters
    ----------
    x
        Of shape (..., M, M).

    Returns
    -------
    SlogdetResult
        The signs in the dtype of `x`, the logarithms real. 0 and -inf of a singular matrix.
    """
    return SlogdetResult(*apply("linalg.slogdet", x))


def solve(x1: Blob, x2: Blob, /) -> Blob:
    """Solve the linear systems ``x1 @ x = x2``.

    Parameters
    ----------
    x1
        Of shape (..., M, M).
    x2
        One vector, of shape (M,), or matrices of shape (..., M, K); the stacks broadcast.

    Returns
    -------
    Blob
        Of shape (..., M) for a vector, (..., M, K) for matrices.
    """
    require_blobs("solve", x1, x2)
    return apply(_corrected_linalg.solve, x1, x2)


def svd(x: Blob, /, *, full_matrices: bool = True) -> SVDResult:
    """Compute the singular value decomposition of matrices.

    Parameters
    ----------
    x
        Of shape (..., M, N). K is the smaller of M and N.
    full_matrices
        Return U and Vh of shapes (..., M, M) and (..., N, N), else (..., M, K) and (..., K, N).

    Returns
    -------
    SVDResult
        The singular values are real, descending, of shape (..., K).
    """
    return SVDResult(*apply("linalg.svd", x, full_matrices=full_matrices))


def svdvals(x: Blob, /) -> Blob:
    """Compute the singular values of matrices: real, descending, of shape (..., K)."""
    return apply("linalg.svdvals", x)


def trace(x: Blob, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Blob:
    """Sum a diagonal of each matrix.

    Parameters
    ----------
    x
        Of shape (..., M, N).
    offset
        Which diagonal: the main one for 0, above it for positive numbers.
    dtype
        To convert to before the sum. None for int64 or uint64 of smaller integers, else that of
        `x`.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    return apply("linalg.trace", x, offset=offset, dtype=wanted)


def vector_norm(
    x: Blob,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Blob:
    """Compute the norms of vectors, real.

    Parameters
    ----------
    x
        Of any shape.
    axis
        The axis of the vectors; several of them, or all (None), are taken for one.
    keepdims
        Keep these axes, with size 1.
    ord
        p of the p-norm; inf and -inf for the largest and the smallest absolute value, 0 for the
        number of elements that are not 0.
    """
    return apply("linalg.vector_norm", x, axis=axis, keepdims=keepdims, ord=ord)
