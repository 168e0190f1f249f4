"""The four axes of the older formats: shapes are compared as if they were padded with leading ones.

A blob that was read with num, channels, height and width has always four axes: a bias of 32 values
has shape (1, 1, 1, 32).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from syncblob.caffe.messages.fields import LEGACY_AXES
from syncblob.caffe.messages.lazy_blobs import is_legacy

if TYPE_CHECKING:
    from syncblob.formats import Blob

    T = TypeVar("T")


def equal_shapes(ours: Blob, theirs: Blob) -> bool:
    """Compare the shapes of two Blobs as Caffe does when it copies weights.

    Parameters
    ----------
    ours, theirs
        The Blobs. For one that was read with num, channels, height and width, as in the older
        formats, leading axes of 1 do not matter.
    """
    return shapes_agree(
        ours.shape, theirs.shape, our_legacy=is_legacy(ours), their_legacy=is_legacy(theirs)
    )


def shapes_agree(
    ours: tuple[int | None, ...],
    theirs: tuple[int, ...],
    *,
    our_legacy: bool = False,
    their_legacy: bool = False,
) -> bool:
    """Compare two shapes. Each may have the four axes of the older formats; None fits any axis."""
    ours = padded(ours) if their_legacy else ours
    theirs = padded(theirs) if our_legacy else theirs
    return len(ours) == len(theirs) and all(
        dim in {None, actual} for dim, actual in zip(ours, theirs, strict=True)
    )


def padded(shape: tuple[T, ...]) -> tuple[int | T, ...]:
    """Pad a shape to four axes with leading ones."""
    return (1,) * (LEGACY_AXES - len(shape)) + shape
