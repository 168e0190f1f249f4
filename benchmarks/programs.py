"""Programs that alternate between host and device: whole ones, and ones on parts of an array."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.dataflow import Buffer, Program

PIXELS, CLASSES = 3 * 32 * 32, 10
FRAMES, HALO, BATCHES = 16, 2, 32


def whole(*, brief: bool = False) -> list[Program]:
    """Return inference on images, and training."""
    return [inference(3, 4, 8), training(2, 5, 4, 6)] if brief else [inference(), training()]


def parts(*, brief: bool = False) -> list[Program]:
    """Return programs on parts of an array of 100 MB."""
    shape = (64, 16) if brief else (4096, 6104)
    return [make(shape) for make in (batches, region, stencil)]


def _fill(scale: float) -> Callable[..., None]:
    """Return a step that fills arrays with numbers, the same ones in each run."""

    def compute(_xp: Any, *arrays: Any) -> None:
        for seed, array in enumerate(arrays):
            np.multiply(_normal(seed, array.shape), np.float32(scale), out=array)

    return compute


def _copy(_xp: Any, source: Any, target: Any) -> None:
    target[...] = source


@cache
def _normal(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return random numbers. They are cached, so that only the time of reading them counts."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


# --- images through a net -------------------------------------------------------------------------


def inference(count: int = 16, batch: int = 128, hidden: int = 512) -> Program:
    """Return a net that classifies images, decoded on the host, batch by batch, into one table."""
    program = Program(
        "inference",
        {
            "mean": Buffer((PIXELS,)),
            "weights1": Buffer((PIXELS, hidden)),
            "weights2": Buffer((hidden, CLASSES)),
            "pixels": Buffer((batch, PIXELS), "uint8"),
            "images": Buffer((batch, PIXELS)),
            "hidden": Buffer((batch, hidden)),
            "scores": Buffer((batch, CLASSES)),
            "table": Buffer((count * batch, CLASSES)),
            "labels": Buffer((count * batch,), "int64"),
        },
        ("table", "labels"),
    )

    def decode(number: int, _xp: Any, pixels: Any) -> None:
        random = np.random.default_rng(number)
        pixels[...] = random.integers(0, 256, pixels.shape, np.uint8)

    def normalise(xp: Any, pixels: Any, mean: Any, images: Any) -> None:
        xp.multiply(pixels, np.float32(1 / 255), out=images)
        images -= mean

    def layers(xp: Any, *arrays: Any) -> None:
        images, weights1, weights2, hidden, scores = arrays
        xp.matmul(images, weights1, out=hidden)
        xp.maximum(hidden, np.float32(0), out=hidden)
        xp.matmul(hidden, weights2, out=scores)

    def label(_xp: Any, scores: Any, labels: Any) -> None:
        labels[...] = scores.argmax(axis=1)

    add = program.add
    add("host", "mean= weights1= weights2=", _fill(0.02))
    for number in range(count):
        rows = slice(number * batch, (number + 1) * batch)
        add("host", "pixels=", partial(decode, number))
        add("device", "pixels mean images=", normalise)
        add("device", "images weights1 weights2 hidden= scores=", layers)
        add("device", "scores table=", _copy, table=rows)
        add("host", "scores labels=", label, labels=rows)
    return program


# --- training -------------------------------------------------------------------------------------


def training(epochs: int = 3, count: int = 16, batch: int = 128, features: int = 1024) -> Program:
    """Return logistic regression in batches, with schedule, clipping and snapshots on the host."""
    program = Program(
        "training",
        {
            "examples": Buffer((count * batch, features)),
            "targets": Buffer((count * batch, CLASSES)),
            "weights": Buffer((features, CLASSES)),
            "weights.diff": Buffer((features, CLASSES)),
            "momentum": Buffer((features, CLASSES)),
            "outputs": Buffer((batch, CLASSES)),
            "rate": Buffer((1,)),
            "snapshots": Buffer((epochs, features, CLASSES)),
        },
        ("weights", "snapshots"),
    )

    def schedule(epoch: int, _xp: Any, rate: Any) -> None:
        rate[...] = 0.1 / (1 + epoch)

    def forward(xp: Any, examples: Any, weights: Any, outputs: Any) -> None:
        xp.matmul(examples, weights, out=outputs)
        outputs -= outputs.max(axis=1, keepdims=True)
        xp.exp(outputs, out=outputs)
        outputs /= outputs.sum(axis=1, keepdims=True)

    def backward(xp: Any, examples: Any, targets: Any, outputs: Any, diff: Any) -> None:
        xp.matmul(examples.T, outputs - targets, out=diff)
        diff *= np.float32(1 / len(examples))

    def clip(_xp: Any, diff: Any) -> None:
        diff *= np.float32(min(1.0, 1.0 / float(np.linalg.norm(diff))))

    def step(_xp: Any, rate: Any, diff: Any, momentum: Any, weights: Any) -> None:
        momentum *= np.float32(0.9)
        momentum += rate * diff
        weights -= momentum

    add = program.add
    add("host", "examples= targets= weights=", _fill(0.1))
    for epoch in range(epochs):
        add("host", "rate=", partial(schedule, epoch))
        for number in range(count):
            rows = slice(number * batch, (number + 1) * batch)
            add("device", "examples weights outputs=", forward, examples=rows)
            uses = "examples targets outputs weights.diff="
            add("device", uses, backward, examples=rows, targets=rows)
            if number % 4 == 0:
                add("host", "weights.diff+", clip)
            add("device", "rate weights.diff momentum+ weights+", step)
        add("host", "weights snapshots=", _copy, snapshots=slice(epoch, epoch + 1))
    return program


# --- parts of an array ----------------------------------------------------------------------------


def _set(value: float, _xp: Any, array: Any) -> None:
    array[...] = value


def _add_sum(_xp: Any, array: Any, total: Any) -> None:
    total += array.sum() / array.size


def _on_array(name: str, shape: tuple[int, int]) -> Program:
    buffers = {"array": Buffer(shape), "total": Buffer((1,))}
    return Program(name, buffers, ("total",))


def batches(shape: tuple[int, int]) -> Program:
    """Return a program whose device reads a data set of the host, batch by batch, twice."""
    program = _on_array("two epochs of mini-batches of a host data set", shape)
    size = shape[0] // BATCHES
    program.add("host", "array=", partial(_set, 1))
    for _ in range(2):
        for start in range(0, shape[0], size):
            program.add("device", "array total+", _add_sum, array=np.s_[start : start + size])
    return program


def region(shape: tuple[int, int]) -> Program:
    """Return a program whose host changes a band of a frame that its device works on."""
    program = _on_array("a region of interest that the host changes in each frame", shape)
    band = np.s_[shape[0] // 4 : shape[0] // 4 + shape[0] // 8]
    program.add("host", "array=", partial(_set, 1))
    for frame in range(FRAMES):
        program.add("host", "array=", partial(_set, frame), array=band)
        program.add("device", "array total+", _add_sum)
    return program


def stencil(shape: tuple[int, int]) -> Program:
    """Return a program that computes a half on each side, which exchange the rows at the border."""
    program = _on_array("halo rows exchanged between the sides in a stencil", shape)
    middle = shape[0] // 2
    above, below = np.s_[middle - HALO : middle], np.s_[middle : middle + HALO]

    # Each side needs the other's rows, and changes its own.
    def smooth(_xp: Any, total: Any, array: Any) -> None:
        array[...] = total + array[:1]

    program.add("host", "array=", _fill(1.0), array=np.s_[:middle])
    program.add("device", "array=", partial(_set, 1), array=np.s_[middle:])
    for _ in range(FRAMES):
        program.add("device", "array total+", _add_sum, array=above)
        program.add("device", "total array+", smooth, array=below)
        program.add("host", "array total+", _add_sum, array=below)
        program.add("host", "total array+", smooth, array=above)
    return program
