"""Checks of operands that several chapters share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.blob import Blob
from syncblob.blob.compute import SCALARS, refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["require_blob_and_scalar", "require_blobs", "require_integers", "require_some"]


def require_blobs(name: str, *operands: Any) -> None:
    """Raise a TypeError for operands that are not Blobs.

    Raises
    ------
    TypeError
        If one of the operands is not a Blob.
    """
    for x in operands:
        if not isinstance(x, Blob):
            raise refusal(name, x)


def require_blob_and_scalar(name: str, x1: Any, x2: Any) -> None:
    """Require two Blobs, or a Blob and a Python scalar.

    Raises
    ------
    TypeError
        If they are anything else.
    """
    if type(x1) not in SCALARS or type(x2) in SCALARS:
        require_blobs(name, x1)
    if type(x2) not in SCALARS:
        require_blobs(name, x2)


def require_integers(name: str, x: Blob) -> None:
    """Require an integer dtype.

    Raises
    ------
    TypeError
        If the dtype is not an integer dtype.
    """
    if x.dtype.kind not in "iu":
        raise TypeError(f"{name} expects integers, got dtype {x.dtype}")


def require_some(name: str, arrays: Sequence[Any]) -> None:
    """Require a sequence of at least one Blob.

    Raises
    ------
    ValueError
        If the sequence is empty.
    TypeError
        If an element is not a Blob.
    """
    if len(arrays) == 0:
        raise ValueError(f"{name} expects at least one Blob, got none")
    require_blobs(name, *arrays)
