"""Dask: importing this module enables Dask arrays of Blobs, sent without a copy.

`syncblob` does it too, if Dask was imported first.

Dask mostly calls NumPy's functions on its chunks, which accept Blobs anyway. This module adds the
size of a Blob, percentiles, the array backend ``"syncblob"`` for Dask's creation functions, and, if
distributed is installed, serialization between processes.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import dask.array as da
import numpy as np
from dask import config
from dask.array.backends import NumpyBackendEntrypoint, array_creation_dispatch
from dask.array.dispatch import percentile_lookup, to_numpy_dispatch
from dask.sizeof import sizeof

from syncblob._blob import Blob
from syncblob.array_api import asarray

__all__ = ["BlobBackendEntrypoint", "deserialize", "serialize"]


def _create(function: Any, template: str, /, *args: Any, **kwargs: Any) -> da.Array:
    """Call a creation function of Dask's, with a Blob as the template of the chunks."""
    if kwargs.get(template) is None:
        kwargs[template] = Blob(())
    with config.set({"array.backend": "numpy"}):
        return function(*args, **kwargs)


class BlobBackendEntrypoint(NumpyBackendEntrypoint):
    """The backend that ``dask.config.set({"array.backend": "syncblob"})`` selects.

    Chunks are on the default device at the time the Dask array is made. Random numbers are in NumPy
    arrays; ``to_backend()`` converts them.
    """

    @classmethod
    def to_backend(cls, data: da.Array, **kwargs: Any) -> da.Array:
        """Return the same Dask array with Blobs as chunks, which share memory if possible."""
        if isinstance(data._meta, Blob):  # noqa: SLF001  # how Dask describes its chunks
            return data
        return data.map_blocks(asarray, **kwargs)  # type: ignore[arg-type]  # Dask's type hints are wrong here

    # Each chunk is const and repeats one element, except of `empty` and `arange`.
    ones: Any = staticmethod(partial(_create, da.ones, "meta"))
    zeros: Any = staticmethod(partial(_create, da.zeros, "meta"))
    empty: Any = staticmethod(partial(_create, da.empty, "meta"))
    full: Any = staticmethod(partial(_create, da.full, "meta"))
    arange: Any = staticmethod(partial(_create, da.arange, "like"))


def serialize(blob: Blob) -> tuple[dict[str, Any], list[memoryview]]:
    """Serialize a Blob for distributed: a header, and its host bytes without a copy.

    Downloads if the device is newer. The frames are read-only: data, then diff; UNINITIALIZED ones
    are omitted. A view that is not C-contiguous is copied.

    Parameters
    ----------
    blob
        The Blob to send.
    """
    maker, arguments = blob.__reduce_ex__(5)
    frames = {
        index: x.raw() for index, x in enumerate(arguments) if isinstance(x, pickle.PickleBuffer)
    }
    rest = [None if index in frames else x for index, x in enumerate(arguments)]
    return {"blob": pickle.dumps((maker, rest)), "indices": [*frames]}, [*frames.values()]


def deserialize(header: dict[str, Any], frames: Sequence[Any]) -> Blob:
    """Deserialize a Blob, over the frames themselves if they are writable.

    The contents are on the host. The device is the original one if that is available here.

    Parameters
    ----------
    header, frames
        The result of `serialize`, as received.
    """
    # The processes of a cluster trust each other: they also send functions.
    maker, arguments = pickle.loads(header["blob"])  # noqa: S301
    for index, frame in zip(header["indices"], frames, strict=True):
        arguments[index] = frame
    blob: Blob = maker(*arguments)
    return blob


# Makes Dask arrays accept Blobs as operands.
da.register_chunk_type(Blob)
# The bytes of data, and of diff if it exists.
sizeof.register(Blob, lambda blob: blob.nbytes * (2 if blob.diff_head else 1))
to_numpy_dispatch.register(Blob, lambda data, **_: np.asarray(data))
percentile_lookup.register(Blob, percentile_lookup.dispatch(np.ndarray))
array_creation_dispatch.register_backend("syncblob", BlobBackendEntrypoint())
if find_spec("distributed") is not None:
    _protocol = importlib.import_module("distributed.protocol")
    _protocol.dask_serialize.register(Blob, serialize)
    _protocol.dask_deserialize.register(Blob, deserialize)
