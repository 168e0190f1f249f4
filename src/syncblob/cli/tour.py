"""``syncblob tour``: a weight Blob on its way through the libraries, with every transfer shown."""

from __future__ import annotations

import shlex
import tempfile
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import syncblob
from syncblob.cli import _tour_output
from syncblob.cli._console import Output, print_json
from syncblob.cli._contents import open_contents
from syncblob.cli._lenet import write_lenet
from syncblob.cli._report import Report, Skipped, Stage, Star
from syncblob.cli._steps import Library
from syncblob.cli._walk import walk
from syncblob.devices import Device
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from syncblob.caffe import ModelFile

__all__ = ["DESCRIPTION", "EPILOG", "HINT", "NAME", "SUMMARY", "add_arguments", "run"]

NAME = "tour"
SUMMARY = "see what is shared and what moves"
DESCRIPTION = """\
Open a model file as Blobs and take one weight Blob through NumPy, an
accelerator, CuPy and PyTorch. Each step shows the line of code, where its
arrays lie, what moved between host and accelerator and why, and the head that
it left. All of this is measured, and compared with the rules: exit status 1
means that something was not as it should be.

Without a CUDA device a simulated one, made of ordinary memory, takes its place.
"""
EPILOG = """\
--json prints one object:
  accelerator        "cuda:0" or "simulated:0"; simulated, a boolean
  versions, skipped  the libraries that took part, and those that did not
  model              the path; null for the LeNet
  blob               layer, index, shape, dtype, bytes
  steps              in order, each with step, chapter, title, code, arrays
                     (name, address, bytes, memory), moved (direction, bytes,
                     seconds, access), why, head_before, head, diff_head,
                     aliased (sides with writable aliases), refused, problems
  totals             transfers, moved_bytes, copied_bytes (private copies that
                     were asked for), hand_overs, copying_each_time_bytes (had
                     each hand-over been a copy)
  problems, ok       what was not as it should be; whether all was
"""

HINT = "one MODEL at most"

# Larger Blobs teach nothing more and take longer to copy.
_LARGEST = 64 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="a .caffemodel file; without one, a LeNet with random weights is made for the tour",
    )
    parser.add_argument("--json", action="store_true", help="print the steps as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command and return the exit status.

    Raises
    ------
    ModelFileError, OSError
        If the file cannot be read, or holds no weights.
    """
    output = None if arguments.json else Output()
    stage = _set_stage()
    with syncblob.use_device(stage.accelerator), _opened(arguments.model) as model:
        report = Report(model, stage, _choose(model), own=arguments.model is not None)
        if output is not None:
            _tour_output.show_introduction(output, report)
        with syncblob.record_transfers() as log:
            for outcome in walk(report.star.blob, stage.libraries):
                if output is not None:
                    _tour_output.show_step(output, report, outcome)
                report.outcomes.append(outcome)
        report.check_totals(log)
    if output is None:
        print_json(report.as_json())
    else:
        _tour_output.show_result(output, report)
    return 1 if report.problems else 0


@contextmanager
def _opened(path: str | None) -> Iterator[ModelFile]:
    """Open the user's model, or one that is made and goes again with its directory."""
    if path is not None:
        with _open(path) as model:
            yield model
        return
    with tempfile.TemporaryDirectory(prefix="syncblob-tour-") as directory:
        made = Path(directory, "lenet.caffemodel")
        write_lenet(made)
        with syncblob.open_model(made) as model:
            yield model


def _open(path: str) -> ModelFile:
    try:
        return syncblob.open_model(path)
    except ModelFileError as error:
        # It may be a file that other commands know.
        found = open_contents(path)
        name = shlex.quote(path)
        advice = f"inspect {name} shows it"
        if found.is_net:
            advice = f"convert {name} net.caffemodel makes one of it"
        raise ModelFileError(
            f"expected a .caffemodel, got {found.description}; syncblob {advice}", path=path
        ) from error


def _choose(model: ModelFile) -> Star:
    """Choose the largest Blob of a handy size, or else the smallest."""
    stars = [
        Star(
            layer.name,
            index,
            f"model[{layer.name!r}].blobs[{index}]"
            if model[layer.name] is layer
            else f"model.layers[{place}].blobs[{index}]",
            blob,
        )
        for place, layer in enumerate(model.layers)
        for index, blob in enumerate(layer.blobs)
        if blob.size
    ]
    if not stars:
        raise ModelFileError("no layer has weights, so there is nothing to show", path=model.path)
    handy = [star for star in stars if star.blob.nbytes <= _LARGEST]
    if handy:
        return max(handy, key=lambda star: star.blob.nbytes)
    return min(stars, key=lambda star: star.blob.nbytes)


def _set_stage() -> Stage:
    """Find the accelerator and the libraries."""
    no_cuda = _why_no_cuda()
    accelerator = Device("simulated:0" if no_cuda else "cuda:0")
    libraries, skipped = {}, []
    versions = [("NumPy", np.__version__)]
    if no_cuda is None:
        libraries[Library.CUPY] = import_module("cupy")
        versions.append(("CuPy", libraries[Library.CUPY].__version__))
    else:
        skipped.append(Skipped("CuPy", "needs a CUDA device and pip install 'syncblob[cuda13]'"))
    try:
        torch = import_module("torch")
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        reason = "is not installed" if missing else f"cannot be imported ({error})"
        skipped.append(Skipped("PyTorch", f"{reason}; pip install 'syncblob[torch]'"))
    else:
        libraries[Library.TORCH] = torch
        versions.append(("PyTorch", torch.__version__))
        if no_cuda or torch.cuda.is_available():
            libraries[Library.TORCH_ON_ACCELERATOR] = torch
        else:
            reason = f"{torch.__version__} was built without CUDA, or cannot use this device"
            skipped.append(Skipped(f"PyTorch on {accelerator}", reason))
    return Stage(accelerator, no_cuda, libraries, tuple(versions), tuple(skipped))


def _why_no_cuda() -> str | None:
    """Say why cuda:0 cannot be used; None where it can. Tries it: a device that is there may fail.

    CuPy compiles its arithmetic when it is first used, so arithmetic is part of the trial.
    """
    try:
        blob = syncblob.Blob(1, device="cuda:0")
        trial = blob.mutable_gpu_data()
        trial += 1
        blob.cpu_data()
    except Exception as error:  # noqa: BLE001  # whatever it is, there is the simulated device
        text = str(error).removeprefix("cuda:0 cannot be used: ")
        return text.partition(". Select another device")[0] or type(error).__name__
    return None
