"""Opening, reading and writing a model file of 240 MB, in time and memory."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.own_process import can_measure_memory, growth, in_own_process
from benchmarks.rows import Goal, Measured, Row
from syncblob import Layer, ModelFile, open_model, save_model

if TYPE_CHECKING:
    from benchmarks.timing import Timer

__all__ = ["measure"]

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

MATRIX_AXES = 2

BRIEF_SHAPES = {"conv1": (4, 3, 5, 5), "fc6": (8, 64)}

# The goal for the memory that reading and writing take above the weights.
MEMORY = Goal(32e6, "value")


def make_model(shapes: dict[str, tuple[int, ...]]) -> ModelFile:
    """Make a net of random weights."""
    random = np.random.default_rng(0)
    layers = [
        Layer(
            name,
            "InnerProduct" if len(shape) == MATRIX_AXES else "Convolution",
            blobs=[
                random.standard_normal(shape, np.float32),
                random.standard_normal(shape[:1], np.float32),
            ],
        )
        for name, shape in shapes.items()
    ]
    return ModelFile("AlexNet", layers)


# --- what is timed --------------------------------------------------------------------------------


def open_and_touch(path: Path) -> ModelFile:
    """Open a model and read all of its weights into memory."""
    model = open_model(path)
    for layer in model.layers:
        for blob in layer.blobs:
            blob.cpu_data()
    return model


def parse(path: Path) -> list[np.ndarray]:
    """Read the same file with protobuf alone."""
    from syncblob.caffe._pb.caffe_pb2 import NetParameter  # the rival here

    net = NetParameter.FromString(path.read_bytes())
    return [np.array(blob.data, np.float32) for layer in net.layer for blob in layer.blobs]


def read_into(path: Path, buffer: bytearray | memoryview) -> None:
    """Read the bytes of a file into preallocated memory."""
    with path.open("rb", buffering=0) as file:
        view = memoryview(buffer)
        while view and (count := file.readinto(view)):
            view = view[count:]


def read_into_new(path: Path) -> np.ndarray:
    """Read them into new memory, which the system has to allocate and clear first."""
    buffer = np.empty(path.stat().st_size, np.uint8)
    read_into(path, buffer.data)
    return buffer


def write_bytes(path: Path, content: bytearray) -> None:
    """Write bytes to a new file, and flush it to the disk."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


# --- what memory is measured of -------------------------------------------------------------------


def measure_touching(path: str) -> float:
    """Return the bytes that opening and reading takes above the weights."""
    return growth(lambda: open_and_touch(Path(path))).peak - _weights(path)


def measure_parsing(path: str) -> float:
    """Return the bytes that reading with protobuf takes above the weights."""
    return growth(lambda: parse(Path(path))).peak - _weights(path)


def measure_copying(path: str) -> float:
    """Return the bytes that writing takes when no weight is in memory."""
    model = open_model(path)
    return growth(lambda: save_model(model, _copy_of(path))).peak


def measure_writing(path: str) -> float:
    """Return the bytes that writing takes when all weights are in memory, and one has changed."""
    model = open_and_touch(Path(path))
    model["fc6"].blobs[0].mutable_cpu_data()[0, 0] += 1
    return growth(lambda: save_model(model, _copy_of(path))).peak


def _copy_of(path: str) -> Path:
    return Path(path).with_name("copy.caffemodel")


def _weights(path: str) -> float:
    model = open_model(path)
    return sum(blob.nbytes for layer in model.layers for blob in layer.blobs)


# --- the group ------------------------------------------------------------------------------------


def measure(timer: Timer) -> Measured:
    """Make a model in a temporary directory, time reading and writing it, and measure memory."""
    measured = Measured()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.caffemodel"
        made = make_model(BRIEF_SHAPES if timer.brief else SHAPES)
        save_model(made, path)
        measured.rows += _reading(timer, path)
        measured.rows += _writing(timer, path, made)
        del made
        if can_measure_memory():
            measured.rows += _memory(str(path))
        else:
            measured.notes.append("memory is measured on Linux only")
    return measured


def _reading(timer: Timer, path: Path) -> list[Row]:
    buffer = bytearray(path.stat().st_size)
    read_into(path, buffer)  # so that the pages of the buffer are mapped
    times = timer.medians(
        {
            "open": partial(open_model, path),
            "touch": partial(open_and_touch, path),
            "read": partial(read_into, path, buffer),
            "read anew": partial(read_into_new, path),
        },
        rounds=11,
    )
    times |= timer.medians({"parse": partial(parse, path)}, rounds=3)
    opened, touched, read, parsed = (times[name] for name in ("open", "touch", "read", "parse"))
    section = f"reading a .caffemodel of {len(buffer) / 1e6:.0f} MB"
    protobuf, touch = "protobuf, numpy.array", "open_model, touch all"
    return [
        Row(section, "open_model", opened, protobuf, parsed, goal=Goal(1 / 300)),
        Row(section, touch, touched, protobuf, parsed, goal=Goal(1 / 4)),
        Row(section, touch, touched, "file.readinto(buffer)", read, goal=Goal(1.5)),
        Row(section, touch, touched, "file.readinto(new buffer)", times["read anew"]),
    ]


def _writing(timer: Timer, path: Path, made: ModelFile) -> list[Row]:
    content = bytearray(path.read_bytes())
    target, plain = path.with_name("ours.caffemodel"), path.with_name("theirs.caffemodel")
    changed = open_and_touch(path)
    changed["conv1"].blobs[0].mutable_cpu_data()[0, 0] += 1
    times = timer.fastest(
        {
            "save_model, made": partial(save_model, made, target),
            "save_model, untouched": partial(save_model, open_model(path), target),
            "save_model, changed": partial(save_model, changed, target),
            "file.write, fsync": partial(write_bytes, plain, content),
        },
        rounds=9,
    )
    rival = "file.write, fsync"
    seconds = times.pop(rival)
    return [
        Row("writing it", ours, value, rival, seconds, goal=Goal(2))
        for ours, value in times.items()
    ]


def _memory(path: str) -> list[Row]:
    section = "peak memory above the weights"
    touching, parsing, copying, writing = (
        in_own_process(function, path)
        for function in (measure_touching, measure_parsing, measure_copying, measure_writing)
    )
    return [
        Row(
            section,
            "open_model, touch all",
            touching,
            "protobuf, numpy.array",
            parsing,
            "B",
            MEMORY,
        ),
        Row(section, "save_model, untouched", copying, unit="B", goal=MEMORY),
        Row(section, "save_model, changed", writing, unit="B", goal=MEMORY),
    ]
