"""The cost of functions of NumPy and PyTorch with Blobs and with native arrays.

The arrays are small, so that the cost is that of the call. The extra cost of Blobs is given in
calls of ``np.add(a, a)``, measured in the same run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.calls import as_blob, in_adds, one_thread
from benchmarks.rows import Measured
from benchmarks.timing import Timer

# One function of each kind, of the operands below.
NUMPY = (
    "np.allclose(m, m)",
    "np.argmax(m, axis=1)",
    "np.broadcast_to(m, (4, 8, 8))",
    "np.clip(m, 0, 0.5)",
    "np.concatenate((m, m))",
    "np.count_nonzero(m)",
    "np.cumsum(m, axis=0)",
    "np.dot(m, m)",
    'np.einsum("ij,jk->ik", m, m)',
    "np.fft.fft(m)",
    "np.linalg.norm(m)",
    "np.mean(m, axis=0)",
    "np.pad(m, 1)",
    "np.reshape(m, (4, 16))",
    "np.sort(m)",
    "np.split(m, 2)",
    "np.stack([m, m])",
    "np.sum(m)",
    "np.take(m, i, axis=0)",
    "np.tensordot(m, m, 1)",
    "np.transpose(m)",
    "np.unique(m)",
    "np.where(b, m, m)",
    "np.zeros_like(m)",
)
TORCH = (
    "torch.relu(m)",
    "torch.add(m, m)",
    "torch.mul(m, 2.0)",
    "torch.matmul(m, m)",
    "torch.cat([m, m])",
    "torch.where(b, m, m)",
    "torch.topk(m, 3)",
    "torch.argmax(m, 1)",
    "torch.mean(m, 0)",
    "torch.reshape(m, (4, 16))",
    "torch.transpose(m, 0, 1)",
    "torch.flatten(m)",
    "F.linear(m, m, v)",
    "F.conv2d(x, w)",
    "F.max_pool2d(x, 2)",
    "F.softmax(m, 1)",
    "F.layer_norm(m, (8,), v, v)",
    "F.batch_norm(m, v, v)",
    "F.embedding(i, m)",
    "F.cross_entropy(m, i)",
)


def operands() -> dict[str, np.ndarray]:
    """Return numbers, a mask, a row, indices, an image and its kernels, the same in each run."""
    random = np.random.default_rng(0)
    matrix = random.random((8, 8), np.float32)
    return {
        "m": matrix,
        "b": matrix > np.float32(0.5),
        "v": random.random(8, np.float32),
        "i": random.permutation(8),
        "x": random.random((1, 2, 8, 8), np.float32),
        "w": random.random((2, 2, 3, 3), np.float32),
    }


def measure(timer: Timer) -> Measured:
    """Time functions; measure the memory of small Blobs."""
    arrays: dict[str, Any] = {"np": np, **operands()}
    blobs: dict[str, Any] = {name: as_blob(array) for name, array in operands().items()}
    blobs["np"] = np
    numpy = {"library": "NumPy", "rival": "ndarrays", "ours": blobs, "theirs": arrays}
    rows = [*in_adds(timer, NUMPY, goals=(3.5, 8.0), **numpy)]
    try:
        import torch  # a rival that may be missing
    except ImportError:
        return Measured(rows, ["torch is not installed: its functions are not measured"])
    tensors = {name: torch.tensor(array) for name, array in operands().items()}
    blobs, tensors = ({**x, "torch": torch, "F": torch.nn.functional} for x in (blobs, tensors))
    calls = {"library": "PyTorch", "rival": "tensors", "ours": blobs, "theirs": tensors}
    with one_thread(torch):
        rows += in_adds(timer, TORCH, goals=(14.0, 25.0), **calls)
    return Measured(rows)
