"""Short names of types, fields of a BlobProto, limits, and the four axes of older messages.

A blob that was read with num, channels, height and width has always four axes: a bias of 32 values
has shape (1, 1, 1, 32).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Shape = tuple[int, ...]
DType = np.dtype[np.generic]
Array = NDArray[np.generic]
Write = Callable[[Path], None]
"""Writes a file at a path, which it overwrites."""

# Older messages have four dimensions in place of a shape.
LEGACY_NAMES = ("num", "channels", "height", "width")
LEGACY_AXES = len(LEGACY_NAMES)
# Caffe's kMaxBlobAxes. HDF5 has the same limit.
MOST_AXES = 32
# Caffe's Blob counts its elements in an int.
MOST_ELEMENTS = 2**31 - 1
# Limits of syncblob, against small files that look endless: layers and blobs together, or groups
# and datasets of HDF5; and fields of a message, without those inside its settings.
MOST_OBJECTS = 1 << 15
MOST_FIELDS = 1 << 18
DATA, DIFF, _SHAPE, DOUBLE_DATA, DOUBLE_DIFF = range(5, 10)
# Fields that NVCaffe added.
RAW_DATA_TYPE, RAW_DIFF_TYPE, RAW_DATA, RAW_DIFF = range(10, 14)


def shapes_agree(
    ours: tuple[int | None, ...],
    theirs: tuple[int, ...],
    *,
    our_legacy: bool = False,
    their_legacy: bool = False,
) -> bool:
    """Compare two shapes. Each may have the four axes of the older formats; None fits any axis."""
    ours = pad_axes(ours) if their_legacy else ours
    theirs = pad_axes(theirs) if our_legacy else theirs
    return len(ours) == len(theirs) and all(
        dim in {None, actual} for dim, actual in zip(ours, theirs, strict=True)
    )


def pad_axes(shape: tuple[T, ...]) -> tuple[int | T, ...]:
    """Pad a shape to four axes with leading ones."""
    return (1,) * (LEGACY_AXES - len(shape)) + shape
