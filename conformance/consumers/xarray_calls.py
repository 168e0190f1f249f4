"""Calls of xarray on arrays that hold Blobs."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from conformance.consumers.calls import call
from conformance.consumers.inputs import CUBE, IMAGE, MASK, WITH_NANS

__all__ = ["CALLS"]


def _array(data: Any) -> xr.DataArray:
    """Name the axes of an image, with coordinates for one of them."""
    return xr.DataArray(data, dims=("y", "x"), coords={"x": np.arange(data.shape[1])})


CALLS = [
    call("DataArray", _array, IMAGE),
    call("DataArray + DataArray", lambda a: _array(a) + _array(a).isel(y=0), IMAGE),
    call("DataArray.T", lambda a: _array(a).T, IMAGE),
    call("DataArray.argmax", lambda a: _array(a).argmax("x"), IMAGE),
    call("DataArray.astype", lambda a: _array(a).astype("float32"), IMAGE),
    call(
        "DataArray.broadcast_like",
        lambda a, b: _array(a)[0].broadcast_like(_array(b)),
        IMAGE,
        IMAGE,
    ),
    call("DataArray.clip", lambda a: _array(a).clip(0.25, 0.75), IMAGE),
    call("DataArray.coarsen", lambda a: _array(a).coarsen(x=3).mean(), IMAGE),
    call("DataArray.copy", lambda a: _array(a).copy(deep=True), IMAGE),
    call("DataArray.cumprod", lambda a: _array(a).cumprod("x", skipna=False), IMAGE),
    call("DataArray.cumsum", lambda a: _array(a).cumsum("x"), IMAGE),
    call("DataArray.cumsum skipna=False", lambda a: _array(a).cumsum("x", skipna=False), IMAGE),
    call("DataArray.differentiate", lambda a: _array(a).differentiate("x"), IMAGE),
    call("DataArray.dot", lambda a: _array(a).dot(_array(a), dim="y"), IMAGE),
    call("DataArray.fillna", lambda a: _array(a).fillna(0.0), WITH_NANS),
    call("DataArray.groupby", lambda a: _array(a).groupby("x").mean(), IMAGE),
    call("DataArray.isel", lambda a: _array(a).isel(x=slice(1, 6, 2), y=3), IMAGE),
    call("DataArray.isnull", lambda a: _array(a).isnull(), WITH_NANS),
    call("DataArray.max", lambda a: _array(a).max(), IMAGE),
    call("DataArray.mean", lambda a: _array(a).mean("y"), IMAGE),
    call("DataArray.mean skipna", lambda a: _array(a).mean("y", skipna=True), WITH_NANS),
    call("DataArray.median", lambda a: _array(a).median("y"), IMAGE),
    call("DataArray.median skipna=False", lambda a: _array(a).median("y", skipna=False), IMAGE),
    call("DataArray.pad", lambda a: _array(a).pad(y=1), IMAGE),
    call("DataArray.quantile", lambda a: _array(a).quantile(0.5, "y"), IMAGE),
    call("DataArray.quantile skipna=False", lambda a: _array(a).quantile(0.5, skipna=False), IMAGE),
    call("DataArray.roll", lambda a: _array(a).roll(x=2), IMAGE),
    call("DataArray.rolling", lambda a: _array(a).rolling(x=3).sum(), IMAGE),
    call("DataArray.sel", lambda a: _array(a).sel(x=[1, 3]), IMAGE),
    call("DataArray.shift", lambda a: _array(a).shift(x=2), IMAGE),
    call("DataArray.sortby", lambda a: _array(a).sortby("x", ascending=False), IMAGE),
    call("DataArray.stack", lambda a: _array(a).stack(z=("x", "y")), IMAGE),
    call("DataArray.std", lambda a: _array(a).std("y"), IMAGE),
    call("DataArray.std skipna=False", lambda a: _array(a).std(skipna=False, ddof=1), IMAGE),
    call("DataArray.sum skipna=False", lambda a: _array(a).sum("y", skipna=False), IMAGE),
    call("DataArray.var skipna=False", lambda a: _array(a).var("y", skipna=False), IMAGE),
    call("DataArray.where", lambda a, m: _array(a).where(_array(m)), IMAGE, MASK),
    call(
        "DataArray.where float32",
        lambda a, m: _array(a).where(_array(m)),
        IMAGE.astype(np.float32),
        MASK,
    ),
    call("Dataset.mean", lambda a: xr.Dataset({"a": _array(a), "b": _array(a) * 2}).mean(), IMAGE),
    call(
        "NamedArray.permute_dims",
        lambda a: xr.NamedArray(("a", "b", "c"), a).permute_dims("c", "a", "b"),
        CUBE,
    ),
    call("Variable.sum", lambda a: xr.Variable(("a", "b", "c"), a).sum("b"), CUBE),
    call("apply_ufunc", lambda a: xr.apply_ufunc(np.exp, _array(a)), IMAGE),
    call("concat", lambda a: xr.concat([_array(a), _array(a)], "y"), IMAGE),
    call("cross", lambda a: xr.cross(_array(a)[:, :3], _array(a)[:, :3], dim="x"), IMAGE),
    call("where", lambda a, m: xr.where(_array(m), _array(a), 0.0), IMAGE, MASK),
    call("zeros_like", lambda a: xr.zeros_like(_array(a)), IMAGE),
]
