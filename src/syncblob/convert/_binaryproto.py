"""Caffe's ``.binaryproto``: one blob, without a name, such as the mean of a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncblob.caffe import read_blob, write_blob
from syncblob.convert import _caffe
from syncblob.convert._weights import Weights

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DTYPES", "check", "read", "write"]

DTYPES = _caffe.DTYPES


def read(path: str) -> Weights:
    """Open a file."""
    return Weights.of_one(path, "binaryproto", read_blob(path))


def check(weights: Weights) -> None:
    """Raise ValueError if there is more than one tensor, or none."""
    weights.only()


def write(weights: Weights, path: Path) -> None:
    """Write a file."""
    write_blob(weights.only(), path, write_diff=False)
