"""A function that writes a part of a shared Blob in another process, importable when spawned."""

from __future__ import annotations

import numpy as np

from syncblob import Blob


def write_rows(connection, barrier):
    """Increment rows of a shared Blob on a device of this process, and send any error."""
    name, shape, rows, rounds = connection.recv()
    blob = Blob.in_shared_memory(shape, "int32", name=name, create=False, device="simulated")
    mine = blob[slice(*rows)]
    wrong = []
    for turn in range(1, rounds + 1):
        array = mine.mutable_gpu_data()
        array += 1
        barrier.wait(60)
        mine.cpu_data()  # download to the shared block
        barrier.wait(60)
        seen = [np.array(access()) for access in (blob.cpu_data, blob.gpu_data)]
        wrong += [(turn, array.tolist()) for array in seen if not (array == turn).all()]
        barrier.wait(60)
    connection.send(wrong)
