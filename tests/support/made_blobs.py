"""Blobs in a given state, and what to compare them with."""

from __future__ import annotations

import math

import numpy as np

from syncblob import Blob, Head


def values(dtype="float32", shape=(2, 3)):
    """Count up from 0."""
    return np.arange(math.prod(shape)).reshape(shape).astype(Blob((), dtype).dtype)


def blob_in(head, dtype="float32", shape=(2, 3)):
    """Make a Blob of simulated:0 in a given state; its contents count up."""
    blob = Blob(shape, dtype, device="simulated:0")
    if head is Head.HEAD_AT_CPU:
        blob.overwrite_cpu_data()[...] = values(dtype, shape)
    elif head:
        blob.overwrite_gpu_data()[...] = values(dtype, shape)
    if head is Head.SYNCED:
        blob.cpu_data()
    return blob


def address(array):
    """Return where an array begins."""
    return array.__array_interface__["data"][0]
