"""Functions that tests run in other processes. A spawned process imports them from here."""

import pickle

import numpy as np


def add_one(connection):
    """Receive a Blob, add one on its device, and send its initial head and its device."""
    blob = connection.recv()
    head = blob.head
    blob += 1
    np.asarray(blob)  # downloads the result to the block
    connection.send((head.name, str(blob.device)))


def send_back(connection):
    """Receive a pickle and its buffers, double the Blob, and send it back in the same way."""
    header, *buffers = (connection.recv_bytes() for _ in range(connection.recv()))
    blob = pickle.loads(header, buffers=buffers)
    blob *= 2
    blob.diff[...] = -1
    for message in messages(blob):
        connection.send(message) if isinstance(message, int) else connection.send_bytes(message)


def messages(blob):
    """Return the number of messages that follow, the pickle, and the raw bytes of its buffers."""
    buffers = []
    header = pickle.dumps(blob, protocol=5, buffer_callback=buffers.append)
    return [1 + len(buffers), header, *(buffer.raw() for buffer in buffers)]


def total(blob):
    """Return the sum of a Blob."""
    return float(np.sum(blob))


def double(part, device, meet=None):
    """Double a part of a shared Blob on a device, and download it to the shared block.

    With the barrier `meet`, all processes have computed before any of them reads.
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


def keep(blob, number, kept=[]):  # noqa: B006  # the list keeps them until the process ends
    """Set every element of a Blob that lives as long as the process."""
    kept.append(blob)
    blob[...] = number
