"""One array with a host and an accelerator copy, kept in step on demand and shared without copying.

A `Blob` goes as it is into NumPy, CuPy and PyTorch; the contents move when they must, and
`record_transfers` shows when and why. `open_model` and `read_blob` open Caffe's files as Blobs.

``import syncblob as xp`` is a namespace of the Python array API standard, version 2025.12.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

from syncblob import array_api
from syncblob._source_lines import SourceLine
from syncblob.array_api import *  # noqa: F403  # every name of the standard: its __all__
from syncblob.blob import Blob
from syncblob.devices import (
    Device,
    default_device,
    devices,
    set_default_device,
    simulated,
    use_device,
)
from syncblob.errors import (
    ConstWriteWarning,
    DeviceMismatchError,
    ModelFileError,
    NoDeviceError,
    StaleAliasWarning,
    SyncblobError,
    TransferGuardError,
)
from syncblob.memory import Head, SyncedMemory
from syncblob.transfer_log import PingPong, TransferLog, record_transfers
from syncblob.transfers import Transfer, max_transfers, no_transfers
from syncblob.verification import verified_const

if TYPE_CHECKING:
    from typing import Any

    from syncblob.caffe import (
        CopyReport,
        Layer,
        LayerBlobs,
        ModelFile,
        SolverState,
        open_model,
        open_solver_state,
        read_blob,
        read_blobs,
        read_prototxt,
        save_model,
        write_blob,
        write_prototxt,
    )

# Each warning is about one loss: a line that runs twice may lose twice. Users' filters come first.
warnings.simplefilter("always", StaleAliasWarning, append=True)

__all__ = [
    "Blob",
    "ConstWriteWarning",
    "CopyReport",
    "Device",
    "DeviceMismatchError",
    "Head",
    "Layer",
    "LayerBlobs",
    "ModelFile",
    "ModelFileError",
    "NoDeviceError",
    "PingPong",
    "SolverState",
    "SourceLine",
    "StaleAliasWarning",
    "SyncblobError",
    "SyncedMemory",
    "Transfer",
    "TransferGuardError",
    "TransferLog",
    "default_device",
    "devices",
    "max_transfers",
    "no_transfers",
    "open_model",
    "open_solver_state",
    "read_blob",
    "read_blobs",
    "read_prototxt",
    "record_transfers",
    "save_model",
    "set_default_device",
    "simulated",
    "use_device",
    "verified_const",
    "write_blob",
    "write_prototxt",
]
__all__ += array_api.__all__
__all__.sort()


_FILES = (
    "CopyReport",
    "Layer",
    "LayerBlobs",
    "ModelFile",
    "SolverState",
    "open_model",
    "open_solver_state",
    "read_blob",
    "read_blobs",
    "read_prototxt",
    "save_model",
    "write_blob",
    "write_prototxt",
)


def __getattr__(name: str) -> Any:
    """Bring in what is not always needed when it is asked for: files, and the version."""
    if name in _FILES:
        from syncblob import caffe  # see above

        return getattr(caffe, name)
    if name == "__version__":
        from importlib.metadata import version  # slow to import

        return version("syncblob")
    raise AttributeError(f"module 'syncblob' has no attribute {name!r}")


def _register_with_distributed() -> None:
    """Let distributed know, where it is there already, who can read the Blobs that it receives.

    A worker imports this package when it is first sent a Blob, and must then understand it.
    """
    protocol = sys.modules.get("distributed.protocol.serialize")
    if protocol is not None:
        from importlib import import_module  # see above

        protocol.dask_deserialize.register_lazy(
            "syncblob", lambda: import_module("syncblob.interop.dask")
        )


_register_with_distributed()


def __dir__() -> list[str]:
    """List the names, those that are brought in later too."""
    return sorted({*globals(), *__all__})
