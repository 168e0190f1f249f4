"""Processes and threads: forks, exit, host callbacks."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from gpu_checks.device import is_model, side_stream
from syncblob import Blob, NoDeviceError

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def in_child(function):
    """Call a function in a forked child; return its result, or that it hangs."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = str(function())
        except NoDeviceError:
            said = "refused"
        except BaseException as error:  # noqa: BLE001  # the error is the child's answer
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode()[:4000])
        os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + 12
    while time.monotonic() < deadline and os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(0.01)
    if time.monotonic() >= deadline:
        os.kill(child, 9)
        return "it hangs"
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode()


def test_the_child_of_a_fork_refuses_the_device_and_the_parent_is_as_it_was(work):
    newest, same, pushed = work.blob(3), work.blob(4), work.blob(5)
    newest.mutable_gpu_data()
    pushed.mutable_cpu_data().fill(6)
    pushed.async_gpu_push()
    assert in_child(newest.cpu_data) == "refused"
    assert in_child(same.gpu_data) == "refused"
    assert in_child(lambda: Blob(3, device="cuda:0").gpu_data()) == "refused"
    assert in_child(lambda: f"{same.cpu_data()[0]} {Blob(3).tolist()}") == "4.0 [0.0, 0.0, 0.0]"
    # New memory of the host is not page-locked there.
    assert in_child(lambda: Blob(70_000, device="cuda:0").cpu_data().size) == "70000"
    for blob, value in ((newest, 3.0), (same, 4.0), (pushed, 6.0)):
        assert set(blob.tolist()) == {value}


@pytest.mark.parametrize("nbytes", [100, 100_000, 10_000_000])
def test_the_child_of_a_fork_writes_into_memory_of_its_own(nbytes):
    blob = Blob(nbytes, "uint8", device="cuda:0")
    borrow = blob.overwrite_cpu_data()
    borrow.fill(1)

    def write():
        before = set(borrow.tolist())
        borrow.fill(2)
        blob.mutable_cpu_data()[-1] = 3
        return before, set(blob.cpu_data().tolist())

    assert in_child(write) == "({1}, {2, 3})"
    assert set(borrow.tolist()) == {1}
    assert set(blob.gpu_data().get().tolist()) == {1}


ENDS = """
import sys
from gpu_checks.device import cupy_of_this_machine, delay, side_stream, warm_up
from syncblob import Blob

cupy = cupy_of_this_machine()
warm_up()
stream = side_stream()
delay(stream)
blobs = [Blob(1 << 20, device="cuda:0") for _ in range(3)]
for blob in blobs:
    blob.overwrite_cpu_data().fill(2)
blobs[0].async_gpu_push(stream)
blobs[1].prefetch()
blobs[2].gpu_data()
if "cycle" in sys.argv:
    blobs.append(blobs)
if "alias" in sys.argv:
    alias = cupy.asarray(blobs[0].gpu)
if "drop" in sys.argv:
    del blobs, blob
"""


@pytest.mark.parametrize("how", ["keep", "drop", "cycle", "alias"])
def test_a_process_ends_well_with_a_push_in_flight(how):
    done = subprocess.run(
        [sys.executable, "-c", ENDS, how], capture_output=True, text=True, timeout=45, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_host_callback_reads_what_the_host_has(work):
    same, newest, said = work.blob(1), work.blob(2), {}
    newest.mutable_gpu_data()

    def call(name, access):
        def callback(_):
            try:
                said[name] = float(np.asarray(access())[0])
            except Exception as error:  # noqa: BLE001  # the error is the answer
                said[name] = type(error).__name__

        return callback

    stream = side_stream()
    stream.launch_host_func(call("there", same.cpu_data), None)
    stream.synchronize()
    assert said == {"there": 1.0}
    # This one may hang, so it is the last, and another thread waits for it.
    stream.launch_host_func(call("elsewhere", newest.cpu_data), None)
    waiting = threading.Thread(target=stream.synchronize, daemon=True)
    waiting.start()
    waiting.join(5)
    if waiting.is_alive():
        print("a download in a host callback hangs", file=sys.stderr, flush=True)
        os._exit(1)
    assert said["elsewhere"] == "CUDARuntimeError" or not is_model()
    assert set(newest.tolist()) == {2.0}
