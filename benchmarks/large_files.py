"""Files of 1 GiB and nets of 16,000 layers: rows, tensors, differences, and how work grows."""

import contextlib
import copy
import gc
import io
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calls import traced
from benchmarks.files import parsed
from benchmarks.rows import Goal, Measured, Row
from benchmarks.timing import Timer
from syncblob import Layer, ModelFile, SolverState, open_model, save_model, save_solver_state
from syncblob.caffe.commands import main
from syncblob.caffe.convert import convert, open_weights, save_weights

SHAPE, BRIEF_SHAPE, TENSORS = (16384, 4096), (1024, 64), 4
ROWS = slice(100, 110)
COUNTS, BRIEF_COUNTS = (1000, 4000, 16000), (10, 20, 40)
MEBI = 1 << 20


# --- the libraries of the formats ----------------------------------------------------------------


Reader = Callable[[slice], Any]
"""Reads a part of the first tensor of a file that is open."""


def _of_safetensors(path: Path) -> Reader:
    import safetensors  # a rival

    tensor = safetensors.safe_open(path, "numpy").get_slice("a0.weight")
    return lambda part: tensor[part]


def _of_hdf5(path: Path) -> Reader:
    import h5py  # a rival

    dataset = h5py.File(path)["a0.weight"]
    return lambda part: dataset[part]


def _of_torch(path: Path) -> Reader:
    import torch  # a rival

    tensor = torch.load(path, mmap=True, weights_only=True)["a0.weight"]
    return lambda part: tensor[part].clone()


def _of_npz(path: Path) -> Reader:
    return lambda part: np.load(path)["a0.weight"][part]


def _of_caffemodel(path: Path) -> Reader:
    return lambda part: parsed(path)[0].reshape(-1)[part]


def _of_ours(path: Path) -> Reader:
    blob = next(iter(open_weights(path).tensors.values()))
    return lambda part: blob[part].cpu_data()


FORMATS: dict[str, tuple[str, Callable[[Path], Reader]]] = {
    "caffemodel": ("protobuf", _of_caffemodel),
    "safetensors": ("safetensors", _of_safetensors),
    "npz": ("numpy.load", _of_npz),
    "h5": ("h5py", _of_hdf5),
    "pt": ("torch.load, mapped", _of_torch),
}


def tensor(path: Path, part: slice) -> np.ndarray:
    """Open a file, and read a part of its first tensor."""
    with open_weights(path) as weights:
        return next(iter(weights.tensors.values()))[part].cpu_data()


def measure(timer: Timer) -> Measured:
    """Make files in a temporary directory, one or two of a format at a time, and measure."""
    shape = BRIEF_SHAPE if timer.brief else SHAPE
    rows: dict[str, list[Row]] = {}
    notes = []
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        for extension, (library, opener) in FORMATS.items():
            paths = [folder / f"{side}.{extension}" for side in "ab"]
            try:
                for path, factor in zip(paths, (1.0, 1.001), strict=True):
                    _write(path, shape, factor)
            except ModuleNotFoundError as error:
                notes.append(f"no .{extension}: {error}")
                continue
            for row in _of_format(timer, paths, library, opener):
                rows.setdefault(row.section, []).append(row)
            for path in paths:
                path.unlink()
        found = [row for each in rows.values() for row in each]
        found += _growth(folder, BRIEF_COUNTS if timer.brief else COUNTS)
    return Measured(found, notes)


def _write(path: Path, shape: tuple[int, int], factor: float) -> None:
    """Write a file of a format, whose values are a multiple of the same ones."""
    values = np.random.default_rng(0).standard_normal(shape, np.float32) * np.float32(factor)
    layers = [Layer(f"a{number}", "Scale", blobs=[values]) for number in range(TENSORS)]
    source = path.with_suffix(".caffemodel")
    save_model(ModelFile("", layers), source)
    if path != source:
        convert(source, path)
        source.unlink()


def _of_format(
    timer: Timer, paths: list[Path], library: str, opener: Callable[[Path], Reader]
) -> Iterator[Row]:
    path = paths[0]
    name, whole = path.suffix, slice(None)
    size = path.stat().st_size
    title = f"a file of {size / 2**30:.1f} GiB"
    for part, section in (
        (ROWS, f"ten rows of a tensor in {title}"),
        (whole, f"a tensor in {title}"),
    ):
        ours, theirs = partial(tensor, path, part), _whole(opener, path)
        if part is ROWS:  # other rows each time, of files that are open
            count = (BRIEF_SHAPE if timer.brief else SHAPE)[0]
            ours, theirs = (_rows(open_file(path), count) for open_file in (_of_ours, opener))
        seconds = 0.0025 if part is ROWS else 0
        times = timer.medians({"ours": ours, "theirs": theirs}, rounds=5, seconds=seconds)
        # PyTorch maps the file, and copies into memory that was in use before. A mapping of a file
        # that another program shortens ends the process, so rows are read by their offset, into new
        # pages of the tensor. The system alone takes four times as long as PyTorch for that.
        goal = Goal(3) if part is ROWS and name != ".pt" else None
        yield Row(section, name, times["ours"], library, times["theirs"], goal=goal)
        if part is ROWS:
            limit = Goal(16 * MEBI, "value")
            yield Row(f"memory for {section}", name, _resident(path), unit="B", goal=limit)
        else:
            kept, peak = traced(ours)
            limit = Goal(1.2, "value")
            yield Row(f"memory for {section}", name, peak / kept, unit="times", goal=limit)
    difference, reading = partial(diff, *paths), partial(_read_both, paths, opener)
    times = timer.medians({"ours": difference, "theirs": reading}, rounds=3, seconds=0, of=min)
    yield Row(
        f"diff of two files like {title}",
        name,
        times["ours"],
        f"reading both by {library}",
        times["theirs"],
        goal=Goal(2),
    )
    peak, limit = traced(difference)[1], Goal(64 * MEBI + size / TENSORS, "value")
    yield Row(f"memory for diff of two files like {title}", name, peak, unit="B", goal=limit)


def _resident(path: Path) -> int:
    """Return the memory that ten rows take, in a new process: pages never used take none."""
    code = (
        "import resource, sys, pathlib; from benchmarks.large_files import ROWS, tensor\n"
        "small, path = map(pathlib.Path, sys.argv[1:])\n"
        "def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "tensor(small, slice(0, 1)); before = most(); tensor(path, ROWS); print(most() - before)"
    )
    small = path.with_name(f"small{path.suffix}")
    _write(small, (4, 4), 1.0)  # imports its library
    call = [sys.executable, "-c", code, str(small), str(path)]
    done = subprocess.run(call, check=True, capture_output=True, text=True)  # noqa: S603  # our own
    small.unlink()
    return int(done.stdout)


def diff(*paths: Path) -> None:
    """Compare two files, as the command does."""
    _run("diff", *paths)


def _run(*arguments: object) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        main([str(argument) for argument in arguments])


def _rows(read: Reader, count: int) -> Callable[[], Any]:
    """Return a function that reads ten rows of `count`, each time others."""
    starts = itertools.cycle(range(0, count - 10, 10))
    return lambda: read(slice(start := next(starts), start + 10))


def _whole(opener: Callable[[Path], Reader], path: Path) -> Callable[[], Any]:
    """Return a function that opens a file and reads a tensor."""
    return lambda: opener(path)(slice(None))


def _read_both(paths: list[Path], opener: Callable[[Path], Reader]) -> None:
    """Read one tensor of each file, as often as it has tensors."""
    for path in paths:
        for _ in range(1 if path.suffix == ".caffemodel" else TENSORS):  # protobuf reads all
            _whole(opener, path)()


# --- growth --------------------------------------------------------------------------------------


def _growth(folder: Path, counts: tuple[int, ...]) -> Iterator[Row]:
    """Yield the exponents of the growth of commands and edits with the number of layers."""
    seconds: dict[str, list[float]] = {}
    for count in counts:
        for name, call in _work(folder, count).items():
            gc.collect()
            # The collector passes over all objects when their number has grown by a quarter. Beside
            # those of the whole process, small counts would get by without a pass.
            gc.freeze()
            start = time.process_time()
            call()
            seconds.setdefault(name, []).append(time.process_time() - start)
            gc.unfreeze()
    section = f"exponent of the growth from {counts[0]:,} to {counts[-1]:,} layers"
    for name, times in seconds.items():
        exponent = np.polyfit(np.log(counts), np.log(np.maximum(times, 1e-6)), 1)[0]
        yield Row(section, name, float(exponent), unit="power", goal=Goal(1.2, "value"))


def _work(folder: Path, count: int) -> Mapping[str, Callable[[], object]]:
    ones = np.ones(4, np.float32)
    layers = [Layer(f"a{number}", "Scale", ["x"], ["x"], [ones]) for number in range(count)]
    path = folder / "net.caffemodel"
    save_model(ModelFile("net", layers), path)
    opened, edited = open_model(path), ModelFile("net", layers)
    state = SolverState(1, "net", 0, [ones] * count)

    def add() -> None:
        model = ModelFile("net", layers[:1])
        for layer in layers[1:]:
            model.add(layer, before="a0")

    def edit() -> None:
        for number in range(0, count - 2, 3):
            edited.rename(f"a{number}", f"b{number}")
            edited[f"a{number + 1}"] = layers[0]
            del edited[f"a{number + 2}"]

    def save_edited(name: str) -> None:
        with open_weights(folder / name) as weights:
            next(iter(weights.tensors.values()))[...] = 2
            save_weights(weights, folder / name)

    def save_state(name: str) -> None:
        save_solver_state(state, folder / name)
        _run("diff", folder / name, folder / name)

    names = [f"top{number}" for number in range(count)]
    data = Layer("data", "Input", [], ["data"])
    data.proto.input_param.shape.add().dim.extend([2, 3])
    tops = [data, Layer("split", "Split", ["data"], names), Layer("c", "Concat", names, ["out"])]
    chain = [data, *(Layer(f"r{number}", "ReLU", ["data"], ["data"]) for number in range(count))]
    work: dict[str, Callable[[], object]] = {
        "open_model": partial(open_model, path),
        "save_model": partial(save_model, ModelFile("net", layers), folder / "x.caffemodel"),
        "add": add,
        "rename, replace, del": edit,
        "copy.deepcopy": partial(copy.deepcopy, opened),
        "copy_trained_layers_from": partial(opened.copy_trained_layers_from, path),
        "infer_shapes": ModelFile("", chain).infer_shapes,
        "infer_shapes, tops of one layer": ModelFile("", tops).infer_shapes,
        "inspect": partial(_run, "inspect", path),
        "inspect --stats": partial(_run, "inspect", path, "--stats"),
        "inspect --prototxt": partial(_run, "inspect", path, "--prototxt"),
        "diff": partial(diff, path, path),
        "diff, a state": partial(save_state, "x.solverstate"),
    }
    for extension in ("safetensors", "npz", "h5", "caffemodel.h5", "pt"):
        name = f"y.{extension}"
        with contextlib.suppress(ModuleNotFoundError):
            convert(path, folder / f"try.{extension}", layers="a0")
            work[f"convert to .{extension}"] = partial(convert, path, folder / name)
            work[f"save_weights, .{extension}"] = partial(save_edited, name)
    return work
