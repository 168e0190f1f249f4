"""Calls of array-api-extra: all its public functions."""

from __future__ import annotations

import array_api_extra as xpx
import numpy as np

from conformance.consumers.calls import call
from conformance.consumers.inputs import (
    CUBE,
    IMAGE,
    INTEGERS,
    MASK,
    MATRIX,
    SAMPLES,
    SYMMETRIC,
    VECTOR,
    WITH_NANS,
)

__all__ = ["CALLS"]

_COMPLEX = VECTOR * np.exp(1j * VECTOR)
_PLACE = np.asarray([5, 2, 7])

CALLS = [
    call("angle", xpx.angle, _COMPLEX),
    call(
        "apply_where",
        lambda mask, x, y: xpx.apply_where(mask, (x, y), lambda a, b: a * b, lambda a, b: a - b),
        MASK,
        IMAGE,
        IMAGE + 1.0,
    ),
    call(
        "apply_where fill_value",
        lambda m, x: xpx.apply_where(m, x, lambda a: -a, fill_value=0.0),
        MASK,
        IMAGE,
    ),
    call("argpartition", lambda x: xpx.argpartition(x, 0)[:1], VECTOR[::-1].copy()),
    call("at add", lambda x, i: xpx.at(x, i).add(1.0), VECTOR, _PLACE),
    call("at max", lambda x: xpx.at(x)[2:5].max(0.5), VECTOR),
    call("at multiply", lambda x, m: xpx.at(x, m).multiply(2.0), IMAGE, MASK),
    call("at set", lambda x: xpx.at(x)[2:5].set(0.0), VECTOR),
    call("at set, copied", lambda x: xpx.at(x)[2:5].set(0.0, copy=True), VECTOR),
    call("atleast_nd", lambda x: xpx.atleast_nd(x, ndim=3), IMAGE),
    call("broadcast_shapes", lambda x: xpx.broadcast_shapes(x.shape, (1, 9)), IMAGE),
    call("cov", xpx.cov, SAMPLES.T),
    call("create_diagonal", xpx.create_diagonal, VECTOR),
    call("create_diagonal offset", lambda x: xpx.create_diagonal(x, offset=-1), VECTOR),
    call("default_dtype", lambda x: str(xpx.default_dtype(x.__array_namespace__())), VECTOR),
    call("deg2rad", xpx.deg2rad, VECTOR),
    call("diag_indices", lambda x: xpx.diag_indices(4, xp=x.__array_namespace__()), VECTOR),
    call("expand_dims", lambda x: xpx.expand_dims(x, axis=(0, 2)), IMAGE),
    call("isclose", xpx.isclose, VECTOR, VECTOR + 1e-12),
    call("isin", xpx.isin, INTEGERS, np.asarray([1, 3])),
    call("kron", xpx.kron, MATRIX, SYMMETRIC),
    call(
        "lazy_apply",
        lambda x: xpx.lazy_apply(np.sort, x, as_numpy=True, shape=x.shape, dtype=x.dtype),
        VECTOR[::-1].copy(),
    ),
    call("nan_to_num", xpx.nan_to_num, WITH_NANS),
    call("nanmax", lambda x: xpx.nanmax(x, axis=0), WITH_NANS),
    call("nanmean", lambda x: xpx.nanmean(x, axis=0), WITH_NANS),
    call("nanmin", lambda x: xpx.nanmin(x, axis=0), WITH_NANS),
    call("nansum", lambda x: xpx.nansum(x, axis=0), WITH_NANS),
    call("nunique", xpx.nunique, INTEGERS),
    call("one_hot", lambda x: xpx.one_hot(x, 8), INTEGERS),
    call("pad", lambda x: xpx.pad(x, 2, constant_values=-1.0), CUBE),
    call("pad by axis", lambda x: xpx.pad(x, ((0, 1), (2, 0), (0, 0))), CUBE),
    call("partition", lambda x: xpx.partition(x, 0)[:1], VECTOR[::-1].copy()),
    call("rad2deg", xpx.rad2deg, VECTOR),
    call("searchsorted", lambda x, v: xpx.searchsorted(x, v, side="right"), VECTOR, VECTOR + 0.01),
    call("setdiff1d", xpx.setdiff1d, INTEGERS, np.asarray([1, 3])),
    call("sinc", xpx.sinc, VECTOR),
    call("testing.assert_close", xpx.testing.assert_close, VECTOR, VECTOR),
    call("testing.assert_equal", xpx.testing.assert_equal, VECTOR, VECTOR),
    call("tril_indices", lambda x: xpx.tril_indices(4, xp=x.__array_namespace__()), VECTOR),
    call("triu_indices", lambda x: xpx.triu_indices(4, xp=x.__array_namespace__()), VECTOR),
    call("union1d", xpx.union1d, INTEGERS, np.asarray([1, 9])),
    call("unravel_index", lambda i: xpx.unravel_index(i, (2, 4)), INTEGERS),
]
