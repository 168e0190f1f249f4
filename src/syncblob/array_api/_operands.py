"""What the functions of several chapters ask of their operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.blob import Blob
from syncblob.blob.compute import SCALARS, refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["require_blob_and_scalar", "require_blobs", "require_integers", "require_some"]


def require_blobs(name: str, *operands: Any) -> None:
    """Refuse everything but Blobs, where something else would be let through.

    Raises
    ------
    TypeError
        If one of the operands is no Blob.
    """
    for x in operands:
        if not isinstance(x, Blob):
            raise refusal(name, x)


def require_blob_and_scalar(name: str, x1: Any, x2: Any) -> None:
    """Refuse everything but two Blobs, or a Blob and a Python scalar.

    Raises
    ------
    TypeError
        If the two are something else.
    """
    if type(x1) not in SCALARS or type(x2) in SCALARS:
        require_blobs(name, x1)
    if type(x2) not in SCALARS:
        require_blobs(name, x2)


def require_integers(name: str, x: Blob) -> None:
    """Refuse every dtype that is not one of integers.

    Raises
    ------
    TypeError
        If the dtype is another one.
    """
    if x.dtype.kind not in "iu":
        raise TypeError(f"{name} expects integers, got dtype {x.dtype}")


def require_some(name: str, arrays: Sequence[Any]) -> None:
    """Refuse everything but a sequence of one Blob or more.

    Raises
    ------
    ValueError
        If there is none.
    TypeError
        If one of them is no Blob.
    """
    if len(arrays) == 0:
        raise ValueError(f"{name} expects at least one Blob, got none")
    require_blobs(name, *arrays)
