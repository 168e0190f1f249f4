"""The memory of a net that only runs forward: unused gradients should not be allocated.

A net of fully connected layers runs forward a few times. Each implementation is measured in a
separate process, relative to the memory before the net was made.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.own_process import can_measure_memory, growth, in_own_process
from benchmarks.rows import Measured, Row
from syncblob import Blob

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.timing import Timer

__all__ = ["measure"]

LAYERS, WIDTH, BATCH = 4, 2048, 256
BRIEF = (2, 32, 8)
PASSES = 3


class BlobNet:
    """Weights and activations are Blobs."""

    def __init__(self, layers: int, width: int, batch: int) -> None:
        self.weights = [Blob((width, width)) for _ in range(layers)]
        self.activations = [Blob((batch, width)) for _ in range(layers + 1)]
        for blob in [*self.weights, self.activations[0]]:
            blob.overwrite_cpu_data().fill(1 / width)

    def forward(self) -> None:
        """Compute all layers."""
        for bottom, weights, top in zip(
            self.activations, self.weights, self.activations[1:], strict=False
        ):
            out = top.overwrite_cpu_data()
            np.matmul(np.asarray(bottom), np.asarray(weights), out=out)
            np.maximum(out, 0, out=out)


class PairNet:
    """Weights and activations are each a pair of arrays, data and diff, both allocated."""

    def __init__(self, layers: int, width: int, batch: int) -> None:
        self.weights = [_pair((width, width)) for _ in range(layers)]
        self.activations = [_pair((batch, width)) for _ in range(layers + 1)]
        for data, _ in [*self.weights, self.activations[0]]:
            data.fill(1 / width)

    def forward(self) -> None:
        """Compute all layers."""
        for (bottom, _), (weights, _), (top, _) in zip(
            self.activations, self.weights, self.activations[1:], strict=False
        ):
            np.matmul(bottom, weights, out=top)
            np.maximum(top, 0, out=top)


class TorchNet:
    """PyTorch's layers, whose weights require gradients by default."""

    def __init__(self, layers: int, width: int, batch: int) -> None:
        import torch  # a rival that may be missing

        modules: list[Any] = []
        for _ in range(layers):
            modules += [torch.nn.Linear(width, width, bias=False), torch.nn.ReLU()]
        self.net = torch.nn.Sequential(*modules)
        self.images = torch.full((batch, width), 1 / width)
        self.scores: Any = None

    def forward(self) -> None:
        """Compute all layers, and keep the scores, which keep the inputs of their gradient."""
        self.scores = self.net(self.images)


class TorchInferenceNet(TorchNet):
    """The same layers without gradients."""

    def forward(self) -> None:
        """Compute all layers, and keep only the scores."""
        import torch  # as above

        with torch.no_grad():
            super().forward()


NETS: dict[str, Callable[[int, int, int], Any]] = {
    "Blobs": BlobNet,
    "arrays of data and diff": PairNet,
    "torch, as it comes": TorchNet,
    "torch, no_grad": TorchInferenceNet,
}


def measure(timer: Timer) -> Measured:
    """Measure each net in a separate process, and compute the size of the data alone."""
    if not can_measure_memory():
        return Measured(notes=["memory is measured on Linux only"])
    sizes = BRIEF if timer.brief else (LAYERS, WIDTH, BATCH)
    notes = []
    names = list(NETS)
    if find_spec("torch") is None:
        notes.append("torch is not installed: it is not compared")
        names = [name for name in names if not name.startswith("torch")]
    found = {name: in_own_process(measure_net, name, *sizes) for name in names}
    least = data_bytes(*sizes)
    rows = []
    for index, kind in enumerate(("at the peak", "resident afterwards")):
        section = f"a net that only runs forwards, {kind}"
        ours = found["Blobs"][index]
        rivals = {"weights and activations": least}
        rivals |= {name: grown[index] for name, grown in found.items() if name != "Blobs"}
        rows += [Row(section, "Blobs", ours, rival, value, "B") for rival, value in rivals.items()]
    return Measured(rows, notes)


def measure_net(name: str, layers: int, width: int, batch: int) -> tuple[float, float]:
    """Return the growth of this process when a net is made and run a few times."""
    # A small net first, so that the memory of the libraries and their threads does not count.
    _run(NETS[name](1, 64, 64))
    return tuple(growth(lambda: _run(NETS[name](layers, width, batch))))


def data_bytes(layers: int, width: int, batch: int) -> int:
    """Return the bytes of all weights and activations in float32."""
    return 4 * (layers * width * width + (layers + 1) * batch * width)


def _run(net: Any) -> Any:
    for _ in range(PASSES):
        net.forward()
    return net


def _pair(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    diff = np.empty(shape, np.float32)
    diff.fill(0)  # write, so that its pages are mapped
    return np.zeros(shape, np.float32), diff
