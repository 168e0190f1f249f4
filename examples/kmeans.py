"""Find clusters of points by k-means, on the host and on a device.

`fit` is written once, for Blobs, and runs on their device. The program runs it on the host and on a
device, and compares the results::

    python examples/kmeans.py --output clusters.png

The device is a GPU if there is one, else a simulated device. Needs only syncblob, and Matplotlib
for the picture. Based on CuPy's example of the same name.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import syncblob
from syncblob import Blob


class Clusters(NamedTuple):
    """The result of `fit`."""

    centres: Blob
    labels: Blob
    steps: int


def fit(samples: Blob, centres: Blob, steps: int) -> Clusters:
    """Assign samples to clusters.

    Parameters
    ----------
    samples
        The samples, of shape (samples, features).
    centres
        The initial centres, of shape (clusters, features).
    steps
        The maximum number of steps.
    """
    numbers = np.arange(len(centres), like=samples)
    labels = np.zeros(len(samples), dtype=numbers.dtype, like=samples)
    for step in range(1, steps + 1):
        distances = np.sum((samples[:, None, :] - centres) ** 2, axis=2)
        found = np.argmin(distances, axis=1)
        # In each step, one bool is downloaded.
        if bool(np.all(found == labels)):
            return Clusters(centres, labels, step)
        labels = found
        members = (labels == numbers[:, None]).astype(samples.dtype)
        centres = members @ samples / np.sum(members, axis=1, keepdims=True)
    return Clusters(centres, labels, steps)


def make_samples(count: int, clusters: int, random: np.random.Generator) -> NDArray[np.float32]:
    """Make points in a plane, around `clusters` centres on a circle."""
    angles = 2 * np.pi * np.arange(clusters) / clusters
    centres = 4 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    noise = random.normal(size=(count, 2))
    return (centres[random.integers(clusters, size=count)] + noise).astype(np.float32)


def first_centres(samples: NDArray[np.float32], clusters: int) -> NDArray[np.float32]:
    """Choose initial centres among the samples, each the farthest from those before."""
    chosen = [samples[0]]
    while len(chosen) < clusters:
        distances = np.min([np.sum((samples - centre) ** 2, axis=1) for centre in chosen], axis=0)
        chosen.append(samples[np.argmax(distances)])
    return np.stack(chosen)


def draw(samples: Blob, clusters: Clusters, path: str) -> None:
    """Draw the samples in the colours of their clusters. Matplotlib reads the Blobs on the host."""
    from matplotlib.figure import Figure

    axes = Figure(layout="constrained").subplots()
    axes.scatter(*np.asarray(samples).T, c=np.asarray(clusters.labels), s=2)
    axes.scatter(*np.asarray(clusters.centres).T, c="black", marker="x")
    axes.set_aspect("equal")
    axes.figure.savefig(path)


def device() -> syncblob.Device:
    """Return a GPU, or the simulated device if there is none."""
    gpus = [found for found in syncblob.available_devices() if found.type == "cuda"]
    return gpus[0] if gpus else syncblob.Device("simulated")


def run(count: int, clusters: int, steps: int, output: str | None) -> dict[str, Clusters]:
    """Find clusters on the host and on the device; return both."""
    samples = make_samples(count, clusters, np.random.default_rng(seed=0))
    centres = first_centres(samples, clusters)
    found: dict[str, Clusters] = {}
    for place in (syncblob.Device("cpu"), device()):
        with (
            syncblob.use_device(place),
            syncblob.compute_only_on(place),
            syncblob.record_transfers() as log,
        ):
            arguments = Blob.asarray(samples), Blob.asarray(centres)
            start = time.perf_counter()
            found[place.type] = fit(*arguments, steps)
            seconds = time.perf_counter() - start
        made = found[place.type].steps
        print(f"{place}: {made} steps in {seconds:.3f} s, {log.nbytes:,} bytes moved")
    on_host, on_device = (clusters.labels.on("cpu") for clusters in found.values())
    print(f"{float(np.mean(on_host == on_device)):.2%} of the labels are the same")
    if output is not None:
        draw(arguments[0], found[place.type], output)
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=100_000, help="the number of points")
    parser.add_argument("--clusters", type=int, default=5, help="the number of clusters")
    parser.add_argument("--steps", type=int, default=100, help="the most that are made")
    parser.add_argument("--output", help="an image file for a picture of the clusters")
    arguments = parser.parse_args()
    if not 1 <= arguments.clusters <= arguments.samples:
        parser.error(f"--clusters: expected 1 to {arguments.samples}, got {arguments.clusters}")
    run(arguments.samples, arguments.clusters, arguments.steps, arguments.output)


if __name__ == "__main__":
    main()
