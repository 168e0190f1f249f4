"""What tests have other processes do: a process that was spawned imports it from here."""

from __future__ import annotations

import pickle

import numpy as np


def add_one(connection):
    """Receive a Blob, add one on its device, and send the head that it came with and its device."""
    blob = connection.recv()
    head = blob.head
    blob += 1
    np.asarray(blob)  # what was computed is in the block now
    connection.send((head.name, str(blob.device)))


def send_back(connection):
    """Receive a pickle and its buffers, double the Blob, and send it in the same way."""
    header, *buffers = (connection.recv_bytes() for _ in range(connection.recv()))
    blob = pickle.loads(header, buffers=buffers)
    blob *= 2
    blob.diff[...] = -1
    for message in messages(blob):
        connection.send(message) if isinstance(message, int) else connection.send_bytes(message)


def messages(blob):
    """Give how many messages follow, the pickle, and its buffers as they lie in memory."""
    buffers = []
    header = pickle.dumps(blob, protocol=5, buffer_callback=buffers.append)
    return [1 + len(buffers), header, *(buffer.raw() for buffer in buffers)]


def total(blob):
    """Return the sum of a Blob."""
    return float(np.sum(blob))


def double(part, device, meet=None):
    """Double a part of a shared Blob on a device, and bring it to the block on the host.

    All processes that `meet` do that at the same time: each has computed before any of them reads.
    """
    part = part.on(device)
    part *= 2
    head = part.head
    if meet is not None:
        meet.wait()
    np.asarray(part)
    return head.name


def fill(blob, number):
    """Set every element."""
    blob[...] = number
