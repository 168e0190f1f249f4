"""The cost of PyTorch's functions with Blobs and with tensors.

The arrays are small, so that the cost is that of the call. The extra cost of a call with Blobs is
given in calls of ``np.add(a, a)``, measured in the same run.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.calls import as_blob, rows_in_adds
from benchmarks.rows import Goal, Measured, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.timing import Timer

    # Functions of torch, torch.nn.functional and named operands: `m` is 8x8, `v` has 8 numbers, `i`
    # has 8 indices, `x` is an image with two channels, `w` a kernel for it.
    Call = Callable[[Any, Any, Mapping[str, Any]], object]

__all__ = ["FUNCTIONS", "measure"]

SHAPE = (8, 8)
# The extra cost above the call with tensors, in calls of np.add(a, a).
MEDIAN, WORST = Goal(14.0, "value"), Goal(25.0, "value")

FUNCTIONS: dict[str, Call] = {
    "torch.relu(m)": lambda t, _, o: t.relu(o["m"]),
    "torch.sigmoid(m)": lambda t, _, o: t.sigmoid(o["m"]),
    "torch.clamp(m, 0, 0.5)": lambda t, _, o: t.clamp(o["m"], 0, 0.5),
    "torch.add(m, m)": lambda t, _, o: t.add(o["m"], o["m"]),
    "torch.mul(m, 2.0)": lambda t, _, o: t.mul(o["m"], 2.0),
    "torch.div(m, m)": lambda t, _, o: t.div(o["m"], o["m"]),
    "torch.matmul(m, m)": lambda t, _, o: t.matmul(o["m"], o["m"]),
    "torch.cat([m, m])": lambda t, _, o: t.cat([o["m"], o["m"]]),
    "torch.stack([m, m])": lambda t, _, o: t.stack([o["m"], o["m"]]),
    "torch.where(m, m, m)": lambda t, _, o: t.where(o["b"], o["m"], o["m"]),
    "torch.topk(m, 3)": lambda t, _, o: t.topk(o["m"], 3),
    "torch.sort(m)": lambda t, _, o: t.sort(o["m"]),
    "torch.argmax(m, 1)": lambda t, _, o: t.argmax(o["m"], 1),
    "torch.sum(m)": lambda t, _, o: t.sum(o["m"]),
    "torch.mean(m, 0)": lambda t, _, o: t.mean(o["m"], 0),
    "torch.reshape(m, (4, 16))": lambda t, _, o: t.reshape(o["m"], (4, 16)),
    "torch.transpose(m, 0, 1)": lambda t, _, o: t.transpose(o["m"], 0, 1),
    "torch.flatten(m)": lambda t, _, o: t.flatten(o["m"]),
    "F.linear(m, m, v)": lambda _, f, o: f.linear(o["m"], o["m"], o["v"]),
    "F.conv2d(x, w)": lambda _, f, o: f.conv2d(o["x"], o["w"]),
    "F.max_pool2d(x, 2)": lambda _, f, o: f.max_pool2d(o["x"], 2),
    "F.avg_pool2d(x, 2)": lambda _, f, o: f.avg_pool2d(o["x"], 2),
    "F.softmax(m, 1)": lambda _, f, o: f.softmax(o["m"], 1),
    "F.log_softmax(m, 1)": lambda _, f, o: f.log_softmax(o["m"], 1),
    "F.gelu(m)": lambda _, f, o: f.gelu(o["m"]),
    "F.layer_norm(m, (8,), v, v)": lambda _, f, o: f.layer_norm(o["m"], (8,), o["v"], o["v"]),
    "F.group_norm(x, 2)": lambda _, f, o: f.group_norm(o["x"], 2),
    "F.batch_norm(m, v, v)": lambda _, f, o: f.batch_norm(o["m"], o["v"], o["v"]),
    "F.embedding(i, m)": lambda _, f, o: f.embedding(o["i"], o["m"]),
    "F.mse_loss(m, m)": lambda _, f, o: f.mse_loss(o["m"], o["m"]),
    "F.cross_entropy(m, i)": lambda _, f, o: f.cross_entropy(o["m"], o["i"]),
}


def measure(timer: Timer) -> Measured:
    """Time PyTorch's functions, its constructors, and a step of LeNet, on one thread."""
    try:
        import torch  # a rival that may be missing
    except ImportError:
        return Measured(notes=["torch is not installed: its functions are not measured"])
    threads = torch.get_num_threads()
    # With several threads, their synchronisation would be measured.
    torch.set_num_threads(1)
    try:
        rows = [*function_rows(timer, torch), *constructor_rows(timer, torch)]
        rows.append(lenet_row(timer, torch))
    finally:
        torch.set_num_threads(threads)
    return Measured(rows)


# --- functions ------------------------------------------------------------------------------------


def operands() -> dict[str, np.ndarray]:
    """Return the operands of the functions, the same in each run."""
    random = np.random.default_rng(0)
    matrix = random.random(SHAPE, np.float32)
    return {
        "m": matrix,
        "b": matrix > np.float32(0.5),
        "v": random.random(SHAPE[0], np.float32),
        "i": random.permutation(SHAPE[0]),
        "x": random.random((1, 2, 8, 8), np.float32),
        "w": random.random((2, 2, 3, 3), np.float32),
    }


def function_rows(timer: Timer, torch: Any) -> Iterator[Row]:
    """Time PyTorch's functions with Blobs and with tensors."""
    functional = torch.nn.functional
    arrays = operands()
    blobs = {name: as_blob(array) for name, array in arrays.items()}
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    pairs = (
        (name, partial(call, torch, functional, blobs), partial(call, torch, functional, tensors))
        for name, call in FUNCTIONS.items()
    )
    return rows_in_adds(timer, "PyTorch", "tensors", pairs, [MEDIAN, WORST])


def constructor_rows(timer: Timer, torch: Any) -> Iterator[Row]:
    """Time calls that make a tensor over a Blob and over an ndarray."""
    array = operands()["m"]
    blob = as_blob(array)
    for name, limit in (("from_dlpack", 1.7), ("as_tensor", 4.0)):
        function = getattr(torch, name)
        times = timer.medians(
            {
                "ours": lambda function=function: function(blob),
                "rival": lambda function=function: function(array),
            }
        )
        rival = f"torch.{name}(ndarray)"
        yield Row(
            "a tensor over a Blob",
            f"torch.{name}(blob)",
            times["ours"],
            rival,
            times["rival"],
            goal=Goal(limit),
        )


# --- LeNet ----------------------------------------------------------------------------------------

LAYERS = {
    "conv1": (20, 1, 5, 5),
    "conv2": (50, 20, 5, 5),
    "ip1": (500, 800),
    "ip2": (10, 500),
}


def lenet_row(timer: Timer, torch: Any) -> Row:
    """Time forward and backward of ``examples/train_lenet.py`` for one image."""
    functional = torch.nn.functional
    random = np.random.default_rng(0)
    arrays = {
        name: [random.normal(0, 0.05, size).astype(np.float32) for size in (shape, shape[:1])]
        for name, shape in LAYERS.items()
    }
    image = random.random((1, 1, 28, 28), np.float32)
    blobs = {name: [as_blob(array) for array in layer] for name, layer in arrays.items()}
    parameters = {
        name: [torch.nn.Parameter(torch.tensor(array)) for array in layer]
        for name, layer in arrays.items()
    }

    def step(learned: Callable[[str], Any], images: Any, labels: Any) -> None:
        top = functional.conv2d(images, *learned("conv1"))
        top = functional.conv2d(functional.max_pool2d(top, 2), *learned("conv2"))
        top = functional.max_pool2d(top, 2).flatten(1)
        top = functional.relu(functional.linear(top, *learned("ip1")))
        scores = functional.linear(top, *learned("ip2"))
        functional.cross_entropy(scores, labels).backward()

    def leaves(name: str) -> list[Any]:
        return [blob.as_parameter() for blob in blobs[name]]

    operands_of_ours = as_blob(image), as_blob(np.array([3]))
    operands_of_torch = torch.tensor(image), torch.tensor([3])
    times = timer.medians(
        {
            "ours": lambda: step(leaves, *operands_of_ours),
            "rival": lambda: step(parameters.__getitem__, *operands_of_torch),
        },
        # A step uses megabytes, so others who use the caches slow it down, for a second or so.
        rounds=600,
    )
    return Row(
        "LeNet, one image",
        "forward and backward, Blobs",
        times["ours"],
        "forward and backward, tensors",
        times["rival"],
        goal=Goal(1.3),
    )
