"""Formats of one array without a name: Caffe's ``.binaryproto`` and NumPy's ``.npy``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib import format as npy

from syncblob.caffe import blob_values, read_blob
from syncblob.caffe.convert.weights import LayerWeights, Weights, lazy_entry
from syncblob.caffe.messages.blobproto import blob_pieces, padded
from syncblob.caffe.messages.pieces import write_pieces
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


_AXES_OF_IMAGES = (2, 3)
_OBJECTS = (
    "the .npy file holds Python objects, such as a dictionary of weights, instead of one array of "
    "numbers. Loading them may run code of the file: if you trust it, open it by numpy.load(path, "
    "allow_pickle=True), and save its arrays by numpy.savez"
)


def read_binaryproto(path: str) -> Weights:
    """Open a ``.binaryproto``."""
    return Weights.of_one(path, "binaryproto", read_blob(path))


def as_mean(layers: Iterable[LayerWeights]) -> tuple[LayerWeights, ...]:
    """Reshape images, with or without channels, to the four axes that Caffe expects of a mean."""
    return tuple(
        layer.with_blobs(
            blob.reshape(padded(blob.shape)) if blob.ndim in _AXES_OF_IMAGES else blob
            for blob in layer.tensors.values()
        )
        for layer in layers
    )


def plan_binaryproto(weights: Weights) -> Callable[[Path], None]:
    """Plan a ``.binaryproto``, which needs exactly one tensor that a BlobProto can hold."""
    return partial(write_pieces, blob_pieces(weights.only(), write_diff=False))


def read_npy(path: str) -> Weights:
    """Open a ``.npy``. Its values are memory-mapped."""
    try:
        values: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # a damaged header raises nearly any exception
        objects = "Python objects" in str(error)
        raise ModelFileError(
            _OBJECTS
            if objects
            else f"the .npy file is truncated or damaged ({error}); copy it again",
            path=path,
        ) from error
    blob = lazy_entry(
        values.shape, values.dtype, partial(np.asarray, values), name="the array", path=path
    )
    if isinstance(blob, ModelFileError):
        raise blob
    return Weights.of_one(path, "npy", blob)


def plan_npy(weights: Weights) -> Callable[[Path], None]:
    """Plan a ``.npy``, which needs exactly one tensor."""
    blob = weights.only()

    def write(path: Path) -> None:
        values = np.asarray(blob_values(blob), order="C")
        with path.open("wb") as file:
            npy.write_array_header_1_0(file, npy.header_data_from_array_1_0(values))
            # numpy.save does not say why a write failed.
            file.write(values.reshape(-1).view(np.uint8).data)

    return write
