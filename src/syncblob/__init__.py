"""One array with a host and an accelerator copy, kept in step on demand and shared without copying.

A `Blob` goes as it is into NumPy, CuPy and PyTorch; the contents move when they must, and
`record_transfers` shows when and why. `open_model` and `read_blob` open Caffe's files as Blobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncblob._source_lines import SourceLine
from syncblob.array_api import asarray, from_dlpack
from syncblob.blob import Blob
from syncblob.caffe import Layer, ModelFile, open_model, read_blob
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

__all__ = [
    "Blob",
    "ConstWriteWarning",
    "Device",
    "DeviceMismatchError",
    "Head",
    "Layer",
    "ModelFile",
    "ModelFileError",
    "NoDeviceError",
    "PingPong",
    "SourceLine",
    "StaleAliasWarning",
    "SyncblobError",
    "SyncedMemory",
    "Transfer",
    "TransferGuardError",
    "TransferLog",
    "asarray",
    "default_device",
    "devices",
    "from_dlpack",
    "max_transfers",
    "no_transfers",
    "open_model",
    "read_blob",
    "record_transfers",
    "set_default_device",
    "simulated",
    "use_device",
    "verified_const",
]


def __getattr__(name: str) -> Any:
    """Look the version up when it is asked for: importlib.metadata is slow to import."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415  # see above

        return version("syncblob")
    raise AttributeError(f"module 'syncblob' has no attribute {name!r}")
