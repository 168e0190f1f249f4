"""Other processes, and functions that tests run there: a spawned process imports them from here."""

import faulthandler
import os
import pickle
import signal
import subprocess
import sys
import traceback

import numpy as np


def run(program, **environment):
    """Run a program in a process of its own that imports what this one can; return what it said."""
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": paths} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def forked(work):
    """Call a function in a forked child; require that it neither raises, returns False nor hangs.

    A child is killed after 20 seconds.
    """
    child = os.fork()
    if child == 0:  # pragma: no cover  # in the child
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            faulthandler.dump_traceback_later(15, exit=True)
            signal.alarm(20)
            status = int(work() is False)
        except BaseException:  # noqa: BLE001  # it is printed
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


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
