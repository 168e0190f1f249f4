"""Methods that other libraries call: DLPack, the CUDA array interface and others."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._source_lines import user_instruction
from syncblob.interop import cuda
from syncblob.memory import CONST, MUTABLE, Head

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore


def cuda_array_interface(blob: BlobCore) -> dict[str, Any]:
    """Describe data on the CUDA device; see `Blob.__cuda_array_interface__`."""
    cuda.require_own_interface(blob._home)
    memory, layout = blob._memory, blob._layout
    # Libraries read the attribute twice: to test for it and to get it. The first read must give
    # the newest contents, but it may be the test alone, so it makes a borrow. The second one
    # exposes the memory, and must not repeat the warning. Numba reads it once, and keeps the
    # address.
    side = blob._side
    exposed_before = memory.is_exposed(side, layout.start, layout.stop)
    access = CONST if blob._readonly or exposed_before else MUTABLE
    unchanged = memory.head_of(layout, side) is Head.HEAD_AT_GPU
    array = cuda.array_over_memory(memory, side, layout, access)
    asked = any(array.data.mem is kept.data.mem for kept in blob._exposed)
    if access is not CONST and ((asked and unchanged) or user_instruction()[2] == "numba"):
        memory.expose(side, start=layout.start, stop=layout.stop)
    if not asked:
        blob._exposed = (*blob._exposed, array)
    home = cuda.require_protocol(memory, side, cuda.CUDA)
    described: dict[str, Any] = home.describe(array, readonly=blob._readonly)
    return described


# --- methods that only one library calls, so it is installed --------------------------------------


def require_arrow(blob: BlobCore) -> None:
    """Raise AttributeError if the caller of the property gets no Arrow capsules of a Blob."""
    if find_spec("pyarrow") is None or (blob.ndim != 1 and not _is_polars(sys._getframe(2))):
        raise AttributeError("__arrow_c_array__ is for a Blob of one axis, and needs pyarrow")


def arrow_capsules(blob: Any, requested_schema: Any = None) -> tuple[Any, Any]:
    """Return the Arrow capsules of a Blob; see `Blob.__arrow_c_array__`."""
    caller = sys._getframe(1)
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
