"""Three typical pipelines: inference on images, training, a simulation.

Each alternates between steps on the host, with NumPy, and on the device, and its results can be
checked.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.pipeline.dataflow import Buffer, Pipeline, Use

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["inference", "simulation", "training"]

PIXELS = 3 * 32 * 32
CLASSES = 10


def _read(name: str, rows: slice | None = None) -> Use:
    return Use(name, "read", rows)


def _update(name: str, rows: slice | None = None) -> Use:
    return Use(name, "update", rows)


def _write(name: str, rows: slice | None = None) -> Use:
    return Use(name, "write", rows)


def _fill(scale: float) -> Callable[..., None]:
    """Return a step that fills arrays with numbers, the same ones in each run."""

    def compute(_xp: Any, *arrays: Any) -> None:
        for seed, array in enumerate(arrays):
            np.multiply(_normal(seed, array.shape), np.float32(scale), out=array)

    return compute


@cache
def _normal(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return random numbers. They are cached, so that only the time of reading them counts."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


# --- images through a net -------------------------------------------------------------------------


def inference(batches: int = 16, batch: int = 128, hidden: int = 512) -> Pipeline:
    """Return a net that classifies images, decoded on the host, batch by batch, into one table."""
    images = batches * batch
    pipeline = Pipeline(
        "inference",
        {
            "mean": Buffer((PIXELS,)),
            "weights1": Buffer((PIXELS, hidden)),
            "bias1": Buffer((hidden,)),
            "weights2": Buffer((hidden, CLASSES)),
            "pixels": Buffer((batch, PIXELS), "uint8"),
            "brightness": Buffer((images,)),
            "images": Buffer((batch, PIXELS)),
            "hidden": Buffer((batch, hidden)),
            "scores": Buffer((batch, CLASSES)),
            "table": Buffer((images, CLASSES)),
            "labels": Buffer((images,), "int64"),
            "largest": Buffer((1,)),
        },
        ("brightness", "table", "labels", "largest"),
    )
    weights = [_write(name) for name in ("mean", "weights1", "bias1", "weights2")]
    pipeline.add("load weights", "host", weights, _fill(0.02))
    for number in range(batches):
        rows = slice(number * batch, (number + 1) * batch)
        _add_batch(pipeline, number, rows)
    return pipeline


def _add_batch(pipeline: Pipeline, number: int, rows: slice) -> None:
    def decode(_xp: Any, pixels: Any) -> None:
        random = np.random.default_rng(number)
        pixels[...] = random.integers(0, 256, pixels.shape, np.uint8)

    def measure_brightness(_xp: Any, pixels: Any, brightness: Any) -> None:
        brightness[...] = pixels.mean(axis=1, dtype=np.float32)

    def normalise(xp: Any, pixels: Any, mean: Any, images: Any) -> None:
        xp.multiply(pixels, np.float32(1 / 255), out=images)
        images -= mean

    def first_layer(xp: Any, images: Any, weights: Any, bias: Any, hidden: Any) -> None:
        xp.matmul(images, weights, out=hidden)
        hidden += bias

    def rectify(xp: Any, hidden: Any) -> None:
        xp.maximum(hidden, np.float32(0), out=hidden)

    def second_layer(xp: Any, hidden: Any, weights: Any, scores: Any) -> None:
        xp.matmul(hidden, weights, out=scores)

    def collect(_xp: Any, scores: Any, table: Any) -> None:
        table[...] = scores

    def label(_xp: Any, scores: Any, labels: Any) -> None:
        labels[...] = scores.argmax(axis=1)

    def find_largest(xp: Any, scores: Any, largest: Any) -> None:
        xp.maximum(largest, scores.max(), out=largest)

    pixels, scores = _read("pixels"), _read("scores")
    add = pipeline.add
    add("decode", "host", [_write("pixels")], decode)
    add("brightness", "host", [pixels, _write("brightness", rows)], measure_brightness)
    add("normalise", "device", [pixels, _read("mean"), _write("images")], normalise)
    layer = [_read("images"), _read("weights1"), _read("bias1"), _write("hidden")]
    add("first layer", "device", layer, first_layer)
    add("rectify", "device", [_update("hidden")], rectify)
    layer = [_read("hidden"), _read("weights2"), _write("scores")]
    add("second layer", "device", layer, second_layer)
    add("collect", "device", [scores, _write("table", rows)], collect)
    add("label", "host", [scores, _write("labels", rows)], label)
    add("largest", "device", [scores, _update("largest")], find_largest)


# --- training -------------------------------------------------------------------------------------


def training(
    epochs: int = 3, batches: int = 16, batch: int = 128, features: int = 1024
) -> Pipeline:
    """Return logistic regression in batches, with schedule, clipping and snapshots on the host."""
    examples = batches * batch
    pipeline = Pipeline(
        "training",
        {
            "examples": Buffer((examples, features)),
            "targets": Buffer((examples, CLASSES)),
            "weights": Buffer((features, CLASSES)),
            "weights.diff": Buffer((features, CLASSES)),
            "momentum": Buffer((features, CLASSES)),
            "outputs": Buffer((batch, CLASSES)),
            "rate": Buffer((1,)),
            "snapshots": Buffer((epochs, features, CLASSES)),
        },
        ("weights", "snapshots"),
    )
    pipeline.add("load examples", "host", [_write("examples")], _fill(1.0))
    pipeline.add("load targets", "host", [_write("targets")], _load_targets)
    pipeline.add("begin", "host", [_write("weights")], _fill(0.01))
    for epoch in range(epochs):
        _add_schedule(pipeline, epoch)
        for number in range(batches):
            rows = slice(number * batch, (number + 1) * batch)
            _add_iteration(pipeline, rows, clipped=number % 4 == 0)
        snapshot = [_read("weights"), _write("snapshots", slice(epoch, epoch + 1))]
        pipeline.add("snapshot", "host", snapshot, _take_snapshot)
    return pipeline


def _load_targets(_xp: Any, targets: Any) -> None:
    targets[...] = 0
    targets[np.arange(len(targets)), np.arange(len(targets)) % CLASSES] = 1


def _add_schedule(pipeline: Pipeline, epoch: int) -> None:
    def schedule(_xp: Any, rate: Any) -> None:
        rate[...] = 0.1 / (1 + epoch)

    pipeline.add("schedule", "host", [_write("rate")], schedule)


def _add_iteration(pipeline: Pipeline, rows: slice, *, clipped: bool) -> None:
    def forward(xp: Any, examples: Any, weights: Any, outputs: Any) -> None:
        xp.matmul(examples, weights, out=outputs)

    def softmax(xp: Any, outputs: Any) -> None:
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

    diff, outputs = _read("weights.diff"), _read("outputs")
    examples = _read("examples", rows)
    add = pipeline.add
    add("forward", "device", [examples, _read("weights"), _write("outputs")], forward)
    add("softmax", "device", [_update("outputs")], softmax)
    uses = [examples, _read("targets", rows), outputs, _write("weights.diff")]
    add("backward", "device", uses, backward)
    if clipped:
        add("clip", "host", [_update("weights.diff")], clip)
    add("step", "device", [_read("rate"), diff, _update("momentum"), _update("weights")], step)


def _take_snapshot(_xp: Any, weights: Any, snapshots: Any) -> None:
    snapshots[0] = weights


# --- a simulation ---------------------------------------------------------------------------------


def simulation(rounds: int = 12, sweeps: int = 4, size: int = 512) -> Pipeline:
    """Return a simulation of heat on a plate: the device smooths, the host heats and measures."""
    pipeline = Pipeline(
        "simulation",
        {
            "field": Buffer((size, size)),
            "next": Buffer((size, size)),
            "heating": Buffer((size, size)),
            "profile": Buffer((rounds, size)),
            "extremes": Buffer((rounds, 2)),
        },
        ("field", "profile", "extremes"),
    )
    pipeline.add("begin", "host", [_write("field"), _write("heating")], _fill(1.0))
    for number in range(rounds):
        if number % 3 == 0:
            pipeline.add("heat", "host", [_read("heating"), _update("field")], _heat)
        for _ in range(sweeps):
            pipeline.add("smooth", "device", [_read("field"), _write("next")], _smooth)
            pipeline.add("smooth back", "device", [_read("next"), _write("field")], _smooth)
        row = slice(number, number + 1)
        pipeline.add("profile", "host", [_read("field"), _write("profile", row)], _take_profile)
        pipeline.add("extremes", "host", [_read("field"), _write("extremes", row)], _find_extremes)
    return pipeline


def _heat(_xp: Any, heating: Any, field: Any) -> None:
    field += np.float32(0.1) * heating


def _smooth(_xp: Any, old: Any, new: Any) -> None:
    new[...] = old
    new[1:-1, 1:-1] = np.float32(0.25) * (
        old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
    )


def _take_profile(_xp: Any, field: Any, profile: Any) -> None:
    profile[0] = field.mean(axis=0)


def _find_extremes(_xp: Any, field: Any, extremes: Any) -> None:
    extremes[0] = field.min(), field.max()
