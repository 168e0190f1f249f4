"""``syncblob tour``: run a short script with a Caffe model, and show what it copies.

Each line of `SCRIPT` is printed and run. Below it are its value and the transfers that it made.
"""

from __future__ import annotations

import argparse
import math
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import syncblob
from syncblob.caffe import Layer, ModelFile, save_model
from syncblob.caffe.commands.console import print_facts, print_line, printable
from syncblob.formats import human_bytes, quantity

SUMMARY = "see what is shared and what moves"
DESCRIPTION = """\
Use a weight of a Caffe model with NumPy, an accelerator, CuPy and PyTorch. Each
line of a script is printed and run. Below it are its value and the transfers
between host and accelerator that it made.

Without a CUDA device, a simulated one in ordinary memory is used.
"""
EPILOG = ""

# A block that names a library is skipped without it. Each statement is one line.
SCRIPT = """\
# The values of a Blob are read from the file when they are needed.
import numpy as np, syncblob
model = syncblob.open_model(folder / "lenet.caffemodel")
weights = model["ip1"].blobs[0]
weights

# NumPy reads the Blob's own memory. Nothing is copied to the accelerator.
array = np.asarray(weights)
weights

# Operations run on the accelerator, which the values are copied to once.
weights *= 0.5
weights += 1
weights
float(np.max(weights))  # only a number is copied

# CuPy writes into the Blob's own memory on the accelerator.
import cupy
array = cupy.asarray(weights.gpu)
array -= 1
del array
float(np.max(weights))

# PyTorch shares the memory. While it may write, NumPy gets the newest values.
import torch
tensor = torch.from_dlpack(weights)
tensor *= 2
np.asarray(weights)[0, :3]
np.asarray(weights)[0, :3]
del tensor
np.asarray(weights)[0, :3]
np.asarray(weights)[0, :3]  # nothing has been written since

# PyTorch writes on the host, and the sum on the accelerator sees it.
tensor = torch.from_dlpack(weights.cpu)
tensor[0] = 0
float(np.sum(weights))
del tensor

# A step of training, data -= diff, as in Caffe. Then the model is saved.
weights.diff[...] = 0.1 * weights
weights.update()
syncblob.save_model(model, folder / "trained.caffemodel")
weights
model.close()
"""

# The learned layers of Caffe's example LeNet: name, type, input, and the shape of the weights. Each
# layer also has a bias for each output.
_LENET = (
    ("conv1", "Convolution", "data", (20, 1, 5, 5)),
    ("conv2", "Convolution", "conv1", (50, 20, 5, 5)),
    ("ip1", "InnerProduct", "conv2", (500, 800)),
    ("ip2", "InnerProduct", "ip1", (10, 500)),
)


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command, which has none."""


def run(_arguments: argparse.Namespace) -> int:
    device, no_cuda = _find_device()
    skipped = {name: why for name in ("cupy", "torch") if (why := _why_not(name, device))}
    print_facts(
        [
            ("accelerator", printable(f"{device}{no_cuda and f', because {no_cuda}'}")),
            ("model", "lenet.caffemodel, a LeNet with random weights"),
            *((f"no {name}", printable(why)) for name, why in skipped.items()),
        ]
    )
    with TemporaryDirectory(prefix="syncblob-tour-") as directory:
        names: dict[str, Any] = {"folder": Path(directory)}
        write_lenet(names["folder"] / "lenet.caffemodel")
        with syncblob.use_device(device), syncblob.record_transfers() as log:
            for block in SCRIPT.split("\n\n"):
                if not any(name in block for name in skipped):
                    print_line()
                    for line in block.splitlines():
                        _run_line(line, names, log)
    moved = f"{quantity(log.uploads, 'upload')} and {quantity(log.downloads, 'download')}"
    print_line(f"\n{moved}, {human_bytes(log.nbytes)}")
    return 0


def _run_line(line: str, names: dict[str, Any], log: syncblob.TransferLog) -> None:
    """Print a line of the script, run it as at the prompt, and print its transfers."""
    if line.startswith("#"):
        print_line(line)
        return
    print_line(f">>> {line}")
    before, display = len(log), sys.displayhook
    # Python's own displayhook would keep the value alive in builtins.
    sys.displayhook = lambda value: None if value is None else print_line(repr(value))
    try:
        exec(compile(line, "<tour>", "single"), names)  # noqa: S102  # the script is above
    finally:
        sys.displayhook = display
    for transfer in list(log)[before:]:
        size = human_bytes(transfer.nbytes)
        print_line(f"    {transfer.direction} of {size} for {transfer.reason}")


def _find_device() -> tuple[str, str]:
    """Return the device for the script, and why it is a simulated one."""
    try:
        trial = syncblob.Blob(1, device="cuda:0")
        trial += 1  # CuPy compiles this, which can fail
        trial.tolist()
    except Exception as error:  # noqa: BLE001  # any exception selects the simulated device
        text = str(error).removeprefix("cuda:0 cannot be used: ").partition(". Select another")[0]
        return "simulated:0", text or type(error).__name__
    return "cuda:0", ""


def _why_not(library: str, device: str) -> str:
    """Return why a library cannot use the device; an empty text if it can."""
    on_cuda = device == "cuda:0"
    if library == "cupy":  # CUDA devices need CuPy, so it is there
        return "" if on_cuda else "it needs a CUDA device"
    try:
        torch = import_module("torch")
    except ImportError as error:
        return f"{error}; pip install 'syncblob[torch]'"
    if on_cuda and not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} cannot use {device}"
    return ""


def write_lenet(path: Path) -> None:
    """Write a ``.caffemodel`` of 1.6 MiB, whose random weights are always the same."""
    random = np.random.default_rng(seed=0)
    layers = []
    for name, kind, bottom, shape in _LENET:
        # Like Caffe's "xavier" filler.
        limit = math.sqrt(3 / math.prod(shape[1:]))
        weights = random.uniform(-limit, limit, shape).astype(np.float32)
        layers.append(
            Layer(name, kind, [bottom], [name], [weights, np.zeros(shape[0], np.float32)])
        )
    save_model(ModelFile("LeNet", layers), path)
