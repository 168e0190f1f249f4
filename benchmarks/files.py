"""Opening, reading and writing a model file of 240 MB, in time and memory."""

import os
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.calls import traced
from benchmarks.rows import Goal, Measured, Row
from benchmarks.timing import Timer
from syncblob import Layer, ModelFile, open_model, save_model

# The weights of AlexNet, each with as many biases as outputs.
SHAPES = [
    *((96, 3, 11, 11), (256, 48, 5, 5), (384, 256, 3, 3), (384, 192, 3, 3), (256, 192, 3, 3)),
    *((4096, 9216), (4096, 4096), (1000, 4096)),
]
BRIEF_SHAPES = [(4, 3, 5, 5), (8, 64)]
# The goal for the memory that reading and writing take above the weights.
MEMORY = Goal(32e6, "value")
TOUCH, PROTOBUF, WRITE = "open_model, touch all", "protobuf, numpy.array", "file.write, fsync"


def make_model(shapes: list[tuple[int, ...]]) -> ModelFile:
    """Make a net of random weights."""
    normal = np.random.default_rng(0).standard_normal
    layers = [
        Layer(
            f"layer{number}",
            "InnerProduct" if len(shape) == len("oi") else "Convolution",
            blobs=[normal(shape, np.float32), normal(shape[:1], np.float32)],
        )
        for number, shape in enumerate(shapes)
    ]
    return ModelFile("AlexNet", layers)


def touched(path: Path, *, changed: bool = False) -> ModelFile:
    """Open a model and read all of its weights into memory; change one of them."""
    model = open_model(path)
    for layer in model.layers:
        for blob in layer.blobs:
            blob.cpu_data()
    if changed:
        model.layers[-1].blobs[0].mutable_cpu_data()[0, 0] += 1
    return model


def parsed(path: Path) -> list[np.ndarray]:
    """Read the same file with protobuf alone."""
    from syncblob.caffe._pb.caffe_pb2 import NetParameter  # the rival here

    net = NetParameter.FromString(path.read_bytes())
    return [np.array(blob.data, np.float32) for layer in net.layer for blob in layer.blobs]


def read(path: Path, buffer: np.ndarray | None = None) -> np.ndarray:
    """Read the bytes of a file into a buffer; into a new one, which the system has to clear."""
    buffer = np.empty(path.stat().st_size, np.uint8) if buffer is None else buffer
    view = buffer.data
    with path.open("rb", buffering=0) as file:
        while view and (count := file.readinto(view)):
            view = view[count:]
    return buffer


def write(path: Path, content: bytes) -> None:
    """Write bytes to a new file, and flush it to the disk."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def measure(timer: Timer) -> Measured:
    """Make a model in a temporary directory, time reading and writing it, and measure memory."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.caffemodel"
        made = make_model(BRIEF_SHAPES if timer.brief else SHAPES)
        save_model(made, path)
        rows = [*_reading(timer, path), *_writing(timer, path, made)]
        section = "peak memory above the weights"
        rows += [Row(section, x, memory(x, path), unit="B", goal=MEMORY) for x in KINDS]
    return Measured(rows)


def _reading(timer: Timer, path: Path) -> list[Row]:
    size = path.stat().st_size
    calls = {
        "open": partial(open_model, path),
        "touch": partial(touched, path),
        "read": partial(read, path, read(path)),
        "read anew": partial(read, path),
    }
    times = timer.medians(calls, rounds=11) | timer.medians({"": partial(parsed, path)}, rounds=3)
    section = f"reading a .caffemodel of {size / 1e6:.0f} MB"
    touch = times["touch"]
    return [
        Row(section, "open_model", times["open"], PROTOBUF, times[""], goal=Goal(1 / 300)),
        Row(section, TOUCH, touch, PROTOBUF, times[""], goal=Goal(1 / 4)),
        Row(section, TOUCH, touch, "file.readinto(buffer)", times["read"], goal=Goal(1.5)),
        Row(section, TOUCH, touch, "file.readinto(new buffer)", times["read anew"]),
    ]


def _writing(timer: Timer, path: Path, made: ModelFile) -> list[Row]:
    target = path.with_name("target.caffemodel")
    calls = {
        "save_model, made": partial(save_model, made, target),
        "save_model, untouched": partial(save_model, open_model(path), target),
        "save_model, changed": partial(save_model, touched(path, changed=True), target),
        WRITE: partial(write, target, path.read_bytes()),
    }
    times = timer.medians(calls, rounds=9, seconds=0, of=min)
    rival = times.pop(WRITE)
    return [
        Row("writing it", name, time, WRITE, rival, goal=Goal(2)) for name, time in times.items()
    ]


KINDS = (TOUCH, "save_model, untouched", "save_model, changed")


def memory(kind: str, path: Path) -> int:
    """Return the peak of the memory that reading or writing takes above the weights."""
    if kind == TOUCH:
        weights = sum(blob.nbytes for layer in open_model(path).layers for blob in layer.blobs)
        return traced(partial(touched, path))[1] - weights
    model = touched(path, changed=True) if kind.endswith("changed") else open_model(path)
    return traced(partial(save_model, model, path.with_name("copy.caffemodel")))[1]
