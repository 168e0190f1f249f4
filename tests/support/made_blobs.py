"""Blobs in a given state, and expected values."""

from __future__ import annotations

import math

import numpy as np

from syncblob import Blob, Head, simulated


def values(dtype="float32", shape=(2, 3)):
    """Count up from 0."""
    return np.arange(math.prod(shape)).reshape(shape).astype(Blob((), dtype).dtype)


def blob_in(head, dtype="float32", shape=(2, 3)):
    """Make a Blob in a given state, bound to simulated:0, whose contents count up.

    Its device is the side that was written; the accelerator if it is untouched or split. A split
    Blob needs at least two elements: the first is newest on the host, the others on the device.
    """
    on_host = head is Head.HEAD_AT_CPU
    blob = Blob(shape, dtype, device="cpu" if on_host else "simulated:0")
    if on_host:
        blob.memory.side_of(simulated(0))
        blob.overwrite_cpu_data()[...] = values(dtype, shape)
    elif head:
        blob.overwrite_gpu_data()[...] = values(dtype, shape)
    if head is Head.SYNCED:
        blob.cpu_data()
    if head is Head.SPLIT:
        first = blob.reshape(-1)[:1]
        first.overwrite_cpu_data()[...] = values(dtype, shape).reshape(-1)[:1]
    return blob


def address(array):
    """Return the address of an array."""
    return array.__array_interface__["data"][0]


def is_over(parameter, blob):
    """Tell whether a parameter's storage and gradient are the Blob's, on its device."""
    on_host = blob.device == "cpu"
    arrays = (x.cpu_data() if on_host else x.gpu_data() for x in (blob.data, blob.diff))
    return [*map(address, arrays)] == [parameter.data_ptr(), parameter.grad.data_ptr()]
