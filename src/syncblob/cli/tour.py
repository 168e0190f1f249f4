"""``syncblob tour``: use a weight Blob with several libraries, and show every transfer."""

from __future__ import annotations

import shlex
import tempfile
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import syncblob
from syncblob._formatting import human_bytes
from syncblob.cli._console import Output, print_json, printable
from syncblob.cli._contents import open_contents
from syncblob.cli._lenet import write_lenet
from syncblob.cli._tour_output import as_json, show_result, show_step, totals_of
from syncblob.cli._tour_walk import walk
from syncblob.devices import Device
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from syncblob.blob import Blob
    from syncblob.caffe import ModelFile

__all__ = ["DESCRIPTION", "EPILOG", "HINT", "NAME", "SUMMARY", "add_arguments", "run"]

NAME = "tour"
SUMMARY = "see what is shared and what moves"
DESCRIPTION = """\
Open a model file as Blobs and use one weight Blob with NumPy, an accelerator,
CuPy and PyTorch. Each step shows the line of code, the place of its arrays, the
transfers between host and accelerator and their reason, and the head after it.
All of this is measured, and compared with the rules: exit status 1 means that
something differs.

Without a CUDA device, a simulated one in ordinary memory is used.
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
  totals             transfers, moved_bytes, copied_bytes (of requested private
                     copies), hand_overs, copying_each_time_bytes (if each
                     hand-over were a copy)
  problems, ok       the differences from the rules; whether there are none
"""

HINT = "one MODEL at most"

# Larger Blobs take longer to copy, and show nothing more.
_LARGEST = 64 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
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
        If the file cannot be read, or contains no weights.
    """
    output = None if arguments.json else Output()
    stage = _set_stage()
    with syncblob.use_device(stage.accelerator), _opened(arguments.model) as model:
        place, layer, index, blob = _choose(model)
        if output is not None:
            _introduce(output, stage, model, arguments.model, f"model{place}.blobs[{index}]", blob)
        steps, chapter = [], ""
        for step in walk(blob, *stage.libraries, torch_on_accelerator=stage.shares):
            if output is not None:
                show_step(output, step, begins_chapter=step.chapter != chapter)
            chapter = step.chapter
            steps.append(step)
    totals = totals_of(steps, blob)
    problems = [f"step {step.number}: {problem}" for step in steps for problem in step.problems]
    if output is not None:
        show_result(output, totals, problems)
        return 1 if problems else 0
    print_json(
        {
            "accelerator": str(stage.accelerator),
            "simulated": stage.no_cuda is not None,
            "versions": stage.versions,
            "skipped": [{"library": name, "why": why} for name, why in stage.skipped.items()],
            "model": None if arguments.model is None else model.path,
            "blob": {
                "layer": layer,
                "index": index,
                "shape": list(blob.shape),
                "dtype": blob.dtype.name,
                "bytes": blob.nbytes,
            },
            "steps": [as_json(step) for step in steps],
            "totals": totals,
            "problems": problems,
            "ok": not problems,
        }
    )
    return 1 if problems else 0


class _Stage(NamedTuple):
    """The accelerator and the libraries of a tour.

    `no_cuda` is the reason for a simulated accelerator, or None; `libraries` are CuPy and torch,
    each None if missing; `shares` tells whether torch can use the accelerator.
    """

    accelerator: Device
    no_cuda: str | None
    libraries: tuple[Any, Any]
    shares: bool
    versions: dict[str, str]
    skipped: dict[str, str]


def _introduce(  # noqa: PLR0913, PLR0917  # the facts to show
    output: Output, stage: _Stage, model: ModelFile, path: str | None, expression: str, blob: Blob
) -> None:
    """Show the model, the accelerator, the libraries and the Blob."""
    name = "a LeNet made for this tour" if path is None else printable(path)
    device = str(stage.accelerator)
    if stage.no_cuda is not None:
        device = f"{device}, made of ordinary memory: {printable(stage.no_cuda)}"
    facts = [
        ("model", f"{name}, {human_bytes(Path(model.path).stat().st_size)}"),
        ("accelerator", device),
        ("libraries", ", ".join(f"{name} {version}" for name, version in stage.versions.items())),
    ]
    facts += [("skipped", printable(f"{name}: {why}")) for name, why in stage.skipped.items()]
    output.facts(facts)
    blobs = [one for layer in model.layers for one in layer.blobs]
    read = sum(one.head is not syncblob.Head.UNINITIALIZED for one in blobs)
    output.line()
    output.line(
        f"The head is where the newest contents are. {read} of {len(blobs)} Blobs have been read."
    )
    output.line(f"Operations run on {stage.accelerator}, wherever the newest contents are.")
    output.line()
    facts_of_blob = f"# {blob.shape}, {human_bytes(blob.nbytes)}, {blob.head.name}"
    output.line(("blob = ", "bold"), (printable(expression), "bold"), f"  {facts_of_blob}")


@contextmanager
def _opened(path: str | None) -> Iterator[ModelFile]:
    """Open the user's model, or write one to a temporary directory."""
    if path is not None:
        try:
            model = syncblob.open_model(path)
        except ModelFileError as error:
            found = open_contents(path)  # other commands may support the file
            name = shlex.quote(path)
            advice = f"convert {name} net.caffemodel makes one of it"
            raise ModelFileError(
                f"expected a .caffemodel, got {found.description}; syncblob "
                f"{advice if found.is_net else f'inspect {name} shows it'}",
                path=path,
            ) from error
        with model:
            yield model
        return
    with tempfile.TemporaryDirectory(prefix="syncblob-tour-") as directory:
        made = Path(directory, "lenet.caffemodel")
        write_lenet(made)
        with syncblob.open_model(made) as model:
            yield model


def _choose(model: ModelFile) -> tuple[str, str, int, Blob]:
    """Choose the largest Blob up to a limit, or else the smallest.

    Returns
    -------
    str, str, int, Blob
        The expression for its layer in the model, the layer's name, the number of the Blob, and the
        Blob.
    """
    found = [
        (f"[{layer.name!r}]" if model[layer.name] is layer else f".layers[{place}]", layer, index)
        for place, layer in enumerate(model.layers)
        for index, blob in enumerate(layer.blobs)
        if blob.size
    ]
    if not found:
        raise ModelFileError("no layer has weights, so there is nothing to show", path=model.path)
    sizes = [layer.blobs[index].nbytes for _, layer, index in found]
    size = max((size for size in sizes if size <= _LARGEST), default=min(sizes))
    place, layer, index = found[sizes.index(size)]
    return place, layer.name, index, layer.blobs[index]


def _set_stage() -> _Stage:
    """Find the accelerator and the libraries."""
    no_cuda = _why_no_cuda()
    accelerator = Device("simulated:0" if no_cuda else "cuda:0")
    cupy = torch = None
    versions, skipped = {"NumPy": np.__version__}, {}
    if no_cuda is None:
        cupy = import_module("cupy")
        versions["CuPy"] = cupy.__version__
    else:
        skipped["CuPy"] = "needs a CUDA device and pip install 'syncblob[cuda13]'"
    try:
        torch = import_module("torch")
        versions["PyTorch"] = torch.__version__
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        reason = "is not installed" if missing else f"cannot be imported ({error})"
        skipped["PyTorch"] = f"{reason}; pip install 'syncblob[torch]'"
    shares = torch is not None and bool(no_cuda or torch.cuda.is_available())
    if torch is not None and not shares:
        reason = f"{torch.__version__} was built without CUDA, or cannot use this device"
        skipped[f"PyTorch on {accelerator}"] = reason
    return _Stage(accelerator, no_cuda, (cupy, torch), shares, versions, skipped)


def _why_no_cuda() -> str | None:
    """Return why cuda:0 cannot be used; None if it can. Tests it, because it may fail in use.

    The test includes arithmetic, which CuPy compiles on first use.
    """
    try:
        blob = syncblob.Blob(1, device="cuda:0")
        trial = blob.mutable_gpu_data()
        trial += 1
        blob.cpu_data()
    except Exception as error:  # noqa: BLE001  # any exception selects the simulated device
        text = str(error).removeprefix("cuda:0 cannot be used: ")
        return text.partition(". Select another device")[0] or type(error).__name__
    return None
