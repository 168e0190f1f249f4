"""Opening, reading and writing a model file of 240 MB, and the memory that takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing import fastest, medians, print_table
from syncblob import Layer, ModelFile, open_model, save_model

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

# The weights of AlexNet, each with as many biases as outputs.
SHAPES = {
    "conv1": (96, 3, 11, 11),
    "conv2": (256, 48, 5, 5),
    "conv3": (384, 256, 3, 3),
    "conv4": (384, 192, 3, 3),
    "conv5": (256, 192, 3, 3),
    "fc6": (4096, 9216),
    "fc7": (4096, 4096),
    "fc8": (1000, 4096),
}

MIB = 1 << 20


def make_model() -> ModelFile:
    """Make a net of random weights."""
    random = np.random.default_rng(0)
    layers = [
        Layer(
            name,
            "Convolution" if len(shape) > len(("out", "in")) else "InnerProduct",
            blobs=[
                random.standard_normal(shape, np.float32),
                random.standard_normal(shape[:1], np.float32),
            ],
        )
        for name, shape in SHAPES.items()
    ]
    return ModelFile("AlexNet", layers)


# --- what is timed --------------------------------------------------------------------------------


def open_and_touch(path: Path) -> ModelFile:
    """Open a model and bring all of its weights into memory."""
    model = open_model(path)
    for layer in model.layers:
        for blob in layer.blobs:
            blob.cpu_data()
    return model


def parse(path: Path) -> list[np.ndarray]:
    """Read the same with protobuf alone."""
    from syncblob.caffe._pb.caffe_pb2 import NetParameter  # our rival here

    net = NetParameter.FromString(path.read_bytes())
    return [np.array(blob.data, np.float32) for layer in net.layer for blob in layer.blobs]


def read_into(path: Path, buffer: bytearray | memoryview) -> None:
    """Read the bytes of a file into memory that is there already."""
    with path.open("rb", buffering=0) as file:
        view = memoryview(buffer)
        while view and (count := file.readinto(view)):
            view = view[count:]


def read_into_new(path: Path) -> np.ndarray:
    """Read them into memory that the system has to find, and to clear, first."""
    buffer = np.empty(path.stat().st_size, np.uint8)
    read_into(path, buffer.data)
    return buffer


def write_bytes(path: Path, content: bytearray) -> None:
    """Write bytes to a new file, and wait until they are on the disk."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


# --- what memory is measured of -------------------------------------------------------------------


def measure_touching(path: Path) -> float:
    """Return the MiB that opening and touching takes above the weights."""
    return _growth(lambda: open_and_touch(path)) - _weights(path)


def measure_copying(path: Path) -> float:
    """Return the MiB that writing a model takes of which nothing is in memory."""
    model = open_model(path)
    return _growth(lambda: save_model(model, path.with_name("copy.caffemodel")))


def measure_writing(path: Path) -> float:
    """Return the MiB that writing takes when all weights are in memory, and one has changed."""
    model = open_and_touch(path)
    model["fc6"].blobs[0].mutable_cpu_data()[0, 0] += 1
    return _growth(lambda: save_model(model, path.with_name("copy.caffemodel")))


MEASURES = {
    "opening and touching": measure_touching,
    "writing an untouched model": measure_copying,
    "writing a changed model": measure_writing,
}


def _weights(path: Path) -> float:
    model = open_model(path)
    return sum(blob.nbytes for layer in model.layers for blob in layer.blobs) / MIB


def _growth(call: Callable[[], object]) -> float:
    """Return by how many MiB the most memory during a call exceeds what there was before it."""
    before = _status("VmRSS")
    # Sets the high-water mark back to what is in use.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    kept = call()
    after = _status("VmHWM")
    del kept
    return after - before


def _status(field: str) -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise LookupError(f"/proc/self/status has no {field}")


def _measure(name: str, path: Path) -> float:
    """Measure in a process of its own."""
    code = (
        "import json, sys, pathlib; from benchmarks import files; "
        "print(json.dumps(files.MEASURES[sys.argv[1]](pathlib.Path(sys.argv[2]))))"
    )
    command = [sys.executable, "-c", code, name, str(path)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  # our own interpreter
    return float(json.loads(result.stdout))


# --- the tables -----------------------------------------------------------------------------------


def main() -> None:
    """Make a model in a temporary directory, and time and measure."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.caffemodel"
        made = make_model()
        save_model(made, path)
        _time_reading(path)
        _time_writing(path, made)
        del made
        _measure_memory(path)


def _time_reading(path: Path) -> None:
    buffer = bytearray(path.stat().st_size)
    read_into(path, buffer)  # so that the buffer is really there
    times = medians(
        {
            "open": partial(open_model, path),
            "touch": partial(open_and_touch, path),
            "read": partial(read_into, path, buffer),
            "read anew": partial(read_into_new, path),
        },
        rounds=11,
    )
    times |= medians({"parse": partial(parse, path)}, rounds=3)
    opened, touched, read, parsed = (times[name] for name in ("open", "touch", "read", "parse"))
    print_table(
        f"a .caffemodel of {len(buffer) / 1e6:.0f} MB",
        [
            ("open_model", opened, "protobuf, numpy.array", parsed),
            ("open_model, touch all", touched, "protobuf, numpy.array", parsed),
            ("open_model, touch all", touched, "file.readinto(buffer)", read),
            ("open_model, touch all", touched, "file.readinto(new buffer)", times["read anew"]),
        ],
    )
    print(f"  opening is {parsed / opened:.0f} times as fast as protobuf (goal: 300)")
    print(f"  with all weights it is {parsed / touched:.1f} times as fast (goal: 4)")
    print(f"  and takes {touched / read:.2f} times as long as reading the file (goal: 1.5)")


def _time_writing(path: Path, made: ModelFile) -> None:
    content = bytearray(path.read_bytes())
    target, plain = path.with_name("ours.caffemodel"), path.with_name("theirs.caffemodel")
    changed = open_and_touch(path)
    changed["conv1"].blobs[0].mutable_cpu_data()[0, 0] += 1
    times = fastest(
        {
            "made": partial(save_model, made, target),
            "mapped": partial(save_model, open_model(path), target),
            "changed": partial(save_model, changed, target),
            "plain": partial(write_bytes, plain, content),
        },
        rounds=9,
    )
    rival = "file.write, fsync", times["plain"]
    print_table(
        "writing it",
        [
            ("save_model, made", times["made"], *rival),
            ("save_model, untouched", times["mapped"], *rival),
            ("save_model, changed", times["changed"], *rival),
        ],
    )
    slower = max(times[name] for name in ("made", "mapped", "changed")) / times["plain"]
    print(f"  writing takes {slower:.2f} times as long as file.write and fsync (goal: 2)")


def _measure_memory(path: Path) -> None:
    print("\npeak memory above the weights")
    if not Path("/proc/self/clear_refs").exists():
        print("  measured on Linux only")
        return
    for name in MEASURES:
        print(f"  {name:<28} {_measure(name, path):>6.1f} MiB (goal: 32 MB)")


if __name__ == "__main__":
    main()
