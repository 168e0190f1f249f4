"""Dask: importing this module enables Dask arrays of Blobs, sent without a copy.

`syncblob` does it too, if Dask was imported first; distributed must have been imported as well.

Dask mostly calls NumPy's functions on its chunks, which accept Blobs anyway. This module adds the
size of a Blob, percentiles, the array backend ``"syncblob"`` for Dask's creation functions, and, if
distributed is installed, serialization between processes.
"""

from __future__ import annotations

from syncblob.integrations.dask import (
    BlobBackendEntrypoint,
    deserialize,
    register_with_distributed,
    serialize,
)

__all__ = ["BlobBackendEntrypoint", "deserialize", "serialize"]

register_with_distributed()
