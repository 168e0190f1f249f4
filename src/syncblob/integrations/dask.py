"""Dask arrays of Blobs, and Blobs sent between Dask's processes without a copy.

Most of what Dask does to a chunk it does through NumPy's functions, which Blobs take anyway. Here
is the rest: how large a Blob is, its percentiles, the array backend ``"syncblob"`` that Dask's own
creation functions use, and, where distributed is installed, the serialisation between processes.
"""

from __future__ import annotations

import importlib
import pickle
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask import config
from dask.array.backends import ArrayBackendEntrypoint, array_creation_dispatch
from dask.array.dispatch import percentile_lookup, to_numpy_dispatch
from dask.sizeof import sizeof

from syncblob.array_api import asarray
from syncblob.blob import Blob

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BlobBackendEntrypoint", "deserialize", "serialize"]


class BlobBackendEntrypoint(ArrayBackendEntrypoint):
    """What ``dask.config.set({"array.backend": "syncblob"})`` chooses.

    Chunks are made on the device that is the default one when the Dask array is made. Random
    numbers come in NumPy's arrays, for which there is ``to_backend()``.
    """

    @classmethod
    def to_backend(cls, data: da.Array, **kwargs: Any) -> da.Array:
        """Return the same Dask array with Blobs as its chunks; they share memory where they can."""
        if isinstance(data._meta, Blob):  # noqa: SLF001  # how Dask says what the chunks are
            return data
        return data.map_blocks(asarray, **kwargs)  # type: ignore[arg-type]  # Dask's own types are wrong here

    @property
    def RandomState(self) -> type[np.random.RandomState]:  # noqa: N802  # Dask's name
        """NumPy's."""
        return np.random.RandomState

    @property
    def default_bit_generator(self) -> type[np.random.BitGenerator]:
        """NumPy's."""
        return np.random.PCG64

    @staticmethod
    def ones(shape: Any, **kwargs: Any) -> da.Array:
        """Return a Dask array of ones; its chunks are const, each one element repeated."""
        return _of_blobs("ones", shape, **kwargs)

    @staticmethod
    def zeros(shape: Any, **kwargs: Any) -> da.Array:
        """Return a Dask array of zeros; its chunks are const, each one element repeated."""
        return _of_blobs("zeros", shape, **kwargs)

    @staticmethod
    def empty(shape: Any, **kwargs: Any) -> da.Array:
        """Return a Dask array whose elements nobody has set."""
        return _of_blobs("empty", shape, **kwargs)

    @staticmethod
    def full(shape: Any, fill_value: Any, **kwargs: Any) -> da.Array:
        """Return a Dask array of one value; its chunks are const, each one element repeated."""
        return _of_blobs("full", shape, fill_value, **kwargs)

    @staticmethod
    def arange(*bounds: Any, like: Any = None, **kwargs: Any) -> da.Array:
        """Return a Dask array of evenly spaced values."""
        with config.set({"array.backend": "numpy"}):
            return da.arange(*bounds, like=Blob(()) if like is None else like, **kwargs)


def _of_blobs(name: str, *args: Any, meta: Any = None, **kwargs: Any) -> da.Array:
    """Call one of Dask's creation functions for chunks that are Blobs."""
    with config.set({"array.backend": "numpy"}):
        return getattr(da, name)(*args, meta=Blob(()) if meta is None else meta, **kwargs)


def serialize(blob: Blob) -> tuple[dict[str, Any], list[memoryview]]:
    """Take a Blob apart for distributed: a header, and its bytes on the host without a copy.

    Downloads where the device is newer. Frames are read-only: data, then diff; UNINITIALIZED ones
    are left out. A view that is not C-contiguous is copied.

    Parameters
    ----------
    blob
        The Blob to send.
    """
    maker, arguments = blob.__reduce_ex__(5)
    frames = {
        place: x.raw() for place, x in enumerate(arguments) if isinstance(x, pickle.PickleBuffer)
    }
    rest = [None if place in frames else x for place, x in enumerate(arguments)]
    return {"blob": pickle.dumps((maker, rest)), "places": [*frames]}, [*frames.values()]


def deserialize(header: dict[str, Any], frames: Sequence[Any]) -> Blob:
    """Put a Blob together again: over the frames themselves, where they can be written.

    Its contents are on the host, for the device that it had, where that can be used here.

    Parameters
    ----------
    header, frames
        What `serialize` returned, after its journey.
    """
    # The peers of a cluster trust each other: they send functions, too.
    maker, arguments = pickle.loads(header["blob"])  # noqa: S301
    for place, frame in zip(header["places"], frames, strict=True):
        arguments[place] = frame
    blob: Blob = maker(*arguments)
    return blob


def _nbytes(blob: Blob) -> int:
    """Count data, and diff where there is one, once."""
    return blob.nbytes * (2 if blob.diff_head else 1)


def _register() -> None:
    # From then on Dask arrays take Blobs as operands.
    da.register_chunk_type(Blob)
    sizeof.register(Blob, _nbytes)
    to_numpy_dispatch.register(Blob, lambda data, **_: np.asarray(data))
    percentile_lookup.register(Blob, percentile_lookup.dispatch(np.ndarray))
    array_creation_dispatch.register_backend("syncblob", BlobBackendEntrypoint())
    if find_spec("distributed") is not None:
        protocol = importlib.import_module("distributed.protocol")
        protocol.dask_serialize.register(Blob, serialize)
        protocol.dask_deserialize.register(Blob, deserialize)


_register()
