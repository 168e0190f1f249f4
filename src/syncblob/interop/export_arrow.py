"""The Arrow PyCapsule interface of Blobs, through PyArrow.

https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import FrameType
from typing import Any

import numpy as np


def require_arrow(blob: Any) -> None:
    """Raise AttributeError if the caller of the property gets no Arrow capsules of a Blob."""
    caller = sys._getframe(2)  # noqa: SLF001  # `inspect` does the same
    if find_spec("pyarrow") is None or (blob.ndim != 1 and not _is_polars(caller)):
        raise AttributeError("__arrow_c_array__ is for a Blob of one axis, and needs pyarrow")


def capsules(blob: Any, requested_schema: Any = None) -> tuple[Any, Any]:
    """Return the Arrow capsules of a Blob; see `Blob.__arrow_c_array__`."""
    caller = sys._getframe(1)  # noqa: SLF001  # `inspect` does the same
    if not _is_polars(caller):
        return blob.__arrow_array__().__arrow_c_array__(requested_schema)
    import polars as pl
    import pyarrow as pa

    # Polars' constructors do not apply their other arguments to an object with Arrow capsules.
    arguments = caller.f_locals
    if "values" in arguments:
        options = {name: arguments[name] for name in ("dtype", "strict", "nan_to_null")}
        series = pl.Series(arguments["name"], np.asarray(blob), **options)
    else:
        series = pl.DataFrame(np.asarray(blob)).to_struct()
    array = series.to_arrow()
    _, capsule = array.__arrow_c_array__()
    return pa.field(series.name, array.type).__arrow_c_schema__(), capsule


def _is_polars(caller: FrameType) -> bool:
    return caller.f_globals.get("__name__", "").startswith("polars.")
