"""Train LeNet on scikit-learn's handwritten digits, with layers that are functions of Blobs.

The weights are Blobs, as in Caffe, with ``data`` and ``diff``. PyTorch computes the layers, its
autograd adds the gradients to ``diff`` in place, and ``update`` subtracts them from ``data``. The
result is saved as a ``.caffemodel``::

    python examples/train_lenet.py lenet.caffemodel

Needs PyTorch, scikit-learn and rich.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import syncblob
from syncblob import Blob, Layer, ModelFile

Layers = dict[str, tuple[Blob, Blob]]

BATCH = 64
MOMENTUM = 0.9
# The initial rate. It falls linearly to zero.
LEARNING_RATE = 0.02
# The distortion of training images: the spread of the entries of an affine map.
DISTORTION = 0.1


def xavier(shape: tuple[int, ...], random: np.random.Generator) -> Blob:
    """Make a weight Blob with Caffe's filler of that name."""
    limit = math.sqrt(3 / math.prod(shape[1:]))
    return Blob.asarray(random.uniform(-limit, limit, shape), "float32")


def make_layers(random: np.random.Generator) -> Layers:
    """Make the weights and the bias of each layer of LeNet that has parameters."""
    shapes = {"conv1": (20, 1, 5, 5), "conv2": (50, 20, 5, 5), "ip1": (500, 800), "ip2": (10, 500)}
    return {name: (xavier(shape, random), Blob(shape[0])) for name, shape in shapes.items()}


def forward(layers: Layers, images: Any) -> torch.Tensor:
    """Compute the scores of the ten digits for images of 28 x 28 pixels."""

    def learned(name: str) -> list[torch.nn.Parameter]:
        return [blob.as_parameter() for blob in layers[name]]

    top = F.max_pool2d(F.conv2d(images, *learned("conv1")), 2)
    top = F.max_pool2d(F.conv2d(top, *learned("conv2")), 2)
    top = F.relu(F.linear(top.flatten(1), *learned("ip1")))
    return F.linear(top, *learned("ip2"))


def step(layers: Layers, history: Layers, rate: float) -> None:
    """Update the weights from the gradients in diff, as Caffe's SGD solver does."""
    for name, blobs in layers.items():
        for blob, velocity in zip(blobs, history[name], strict=True):
            blob.diff[...] = rate * blob.diff + MOMENTUM * velocity
            velocity[...] = blob.diff
            blob.update()
            blob.diff[...] = 0


def accuracy(layers: Layers, images: Blob, labels: Blob) -> float:
    """Return the share of the images whose highest score is that of their digit."""
    with torch.no_grad():
        found = Blob.asarray(forward(layers, images).argmax(1))
    return float((found == labels).mean())


def digits() -> tuple[Blob, Blob, Blob, Blob]:
    """Return images for training and testing, 28 x 28 as in Caffe's example, and their labels."""
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images, labels, test_size=0.25, random_state=0, stratify=labels)
    small, small_test, train_labels, test_labels = map(Blob.asarray, split)
    return enlarged(small), train_labels, enlarged(small_test), test_labels


def enlarged(images: Blob) -> Blob:
    """Scale images of 8 x 8 pixels, from 0 to 16, to 28 x 28 pixels, from 0 to 1."""
    pixels: Any = images.reshape(-1, 1, 8, 8).astype("float32") / 16
    return Blob.asarray(F.interpolate(pixels, (28, 28), mode="bilinear"))


def distorted(images: Any, random: np.random.Generator) -> torch.Tensor:
    """Rotate, stretch and shift each image slightly."""
    maps: Any = random.normal(0, DISTORTION, (len(images), 2, 3)) + np.eye(2, 3)
    grid = F.affine_grid(Blob.asarray(maps, "float32"), images.shape, align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def batches(count: int, random: np.random.Generator) -> Iterator[Blob]:
    """Yield the indices of batches: all images once, in random order."""
    order = random.permutation(count)
    for start in range(0, count, BATCH):
        yield Blob.asarray(order[start : start + BATCH])


def save(layers: Layers, path: str) -> None:
    """Write the weights as a ``.caffemodel``, under the names of Caffe's LeNet."""
    net = []
    bottom = "data"
    for name, blobs in layers.items():
        kind = "Convolution" if name.startswith("conv") else "InnerProduct"
        net.append(Layer(name, kind, [bottom], [name], blobs))
        bottom = name
    syncblob.save_model(ModelFile("LeNet", net), path)


def train(path: str, epochs: int) -> float:
    """Train, save the weights, and return the accuracy on the test images."""
    random = np.random.default_rng(seed=0)
    images, labels, test_images, test_labels = digits()
    layers = make_layers(random)
    history = {name: (Blob(w.shape), Blob(b.shape)) for name, (w, b) in layers.items()}
    total = epochs * math.ceil(len(images) / BATCH)
    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as progress:
        task = progress.add_task("train", total=total, epoch=0, loss=math.nan)
        for epoch in range(1, epochs + 1):
            for chosen in batches(len(images), random):
                batch = distorted(syncblob.take(images, chosen, axis=0), random)
                digit: Any = syncblob.take(labels, chosen)
                loss = F.cross_entropy(forward(layers, batch), digit)
                loss.backward()
                step(layers, history, LEARNING_RATE * (1 - progress.tasks[task].completed / total))
                progress.update(task, advance=1, epoch=epoch, loss=loss.item())
    # Without a terminal, the bar is printed when it is done.
    reached = accuracy(layers, test_images, test_labels)
    print(f"{reached:.2%} of {len(test_labels)} test images")
    save(layers, path)
    return reached


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("output", help="the .caffemodel to write")
    parser.add_argument("--epochs", type=int, default=12, help="passes over the training images")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error(f"--epochs: expected at least 1, got {arguments.epochs}")
    if Path(arguments.output).suffix.lower() != ".caffemodel":
        parser.error(f"output: expected the extension .caffemodel, got {arguments.output}")
    if not Path(arguments.output).resolve().parent.is_dir():
        parser.error(f"output: there is no folder {Path(arguments.output).parent}")
    train(arguments.output, arguments.epochs)


if __name__ == "__main__":
    main()
