"""NumPy's ``.npy``: one array, without a name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib import format as npy

from syncblob.caffe import blob_values
from syncblob.caffe.convert.values import ALL_DTYPES, lazy_blob
from syncblob.caffe.convert.weights import Weights
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

DTYPES = ALL_DTYPES - {"bfloat16"}

_OBJECTS = (
    "the .npy file holds Python objects, such as a dictionary of weights, instead of one array of "
    "numbers. Loading them may run code of the file: if you trust it, open it by numpy.load(path, "
    "allow_pickle=True), and save its arrays by numpy.savez"
)


def read(path: str) -> Weights:
    """Open a file. Its values are memory-mapped."""
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
    blob = lazy_blob(
        values.shape, values.dtype, partial(np.asarray, values), name="the array", path=path
    )
    return Weights.of_one(path, "npy", blob)


def check(weights: Weights) -> None:
    """Raise ValueError unless there is exactly one tensor."""
    weights.only()


def write(weights: Weights, path: Path) -> None:
    """Write a file."""
    values = np.asarray(blob_values(weights.only()), order="C")
    with path.open("wb") as file:
        npy.write_array_header_1_0(file, npy.header_data_from_array_1_0(values))
        # numpy.save does not say why a write failed.
        file.write(values.reshape(-1).view(np.uint8).data)
