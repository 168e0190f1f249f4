"""Train on several devices, and simulate heat on a grid that is divided among them.

Both programs are written for a list of devices and give the same bits for one device as for two::

    python examples/several_devices.py
    python examples/several_devices.py cuda:0 cuda:1

Without arguments they run on the GPUs if there are two, else on simulated devices. Needs only
syncblob. Operands come to the device of an operation by themselves: from another device by a peer
copy. For training on many devices, ``torch.distributed`` or NCCL overlap these copies with the
computation.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np

import syncblob
from syncblob import Blob, record_transfers


def gradient(weights: Blob, examples: Blob, labels: Blob) -> Blob:
    """Return the gradient of the logistic loss."""
    guesses = 1 / (1 + np.exp(-(examples @ weights)))
    return examples.T @ (guesses - labels)


def train(devices: list[str], examples: Blob, labels: Blob, steps: int, parts: int) -> Blob:
    """Train a logistic regression: each part of a batch on one of the devices.

    Parameters
    ----------
    devices
        The devices. The weights are updated on the first.
    examples, labels
        All batches, on the host, and what to learn of them.
    steps, parts
        The number of batches, and of the parts of each.

    Returns
    -------
    Blob
        The weights.
    """
    weights = syncblob.zeros(examples.shape[1], dtype="float32", device=devices[0])
    size = examples.shape[0] // (steps * parts)
    for step in range(steps):
        gradients = []
        for part in range(parts):
            start = (step * parts + part) * size
            rows = slice(start, start + size)
            device = devices[part * len(devices) // parts]
            # A view on a device: the weights come from the first one, the rows from the host.
            here = [each.on(device) for each in (weights, examples[rows], labels[rows])]
            gradients.append(gradient(*here))
        # The operands are on several devices. The sum is computed on the first.
        total = gradients[0]
        for other in gradients[1:]:
            total += other
        weights -= 0.5 / (size * parts) * total
    return weights


def diffuse(devices: list[str], grid: np.ndarray, steps: int) -> np.ndarray:
    """Let heat spread over a grid with a fixed border, and return the temperatures.

    Each device has some rows, and the last row of its neighbours.
    """
    rows = np.array_split(np.arange(1, grid.shape[0] - 1), len(devices))
    blocks = [
        syncblob.asarray(grid[each[0] - 1 : each[-1] + 2], copy=True, device=device)
        for each, device in zip(rows, devices, strict=True)
    ]
    for _ in range(steps):
        for upper, lower in pairwise(blocks):
            # One row each way, from device to device.
            upper[-1] = lower[1]
            lower[0] = upper[-2]
        for block in blocks:
            middle = block[1:-1, 1:-1]
            around = block[:-2, 1:-1] + block[2:, 1:-1] + block[1:-1, :-2] + block[1:-1, 2:]
            middle[...] = middle + 0.1 * (around - 4 * middle)
    inner = [block[1:-1].on("cpu") for block in blocks]
    return np.concatenate([grid[:1], *map(np.asarray, inner), grid[-1:]])


def run(devices: list[str]) -> None:
    """Run both programs on one device and on all, compare the results, and print what moved."""
    rng = np.random.default_rng(0)
    examples = rng.standard_normal((4096, 64), "float32")
    labels = (examples[:, 0] > 0).astype("float32")
    grid = rng.random((66, 64))

    def learn(names: list[str]) -> Blob:
        data = [syncblob.asarray(each, copy=True, device="cpu") for each in (examples, labels)]
        return train(names, *data, steps=8, parts=len(devices))

    programs = {"training": learn, "heat": lambda names: diffuse(names, grid, steps=20)}
    for title, program in programs.items():
        alone = np.asarray(program(devices[:1]))
        with record_transfers() as log:
            together = np.asarray(program(devices))
        same = np.array_equal(alone, together)
        print(f"{title} on {', '.join(devices)}: {'the same bits' if same else 'OTHER BITS'}")
        print(f"  {log!r}")


if __name__ == "__main__":
    gpus = [str(each) for each in syncblob.available_devices() if each.type == "cuda"]
    run(sys.argv[1:] or (gpus[:2] if len(gpus) > 1 else ["simulated:0", "simulated:1"]))
