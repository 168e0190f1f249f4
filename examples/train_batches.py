"""Train a classifier on mini-batches of a data set on the host, with prefetching.

The data set is one Blob. In each step the host makes the next batch, by adding noise to clean
samples, and `prefetch` starts its upload. Meanwhile the device trains on the previous batch. Only
the batch moves, because an access of a view only moves the view. The program repeats this with
accesses of the whole array, and prints the bytes moved in both cases::

    python examples/train_batches.py

It computes with NumPy's functions on Blobs, on a GPU if there is one, else on a simulated device.
Needs only syncblob.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import syncblob
from syncblob import Blob, Device, TransferLog

FEATURES, CLASSES, BATCH = 64, 10, 64
LEARNING_RATE = 0.5
# The spread of the clean samples of a class, and of the noise that is added in each epoch.
SPREAD, NOISE = 1.5, 0.5


class Data(NamedTuple):
    """Clean samples on the host, and their classes, one-hot encoded."""

    samples: NDArray[np.float32]
    targets: NDArray[np.float32]


class Net(NamedTuple):
    """The parameters."""

    weights: Blob
    bias: Blob


def make_data(count: int, random: np.random.Generator) -> Data:
    """Make samples around one centre per class."""
    centres = np.random.default_rng(seed=1).normal(size=(CLASSES, FEATURES))
    labels = random.integers(CLASSES, size=count)
    samples = centres[labels] + random.normal(0, SPREAD, (count, FEATURES))
    targets = np.eye(CLASSES)[labels]
    return Data(samples.astype(np.float32), targets.astype(np.float32))


def probabilities(net: Net, samples: Blob) -> Blob:
    """Compute the probabilities of the classes by a linear layer and softmax."""
    scores = samples @ net.weights + net.bias
    powers = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    shares: Blob = powers / np.sum(powers, axis=1, keepdims=True)
    return shares


def learn(net: Net, samples: Blob, targets: Blob) -> Blob:
    """Make a step of gradient descent, as Caffe does, by diff and update. Return the loss."""
    found = probabilities(net, samples)
    errors = (found - targets) / samples.shape[0]
    net.weights.diff[...] = LEARNING_RATE * (samples.T @ errors)
    net.bias.diff[...] = LEARNING_RATE * np.sum(errors, axis=0)
    net.weights.update()
    net.bias.update()
    loss: Blob = -np.mean(np.log(np.sum(found * targets, axis=1)))
    return loss


def fill(samples: Blob, rows: slice, values: NDArray[np.float32], *, whole: bool) -> None:
    """Write a batch on the host, and start its upload."""
    if whole:
        samples.mutable_cpu_data()[rows] = values
        samples.prefetch()
    else:
        batch = samples[rows]
        batch.overwrite_cpu_data()[...] = values
        batch.prefetch()


def train(data: Data, test: Data, epochs: int, *, whole: bool = False) -> tuple[float, TransferLog]:
    """Train on the default device.

    Parameters
    ----------
    data, test
        The data for training and for testing.
    epochs
        The number of epochs.
    whole
        Whether the host writes batches through accesses of the whole array.

    Returns
    -------
    float
        The accuracy on the test samples.
    TransferLog
        The transfers.
    """
    random = np.random.default_rng(seed=2)
    samples = Blob(data.samples.shape, name="samples")
    samples.overwrite_cpu_data()[...] = data.samples
    targets = Blob.asarray(data.targets, copy=True)
    net = Net(Blob((FEATURES, CLASSES), name="weights"), Blob(CLASSES, name="bias"))
    batches = [slice(start, start + BATCH) for start in range(0, len(data.samples), BATCH)]

    def prepare(rows: slice) -> None:
        clean = data.samples[rows]
        noise = random.normal(0, NOISE, clean.shape).astype(np.float32)
        fill(samples, rows, clean + noise, whole=whole)

    with syncblob.compute_only_on(syncblob.default_device()), syncblob.record_transfers() as log:
        prepare(batches[0])
        for _ in range(epochs):
            for rows, following in zip(batches, [*batches[1:], batches[0]], strict=True):
                prepare(following)
                loss = learn(net, samples[rows], targets[rows])
            share = recognised(net, test)
            if not whole:
                print(f"loss {float(loss):.3f}, {share:.1%} of {len(test.samples)} test samples")
    return share, log


def recognised(net: Net, test: Data) -> float:
    """Return the share of samples whose most probable class is correct."""
    found = probabilities(net, Blob.asarray(test.samples, copy=True))
    return float(np.mean(np.argmax(found, axis=1) == Blob.asarray(test.targets.argmax(1))))


def device() -> Device:
    """Return a GPU, or the simulated device if there is none."""
    gpus = [found for found in syncblob.available_devices() if found.type == "cuda"]
    return gpus[0] if gpus else syncblob.Device("simulated")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=4, help="passes over the samples")
    parser.add_argument("--samples", type=int, default=8192, help=f"a multiple of {BATCH}")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error(f"--epochs: expected at least 1, got {arguments.epochs}")
    if arguments.samples < BATCH or arguments.samples % BATCH:
        parser.error(f"--samples: expected a multiple of {BATCH}, got {arguments.samples}")
    random = np.random.default_rng(seed=0)
    data, test = make_data(arguments.samples, random), make_data(1024, random)
    with syncblob.use_device(device()):
        print(f"{arguments.samples // BATCH} batches of {BATCH} on {syncblob.default_device()}")
        _, parts = train(data, test, arguments.epochs)
        _, whole = train(data, test, arguments.epochs, whole=True)
    print(f"batches moved       {parts.nbytes:13,} bytes in {len(parts)} transfers")
    print(f"whole arrays moved  {whole.nbytes:13,} bytes in {len(whole)} transfers")


if __name__ == "__main__":
    main()
