"""Fit a mixture of Gaussians by expectation maximisation, on the host and on a device.

`fit` is written once, for Blobs, and runs on their device. The program runs it on the host and on a
device, and compares the results::

    python examples/gmm.py

The device is a GPU if there is one, else a simulated device. Needs only syncblob. Based on CuPy's
example of the same name.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import NamedTuple

import numpy as np

import syncblob
from syncblob import Blob


class Mixture(NamedTuple):
    """Gaussians with diagonal covariances: weights (k,), means and variances (k, features)."""

    shares: Blob
    means: Blob
    variances: Blob


def log_densities(samples: Blob, mixture: Mixture) -> Blob:
    """Return the logarithm of the weighted density of each Gaussian at each sample."""
    precisions = 1 / mixture.variances
    distances = (
        np.square(samples) @ precisions.T
        - 2 * samples @ (mixture.means * precisions).T
        + np.sum(mixture.means**2 * precisions, axis=1)
    )
    constant = samples.shape[1] * math.log(2 * math.pi)
    volumes = np.sum(np.log(mixture.variances), axis=1)
    densities: Blob = np.log(mixture.shares) - 0.5 * (constant + volumes + distances)
    return densities


def step(samples: Blob, mixture: Mixture) -> tuple[Mixture, Blob]:
    """Make one step; return the next mixture, and the mean log-likelihood before the step."""
    densities = log_densities(samples, mixture)
    highest = np.max(densities, axis=1, keepdims=True)
    likelihoods = highest + np.log(np.sum(np.exp(densities - highest), axis=1, keepdims=True))
    belongs = np.exp(densities - likelihoods)
    counts = np.sum(belongs, axis=0)
    means = belongs.T @ samples / counts[:, None]
    variances = belongs.T @ np.square(samples) / counts[:, None] - np.square(means)
    return Mixture(counts / len(samples), means, variances), np.mean(likelihoods)


def fit(
    samples: Blob, mixture: Mixture, tolerance: float, steps: int
) -> tuple[Mixture, float, int]:
    """Improve a mixture until the likelihood of the samples grows by at most a tolerance.

    Returns
    -------
    Mixture
        The mixture.
    float
        The mean log-likelihood before the last step.
    int
        The number of steps.
    """
    before, now, made = -math.inf, -math.inf, 0
    while made < steps and (not made or now - before > tolerance):
        before, made = now, made + 1
        mixture, likelihood = step(samples, mixture)
        # In each step, one number is downloaded.
        now = float(likelihood)
    return mixture, now, made


def recognised(samples: Blob, labels: Blob, mixture: Mixture) -> float:
    """Return the share of the samples whose most probable Gaussian is their own."""
    return float(np.mean(np.argmax(log_densities(samples, mixture), axis=1) == labels))


def device() -> syncblob.Device:
    """Return a GPU, or the simulated device if there is none."""
    gpus = [found for found in syncblob.available_devices() if found.type == "cuda"]
    return gpus[0] if gpus else syncblob.Device("simulated")


def run(count: int, features: int, tolerance: float, steps: int) -> dict[str, Mixture]:
    """Fit two Gaussians on the host and on the device; return both mixtures."""
    random = np.random.default_rng(seed=0)
    drawn = np.repeat([0, 1], count)
    points = random.normal(np.where(drawn, -1, 1)[:, None], 1, (2 * count, features))
    guess = random.normal([[0.5], [-0.5]], 0.1, (2, features))
    found: dict[str, Mixture] = {}
    for place in (syncblob.Device("cpu"), device()):
        with (
            syncblob.use_device(place),
            syncblob.compute_only_on(place),
            syncblob.record_transfers() as log,
        ):
            samples, labels = Blob.asarray(points, "float32"), Blob.asarray(drawn)
            means = Blob.asarray(guess, "float32")
            ones = np.ones_like(means)
            begin = Mixture(np.full(2, 0.5, dtype=samples.dtype, like=samples), means, ones)
            start = time.perf_counter()
            mixture, likelihood, made = fit(samples, begin, tolerance, steps)
            seconds = time.perf_counter() - start
            share = recognised(samples, labels, mixture)
        found[place.type] = mixture
        print(
            f"{place}: {made} steps in {seconds:.3f} s, {log.nbytes:,} bytes moved, "
            f"likelihood {likelihood:.4f}, {share:.1%} recognised"
        )
    on_host, on_device = (mixture.means.on("cpu") for mixture in found.values())
    print(f"the means differ by {float(np.max(np.abs(on_host - on_device))):.1e} at most")
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=50_000, help="the number from each Gaussian")
    parser.add_argument("--features", type=int, default=2, help="the number of features")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="of the likelihood")
    parser.add_argument("--steps", type=int, default=100, help="the most that are made")
    arguments = parser.parse_args()
    for name in ("samples", "features", "steps"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name}: expected at least 1, got {getattr(arguments, name)}")
    run(arguments.samples, arguments.features, arguments.tolerance, arguments.steps)


if __name__ == "__main__":
    main()
