"""Blobs whose values are read from a file on first access."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from syncblob.errors import ModelFileError
from syncblob.formats import NAMES, Blob, as_dtype, import_optional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import DTypeLike, NDArray

ALL_DTYPES = frozenset((*NAMES, "bfloat16"))


def lazy_blob(
    shape: Iterable[int],
    dtype: DTypeLike,
    read: Callable[[], NDArray[np.generic]],
    *,
    name: str,
    path: str,
) -> Blob:
    """Make a Blob filled on first access by a function that returns an array of this shape.

    A dtype in the other byte order is converted. `name` and `path` are for error messages.

    Raises
    ------
    ModelFileError
        If Blobs do not support the shape or the dtype.
    ModuleNotFoundError
        If the dtype is bfloat16, and ml_dtypes is not installed.
    """
    if isinstance(dtype, str) and dtype == "bfloat16":
        import_optional("ml_dtypes", "bfloat16")
    try:
        native = as_dtype(dtype.newbyteorder("=") if isinstance(dtype, np.dtype) else dtype)
    except TypeError as error:
        raise ModelFileError(
            f"tensor {name!r} has dtype {dtype}, which a Blob cannot hold; convert it to float32, "
            f"for example, with the library that wrote the file",
            path=path,
        ) from error
    try:
        shape = tuple(shape)
        return Blob.from_source(shape, native, partial(_read_bytes, read, shape, native))
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"tensor {name!r}: {error}", path=path) from error


def lazy_entry(  # noqa: PLR0913  # as above
    shape: Iterable[int],
    dtype: DTypeLike,
    read: Callable[[], NDArray[np.generic]],
    *,
    name: str,
    path: str,
    is_closed: Callable[[], bool] = lambda: False,
) -> Blob | ModelFileError:
    """Make a Blob as `lazy_blob` does; return the error if a Blob cannot hold the tensor.

    Its first access raises ValueError if `read` fails and `is_closed` says that the file is closed.
    """

    def read_open() -> NDArray[np.generic]:
        try:
            return read()
        except Exception as error:
            if not is_closed():
                raise
            raise ValueError(
                f"{path} was closed before this part of it was read; keep the weights open for "
                f"longer; Blobs that have been touched (blob.cpu_data()) keep their values"
            ) from error

    try:
        return lazy_blob(shape, dtype, read_open, name=name, path=path)
    except ModelFileError as error:
        return error


def _read_bytes(
    read: Callable[[], NDArray[np.generic]], shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> NDArray[np.uint8]:
    values = read()
    if values.shape != shape:
        raise ValueError(f"expected values of shape {shape}, got {values.shape}")
    return np.ascontiguousarray(values, dtype).reshape(-1).view(np.uint8)
