"""One array with a host and an accelerator copy, kept in step on demand and shared without copying.

NumPy, CuPy and PyTorch accept a `Blob` directly. Contents are transferred only when needed, and
`record_transfers` shows when and why. `open_model` and `read_blob` open Caffe's files as Blobs.

``import syncblob as xp`` is a namespace of the Python array API standard, version 2025.12.
"""

# ruff: noqa: F405  # names of the star import are listed in __all__

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np

from syncblob._blob import Blob
from syncblob._source_lines import SourceLine
from syncblob.array_api import *  # noqa: F403  # the names of the standard, its __all__
from syncblob.array_api import __array_api_version__, __array_namespace_info__
from syncblob.blob.proto_hook import register_messages as _register_messages
from syncblob.devices import (
    Device,
    available_devices,
    default_device,
    set_default_device,
    simulated,
    use_device,
)
from syncblob.errors import (
    ConstWriteWarning,
    DeviceGuardError,
    DeviceMismatchError,
    ModelFileError,
    NoDeviceError,
    StaleAliasWarning,
    SyncblobError,
    TransferGuardError,
)
from syncblob.guards import compute_only_on, max_transfers, no_transfers
from syncblob.memory import Head, SyncedMemory
from syncblob.memory.verify import verified_const
from syncblob.transfer_log import Operation, PingPong, TransferLog, record_transfers
from syncblob.transfers import Transfer

if TYPE_CHECKING:
    from syncblob.blob.proto_hook import Messages
    from syncblob.caffe import (
        CopyReport,
        Layer,
        LayerBlobs,
        ModelFile,
        NetShapes,
        SolverState,
        open_model,
        open_solver_state,
        read_blob,
        read_blobs,
        read_prototxt,
        read_solver_prototxt,
        save_model,
        save_solver_state,
        write_blob,
        write_prototxt,
    )

    __version__: str

# Each warning is about one lost write, and a line may lose several. Users' filters take precedence.
warnings.simplefilter("always", StaleAliasWarning, append=True)

# Listed in full, because mypy reads only literal lists.
__all__ = [
    "Blob",
    "ConstWriteWarning",
    "CopyReport",
    "Device",
    "DeviceGuardError",
    "DeviceMismatchError",
    "Head",
    "Layer",
    "LayerBlobs",
    "ModelFile",
    "ModelFileError",
    "NetShapes",
    "NoDeviceError",
    "Operation",
    "PingPong",
    "SolverState",
    "SourceLine",
    "StaleAliasWarning",
    "SyncblobError",
    "SyncedMemory",
    "Transfer",
    "TransferGuardError",
    "TransferLog",
    "__array_api_version__",
    "__array_namespace_info__",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "available_devices",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "can_cast",
    "ceil",
    "clip",
    "complex64",
    "complex128",
    "compute_only_on",
    "concat",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "default_device",
    "diff",
    "divide",
    "e",
    "einsum",
    "empty",
    "empty_like",
    "equal",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "fft",
    "finfo",
    "flip",
    "float16",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "from_dlpack",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "hypot",
    "iinfo",
    "imag",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "linalg",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "max_transfers",
    "maximum",
    "mean",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "nan",
    "negative",
    "newaxis",
    "nextafter",
    "no_transfers",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "open_model",
    "open_solver_state",
    "pad",
    "permute_dims",
    "pi",
    "positive",
    "pow",
    "prod",
    "read_blob",
    "read_blobs",
    "read_prototxt",
    "read_solver_prototxt",
    "real",
    "reciprocal",
    "record_transfers",
    "remainder",
    "repeat",
    "reshape",
    "result_type",
    "roll",
    "round",
    "save_model",
    "save_solver_state",
    "searchsorted",
    "set_default_device",
    "sign",
    "signbit",
    "simulated",
    "sin",
    "sinh",
    "sort",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "transpose",
    "tril",
    "triu",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "use_device",
    "var",
    "vecdot",
    "verified_const",
    "where",
    "write_blob",
    "write_prototxt",
    "zeros",
    "zeros_like",
]
__all__.sort()


_FILES = (
    "CopyReport",
    "Layer",
    "LayerBlobs",
    "ModelFile",
    "NetShapes",
    "SolverState",
    "open_model",
    "open_solver_state",
    "read_blob",
    "read_blobs",
    "read_prototxt",
    "read_solver_prototxt",
    "save_model",
    "save_solver_state",
    "write_blob",
    "write_prototxt",
)


# xarray and SciPy (`diag`) look these up in the array's namespace. NumPy computes them with Blobs.
_OF_NUMPY = frozenset(
    {"cross", "cumprod", "cumsum", "diag", "gradient", "lib", "median", "quantile"}
)

# pycaffe's class, which users of Caffe look for first.
_NET = (
    "; open_model(path) opens a model, ModelFile.from_net makes one of a definition; "
    "'Running nets' in the documentation runs it"
)


if not TYPE_CHECKING:  # type checkers would accept every misspelt name

    def __getattr__(name: str) -> object:
        """Return names that are not in `__all__`, or that are imported when needed."""
        if name in _OF_NUMPY:
            return getattr(np, name)
        if name in _FILES:
            from syncblob import caffe  # not always needed

            return getattr(caffe, name)
        if name == "__version__":
            from importlib.metadata import version  # slow to import

            return version("syncblob")
        advice = _NET if name == "Net" else ""
        if isinstance(vars(np).get(name), (np.ufunc, type(np.isclose))):
            advice = f", nor has the array API standard; numpy.{name} takes Blobs"
        raise AttributeError(f"module 'syncblob' has no attribute {name!r}{advice}")


def _import_messages() -> Messages:
    from syncblob.caffe.messages import blobproto  # not always needed

    return blobproto


_register_messages(_import_messages)


def _register_with_loaded() -> None:
    """Register Blobs with the loaded libraries that have a registry of array types.

    One of them is distributed: a worker imports this package when it receives its first Blob, and
    must then deserialize it.
    """
    # Here, because at the top these would be public names.
    from contextlib import suppress
    from importlib import import_module

    supported = {"dask.array": "dask", "einops": "einops", "torch.utils.data": "torch_data"}
    for library, module in supported.items():
        if library in sys.modules:
            # The import fails while the library itself is being imported.
            with suppress(ImportError):
                import_module(f"syncblob.integrations.{module}")
    protocol = sys.modules.get("distributed.protocol.serialize")
    if protocol is not None:
        protocol.dask_deserialize.register_lazy(
            "syncblob", lambda: import_module("syncblob.integrations.dask")
        )


_register_with_loaded()


def __dir__() -> list[str]:
    """Return all names, including those that are imported when needed."""
    return sorted({*globals(), *__all__})
