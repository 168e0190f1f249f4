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

from syncblob import array_api
from syncblob._blob import Blob as Blob
from syncblob._source_lines import SourceLine as SourceLine
from syncblob.array_api import *  # noqa: F403  # the names of the standard
from syncblob.array_api import __array_api_version__ as __array_api_version__
from syncblob.array_api import __array_namespace_info__ as __array_namespace_info__
from syncblob.blob.memory_summary import MemorySummary as MemorySummary
from syncblob.blob.memory_summary import memory_summary as memory_summary
from syncblob.devices import Device as Device
from syncblob.devices import available_devices as available_devices
from syncblob.devices import default_device as default_device
from syncblob.devices import memory_kind as memory_kind
from syncblob.devices import set_default_device as set_default_device
from syncblob.devices import set_memory_kind as set_memory_kind
from syncblob.devices import set_memory_limit as set_memory_limit
from syncblob.devices import simulated as simulated
from syncblob.devices import use_device as use_device
from syncblob.errors import *  # noqa: F403  # all of them
from syncblob.memory import Head as Head
from syncblob.memory import SyncedMemory as SyncedMemory
from syncblob.memory.room import Evictable as Evictable
from syncblob.memory.room import set_eviction_policy as set_eviction_policy
from syncblob.memory.rows import MemoryRow as MemoryRow
from syncblob.transfers import Transfer as Transfer
from syncblob.transfers.guards import compute_only_on as compute_only_on
from syncblob.transfers.guards import max_transfers as max_transfers
from syncblob.transfers.guards import no_transfers as no_transfers
from syncblob.transfers.log import Operation as Operation
from syncblob.transfers.log import TransferLog as TransferLog
from syncblob.transfers.log import record_transfers as record_transfers
from syncblob.transfers.problems import Problem as Problem
from syncblob.transfers.verify import verified_const as verified_const

if TYPE_CHECKING:
    from syncblob.caffe import CopyReport as CopyReport
    from syncblob.caffe import Layer as Layer
    from syncblob.caffe import LayerBlobs as LayerBlobs
    from syncblob.caffe import ModelFile as ModelFile
    from syncblob.caffe import NetShapes as NetShapes
    from syncblob.caffe import SolverState as SolverState
    from syncblob.caffe import open_model as open_model
    from syncblob.caffe import open_solver_state as open_solver_state
    from syncblob.caffe import read_blob as read_blob
    from syncblob.caffe import read_prototxt as read_prototxt
    from syncblob.caffe import read_solver_prototxt as read_solver_prototxt
    from syncblob.caffe import save_model as save_model
    from syncblob.caffe import save_solver_state as save_solver_state
    from syncblob.caffe import write_blob as write_blob
    from syncblob.caffe import write_prototxt as write_prototxt

    __version__: str

# Show every warning: a line may lose several writes. The filters of users come first.
warnings.simplefilter("always", StaleAliasWarning, append=True)

# Names of `syncblob.caffe`, which is imported when one of them is used.
_OF_CAFFE = frozenset(
    """
    CopyReport Layer LayerBlobs ModelFile NetShapes SolverState open_model open_solver_state
    read_blob read_prototxt read_solver_prototxt save_model save_solver_state write_blob
    write_prototxt
    """.split()  # noqa: SIM905  # reads best as words
)

# A type checker exports what is imported as itself or by a star. A list for it would have to be
# literal, and so repeat every name of the array API.
if not TYPE_CHECKING:
    _ours = {
        name
        for name, x in globals().items()
        if getattr(x, "__module__", "").startswith("syncblob.") and not name.startswith("_")
    }
    __all__ = list(_ours | _OF_CAFFE | {*array_api.__all__})
    __all__.sort()

# Libraries look these up in the array's namespace. NumPy computes them with Blobs.
_OF_NUMPY = frozenset(
    """
    cross cumprod cumsum diag einsum gradient lib median pad quantile transpose
    """.split()  # noqa: SIM905  # reads best as words
)

if not TYPE_CHECKING:  # type checkers would accept every misspelt name

    def __getattr__(name: str) -> object:
        """Return names that are not in `__all__`, or that are imported when needed."""
        if name in _OF_NUMPY:
            return getattr(np, name)
        if name in _OF_CAFFE:
            from syncblob import caffe  # not always needed

            return getattr(caffe, name)
        if name == "__version__":
            from importlib.metadata import version  # slow to import

            return version("syncblob")
        from syncblob.blob.missing import OF_MODULE  # not a public name

        advice = f"; {OF_MODULE[name]}" if name in OF_MODULE else ""
        if isinstance(vars(np).get(name), (np.ufunc, type(np.isclose))):
            advice = f", nor has the array API standard; numpy.{name} takes Blobs"
        raise AttributeError(f"module 'syncblob' has no attribute {name!r}{advice}")


def _register_with_loaded() -> None:
    """Register Blobs with the loaded libraries that have a registry of array types."""
    # Names imported at the top of this module would be public.
    from contextlib import suppress
    from importlib import import_module

    supported = {"dask.array": "dask", "einops": "einops", "torch.utils.data": "torch_data"}
    for library, module in supported.items():
        if library in sys.modules:
            # The import fails while the library itself is being imported.
            with suppress(ImportError):
                import_module(f"syncblob.integrations.{module}")


_register_with_loaded()


def __dir__() -> list[str]:
    """Return all names, including those that are imported when needed."""
    return sorted({*globals(), *_OF_CAFFE})
