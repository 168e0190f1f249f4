"""Solve a system of linear equations by conjugate gradients, on the host and on a device.

`solve` is written once, for Blobs, and runs on their device. The program runs it on the host and on
a device, and compares the results::

    python examples/cg.py

The device is a GPU if there is one, else a simulated device. Needs only syncblob. Based on CuPy's
example of the same name.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import syncblob
from syncblob import Blob


def solve(matrix: Blob, right: Blob, tolerance: float, steps: int) -> tuple[Blob, int]:
    """Find x for which ``matrix @ x`` is `right`.

    Parameters
    ----------
    matrix
        Symmetric and positive definite.
    right
        The right side, one-dimensional.
    tolerance
        The final norm of the residual, relative to that of `right`.
    steps
        The maximum number of steps.

    Returns
    -------
    Blob
        The solution.
    int
        The number of steps.
    """
    x = np.zeros_like(right)
    residual = right.copy()
    direction = right.copy()
    square = np.dot(residual, residual)
    limit = float(square) * tolerance**2
    for step in range(1, steps + 1):
        product = matrix @ direction
        length = square / np.dot(direction, product)
        x += length * direction
        residual -= length * product
        before, square = square, np.dot(residual, residual)
        # In each step, one number is downloaded.
        if float(square) <= limit:
            return x, step
        direction = residual + (square / before) * direction
    raise ArithmeticError(f"no solution after {steps} steps; allow more, or a larger tolerance")


def make_system(size: int, random: np.random.Generator) -> tuple[Blob, Blob, Blob]:
    """Make a matrix, the solution, and the right side, on the host."""
    factor = random.normal(size=(size, size))
    matrix = factor @ factor.T / size + np.eye(size)
    solution = random.normal(size=size)
    with syncblob.use_device("cpu"):
        return Blob.asarray(matrix), Blob.asarray(solution), Blob.asarray(matrix @ solution)


def device() -> syncblob.Device:
    """Return a GPU, or the simulated device if there is none."""
    gpus = [found for found in syncblob.available_devices() if found.type == "cuda"]
    return gpus[0] if gpus else syncblob.Device("simulated")


def run(size: int, tolerance: float, steps: int) -> dict[str, Blob]:
    """Solve a system on the host and on the device; return both solutions."""
    matrix, solution, right = make_system(size, np.random.default_rng(seed=0))
    found: dict[str, Blob] = {}
    for place in (syncblob.Device("cpu"), device()):
        arguments = matrix.to_device(place), right.to_device(place)
        with syncblob.compute_only_on(place), syncblob.record_transfers() as log:
            start = time.perf_counter()
            # Reading a result waits for the device, so no other synchronisation is needed.
            x, made = solve(*arguments, tolerance, steps)
            seconds = time.perf_counter() - start
        found[place.type] = x
        error = float(np.linalg.norm(x.on("cpu") - solution) / np.linalg.norm(solution))
        print(
            f"{place}: {made} steps in {seconds:.3f} s, {log.nbytes:,} bytes moved, "
            f"relative error {error:.1e}"
        )
    on_host, on_device = (x.on("cpu") for x in found.values())
    print(f"the largest difference is {float(np.max(np.abs(on_host - on_device))):.1e}")
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=1000, help="the number of equations")
    parser.add_argument("--tolerance", type=float, default=1e-8, help="of the residual")
    parser.add_argument("--steps", type=int, default=1000, help="the most that are made")
    arguments = parser.parse_args()
    if arguments.size < 1:
        parser.error(f"--size: expected at least 1, got {arguments.size}")
    try:
        run(arguments.size, arguments.tolerance, arguments.steps)
    except ArithmeticError as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
