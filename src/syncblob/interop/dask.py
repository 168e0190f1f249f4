"""Dask: importing this module lets Dask arrays be made of Blobs and sends Blobs without a copy.

Most of what Dask does to a chunk it does through NumPy's functions, which Blobs take anyway. Here
is the rest: how large a Blob is, its percentiles, the array backend ``"syncblob"`` that Dask's own
creation functions use, and, where distributed is installed, the serialisation between processes.
"""

from __future__ import annotations

from syncblob.integrations.dask import BlobBackendEntrypoint, deserialize, serialize

__all__ = ["BlobBackendEntrypoint", "deserialize", "serialize"]
