"""What handing an array to another library costs, without a transfer."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import medians, print_table
from syncblob import Blob

__all__ = ["main"]

SHAPE = (16, 16)


def main() -> None:
    """Time accessors against slicing an ndarray, and protocols against torch and NumPy."""
    blob = Blob(SHAPE)
    blob.mutable_cpu_data()[...] = 1
    const = blob.const
    array = np.ones(SHAPE, np.float32)
    pairs = [
        ("blob.cpu_data()", blob.cpu_data, "ndarray[:]", lambda: array[:]),
        ("blob.mutable_cpu_data()", blob.mutable_cpu_data, "ndarray[:]", lambda: array[:]),
    ]
    try:
        import torch  # a rival that may be missing
    except ImportError:
        print("\ntorch is not installed: the protocols are not compared")
    else:
        tensor = torch.ones(SHAPE)
        pairs += [
            (
                "np.asarray(blob)",
                lambda: np.asarray(blob),
                "np.asarray(tensor)",
                lambda: np.asarray(tensor),
            ),
            (
                "np.from_dlpack(blob)",
                lambda: np.from_dlpack(blob),
                "np.from_dlpack(tensor)",
                lambda: np.from_dlpack(tensor),
            ),
            (
                "torch.from_dlpack(blob)",
                lambda: torch.from_dlpack(blob),
                "torch.from_dlpack(ndarray)",
                lambda: torch.from_dlpack(array),
            ),
            (
                "torch.from_dlpack(blob.const)",
                lambda: torch.from_dlpack(const),
                "torch.from_dlpack(ndarray)",
                lambda: torch.from_dlpack(array),
            ),
            (
                "Blob.asarray(ndarray)",
                lambda: Blob.asarray(array),
                "torch.as_tensor(ndarray)",
                lambda: torch.as_tensor(array),
            ),
        ]
    rows = []
    for ours, our_call, rival, rival_call in pairs:
        times = medians({"ours": our_call, "rival": rival_call})
        rows.append((ours, times["ours"], rival, times["rival"]))
    print_table(f"hand-over of float32 {SHAPE}", rows)


if __name__ == "__main__":
    main()
