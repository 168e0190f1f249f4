"""Train a net whose activations do not fit, and stream an array through a small device.

The first part computes the gradients of a net of fully connected layers twice: with room for all
activations, and with a limit that fits a few of them. The gradients are the same; with the limit,
activations move to the host and back. The second part doubles each number of an array that is four
times as large as the device::

    python examples/larger_than_the_device.py --megabytes 64

The device is simulated. Needs only syncblob.
"""

from __future__ import annotations

import argparse

import numpy as np

import syncblob
from syncblob import Blob, record_transfers, set_memory_limit

DEVICE = "simulated"


def gradients(weights: list[Blob], samples: Blob) -> list[Blob]:
    """Return the gradients of half the sum of squares of a net's outputs by its weights.

    Parameters
    ----------
    weights
        The weights of each layer, square matrices of one size. A ReLU follows each.
    samples
        The inputs, one in each row.
    """
    activations = [samples]
    for weight in weights:
        activations.append(syncblob.maximum(activations[-1] @ weight, 0.0))
    found = []
    slope = activations[-1]
    for weight, inputs, outputs in zip(
        reversed(weights), reversed(activations[:-1]), reversed(activations[1:]), strict=True
    ):
        slope = slope * (outputs > 0)
        found.append(inputs.T @ slope)
        slope = slope @ weight.T
    return found[::-1]


def train(layers: int, rows: int, width: int) -> None:
    """Compute gradients with and without a limit, compare them, and print what has moved."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(0, (2 / width) ** 0.5, (width, width)) for _ in range(layers)]
    weights = [syncblob.asarray(array.astype("float32"), device=DEVICE) for array in arrays]
    samples = syncblob.asarray(rng.random((rows, width), dtype="float32"), device=DEVICE)
    with record_transfers() as log:
        free = [np.array(gradient) for gradient in gradients(weights, samples)]
    print(f"all activations fit: {log.nbytes:,} bytes moved")
    limit = samples.nbytes * (layers // 2)
    with set_memory_limit(DEVICE, limit), record_transfers() as log:
        limited = [np.array(gradient) for gradient in gradients(weights, samples)]
    print(f"with {limit:,} bytes: {log.nbytes:,} bytes moved")
    same = all(np.array_equal(a, b) for a, b in zip(free, limited, strict=True))
    print(f"the gradients are {'the same' if same else 'different'}")


def stream(megabytes: int) -> None:
    """Double each number of an array on a device with room for a quarter of it."""
    blob = Blob((megabytes, 1 << 18), device=DEVICE, name="large")
    blob.overwrite_cpu_data()[...] = np.arange(megabytes, dtype="float32")[:, None]
    with set_memory_limit(DEVICE, blob.nbytes // 4), record_transfers() as log:
        for part in blob.parts(nbytes=blob.nbytes // 16):
            part[...] = part * 2
    right = all(blob[row, 5].item() == 2 * row for row in range(megabytes))
    print(
        f"{blob.nbytes:,} bytes through {blob.nbytes // 4:,}: {log.uploaded_bytes:,} up, "
        f"{log.downloaded_bytes:,} down, {'right' if right else 'wrong'}"
    )


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--megabytes", type=int, default=64, help="of the array that is streamed")
    options = parser.parse_args()
    train(options.layers, options.rows, options.width)
    stream(options.megabytes)


if __name__ == "__main__":
    main()
