"""The memory of a net that only runs forward: unused gradients should not be allocated.

A net of fully connected layers runs forward a few times. Each implementation is measured in a
separate process, relative to the memory before the net was made.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.processes import can_measure_memory, growth, in_own_process
from benchmarks.rows import Measured, Row
from syncblob import Blob

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.timing import Timer

__all__ = ["NETS", "data_bytes", "measure"]

# Layers, the width of each, and images.
SIZES, BRIEF = (4, 2048, 256), (2, 32, 8)
PASSES = 3


def blob_net(layers: int, width: int, batch: int) -> tuple[list[Blob], Callable[[], None]]:
    """Make a net whose weights and activations are Blobs; return them, and forward."""
    weights = [Blob((width, width)) for _ in range(layers)]
    activations = [Blob((batch, width)) for _ in range(layers + 1)]
    for blob in [*weights, activations[0]]:
        blob.overwrite_cpu_data().fill(1 / width)

    def forward() -> None:
        for bottom, weight, top in zip(activations, weights, activations[1:], strict=False):
            out = top.overwrite_cpu_data()
            np.matmul(np.asarray(bottom), np.asarray(weight), out=out)
            np.maximum(out, 0, out=out)

    return [*weights, *activations], forward


def torch_net(
    layers: int, width: int, batch: int, *, grad: bool = True
) -> tuple[list[Any], Callable[[], None]]:
    """Make one of PyTorch's layers, whose weights require gradients by default."""
    import torch  # a rival that may be missing

    modules: list[Any] = []
    for _ in range(layers):
        modules += [torch.nn.Linear(width, width, bias=False), torch.nn.ReLU()]
    net = torch.nn.Sequential(*modules)
    # Images, and the scores, which keep the inputs of their gradient.
    kept = [torch.full((batch, width), 1 / width)] * 2

    def forward() -> None:
        with torch.set_grad_enabled(grad):
            kept[1] = net(kept[0])

    return [net, kept], forward


def torch_net_without_grad(*sizes: int) -> tuple[list[Any], Callable[[], None]]:
    """Make the same without gradients."""
    return torch_net(*sizes, grad=False)


NETS: dict[str, Callable[..., tuple[list[Any], Callable[[], None]]]] = {
    "Blobs": blob_net,
    "torch, as it comes": torch_net,
    "torch, no_grad": torch_net_without_grad,
}


def measure(timer: Timer) -> Measured:
    """Measure each net in a separate process, and compute the size of the data alone."""
    if not can_measure_memory():
        return Measured(notes=["memory is measured on Linux only"])
    sizes = BRIEF if timer.brief else SIZES
    names, notes = list(NETS), []
    if find_spec("torch") is None:
        notes.append("torch is not installed: it is not compared")
        names = [name for name in names if not name.startswith("torch")]
    found = {name: in_own_process(measure_net, name, *sizes) for name in names}
    least = data_bytes(*sizes)
    rows = []
    for index, kind in enumerate(("at the peak", "resident afterwards")):
        section = f"a net that only runs forwards, {kind}"
        rivals = {"weights and activations": least, "the same, data and diff": 2 * least}
        rivals |= {name: found[name][index] for name in names if name != "Blobs"}
        ours = found["Blobs"][index]
        rows += [Row(section, "Blobs", ours, rival, value, "B") for rival, value in rivals.items()]
    return Measured(rows, notes)


def measure_net(name: str, *sizes: int) -> tuple[int, int]:
    """Return the growth of this process when a net is made and run a few times."""
    # A small net first, so that the memory of the libraries and their threads does not count.
    _run(name, 1, 64, 64)
    return growth(lambda: _run(name, *sizes))


def data_bytes(layers: int, width: int, batch: int) -> int:
    """Return the bytes of all weights and activations in float32."""
    return 4 * (layers * width * width + (layers + 1) * batch * width)


def _run(name: str, *sizes: int) -> object:
    kept, forward = NETS[name](*sizes)
    for _ in range(PASSES):
        forward()
    return kept
