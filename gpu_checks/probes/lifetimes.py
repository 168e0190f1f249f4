"""Probes of processes and threads: forks, default streams, exit, callbacks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import syncblob
from gpu_checks.device import cupy_of_this_machine, delay, is_model, side_stream, warm_up
from gpu_checks.probes.report import probe
from syncblob import Blob, NoDeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_checks.probes.report import Report

__all__ = ["forks", "host_callbacks", "per_thread_default_stream", "shutdown"]

SIZE = 1 << 12


def _on_device(value: float) -> Blob:
    blob = Blob(SIZE, device="cuda:0")
    blob.overwrite_cpu_data().fill(value)
    blob.mutable_gpu_data()
    return blob


def _patience() -> int:
    """Return the factor for time limits: more than 1 in a trial, whose machine may be shared."""
    return 3 if is_model() else 1


def _in_child(function: Callable[[], str]) -> str:
    """Call a function in a forked child; return its result, or that it hangs."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = function()
        except BaseException as error:  # noqa: BLE001  # the error is the child's answer
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode()[:4000])
        os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + 4 * _patience()
    while time.monotonic() < deadline and os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(0.01)
    if time.monotonic() >= deadline:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "it hangs"
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode()


@probe("does the child of a fork refuse the device, and is the parent as it was?")
def forks(report: Report) -> None:
    """Fork with contents on the device and with a push under way."""
    warm_up()
    newest, same, pushed = _on_device(3), _on_device(4), _on_device(5)
    same.cpu_data()
    pushed.mutable_cpu_data().fill(6)
    pushed.async_gpu_push()

    def refused(access: Callable[[], Any]) -> Callable[[], str]:
        def call() -> str:
            try:
                access()
            except NoDeviceError:
                return "refused"
            return "not refused"

        return call

    for name, access in {
        "a download": newest.cpu_data,
        "an access on the device": same.gpu_data,
        "a new Blob": lambda: Blob(3, device="cuda:0").gpu_data(),
    }.items():
        report.equal(f"in the child, {name}", _in_child(refused(access)), "refused")
    report.equal(
        "in the child, what the host has",
        _in_child(lambda: f"{same.cpu_data()[0]} {Blob(3).tolist()}"),
        "4.0 [0.0, 0.0, 0.0]",
    )
    report.equal(
        "in the child, Blobs are dropped",
        _in_child(lambda: str(newest.memory.__class__.__name__) and "fine"),
        "fine",
    )
    for blob, value in ((newest, 3.0), (same, 4.0), (pushed, 6.0)):
        report.equal("in the parent", set(blob.tolist()), {value})


@probe("does everything work with one default stream for each thread?")
def per_thread_default_stream(report: Report) -> None:
    """Use per-thread default streams: CUPY_CUDA_PER_THREAD_DEFAULT_STREAM=1 is set before."""
    cupy = cupy_of_this_machine()
    if is_model():
        cupy.cuda.Stream.ptds.use()
    current = cupy.cuda.get_current_stream().ptr
    report.notes["the current stream"] = current
    if current != 2:  # noqa: PLR2004  # CUDA's number of it
        report.doubt(f"the current stream is {current}, and not the per-thread one, 2")
    warm_up("float32")
    blob = _on_device(1)
    report.equal("the interface's stream", blob.__cuda_array_interface__["stream"], current or 1)
    found: list[Any] = []

    def work(number: int) -> None:
        try:
            if is_model():
                cupy.cuda.Stream.ptds.use()
            mine = _on_device(number)
            for turn in range(20):
                array = mine.mutable_gpu_data()
                array += 1
                mine.mutable_cpu_data()[...] += 1
                mine.async_gpu_push()
                seen = float(mine.gpu_data().sum()) / SIZE
                if seen != number + 2 * (turn + 1):
                    found.append((number, turn, seen))
                mine.mutable_gpu_data()
        except BaseException as error:  # noqa: BLE001  # the report has it
            found.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    report.equal("two threads", found, [])
    stream = side_stream()
    array = blob.mutable_gpu_data()
    delay(stream)
    with stream:
        array.fill(8)
    report.equal("a download waits for another stream", set(blob.tolist()), {8.0})
    report.equal("DLPack", float(cupy.from_dlpack(blob).max()), 8.0)
    report.equal("no device was changed", str(syncblob.default_device()), "cpu")


_ENDS = """
import sys
import numpy as np
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
kept = blobs if "cycle" in sys.argv else None
if kept is not None:
    kept.append(kept)
if "alias" in sys.argv:
    alias = cupy.asarray(blobs[0].gpu)
if "drop" in sys.argv:
    del blobs, blob
if "error" in sys.argv:
    raise SystemExit(0)
"""


@probe("does a process end well with a push in flight?")
def shutdown(report: Report) -> None:
    """Start processes that end in several ways while a copy is queued."""
    for how in ("keep", "drop", "cycle", "alias", "error"):
        start = time.monotonic()
        try:
            done = subprocess.run(  # noqa: S603  # our own interpreter
                [sys.executable, "-c", _ENDS, how],
                capture_output=True,
                text=True,
                timeout=15 * _patience(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            report.fault(f"{how}: it ends", "it hangs")
            continue
        report.notes[f"{how}: seconds"] = round(time.monotonic() - start, 2)
        report.equal(f"{how}: status", done.returncode, 0)
        report.equal(f"{how}: stderr", done.stderr[-300:], "")
        if report.wrong:
            return


@probe("what may a host callback of a stream do with a Blob?")
def host_callbacks(report: Report) -> None:
    """Access Blobs in host callbacks, where CUDA calls are forbidden: nothing may hang forever."""
    warm_up("float32")
    same, newest = _on_device(1), _on_device(2)
    same.cpu_data()
    said: dict[str, str] = {}

    def call(name: str, access: Callable[[], Any]) -> Callable[[Any], None]:
        def callback(_: Any) -> None:
            try:
                said[name] = f"gives {float(np.asarray(access()).ravel()[0])}"
            except Exception as error:  # noqa: BLE001  # the error is the answer
                said[name] = f"raises {type(error).__name__}: {error}"[:200]

        return callback

    stream = side_stream()
    stream.launch_host_func(call("what the host has", same.cpu_data), None)
    stream.synchronize()
    report.equal("what the host has", said.get("what the host has"), "gives 1.0")
    # This one may hang, so it is the last, and another thread waits for it.
    stream.launch_host_func(call("a download", newest.cpu_data), None)
    waiting = threading.Thread(target=stream.synchronize, daemon=True)
    waiting.start()
    waiting.join(5)
    report.notes["a download in a callback"] = said.get("a download", "hangs")
    report.check("a download in a callback does not hang", not waiting.is_alive(), "it hangs")
    if not waiting.is_alive():
        report.equal("afterwards", set(newest.tolist()), {2.0})
