"""The first table in docs/consumers.md, measured.

``python tests/support/consumer_table.py [MODULE ...]`` measures the calls of the named packages, or
of all installed ones, and writes their rows. The other rows stay as they are.
"""

from __future__ import annotations

import ast
import importlib.util
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import other_processes
from consumer_document import Row, Table, row_of
from made_blobs import address, values

import syncblob
from syncblob import Blob, Head
from syncblob.devices import Side

TABLE = Table(columns=6)
SIDES = {Side.HOST: "host", Side.ACCELERATOR: "device"}

# The name of the Blob in the journal.
_NAME = "taken"

# --- the calls -----------------------------------------------------------------------------------


class Taken(NamedTuple):
    """The result of a consumer for a Blob.

    `held`: an object that must live until everything is measured.
    `value`: the value to compare; a function if getting it has side effects.
    `address`: the address of the memory that it keeps; None if it keeps none.
    `again`: reads the value again, for consumers that do not give addresses.
    """

    held: Any
    value: Any
    address: int | None = None
    again: Callable[[], Any] | None = None


def _nothing(value):
    return Taken(None, value)


def _array(array):
    return Taken(array, array, address(array))


def _tensor(tensor):
    return Taken(tensor, tensor, tensor.data_ptr())


def _image(image):
    return Taken(image, np.asarray(image), again=lambda: np.asarray(image))


def _unpickled(text):
    return Taken(text, lambda: pickle.loads(text))


def _unpickled_beside(parts):
    text, (buffer,) = parts
    raw = buffer.raw()
    return Taken(raw, lambda: pickle.loads(text, buffers=[raw]), address(np.asarray(raw)))


class Call(NamedTuple):
    """A call that takes a Blob.

    `module`: the required package.
    `text`: the call, as the table shows it.
    `taken`: makes a `Taken` of its result.
    `code`: the statements that make it, if they are others; the last one's value is the result.
    `expected`: the value for an ndarray with the contents of the Blob.
    `shape`, `dtype`: those of the Blob.
    `made`: makes the Blob, given shape, dtype and device.
    """

    module: str
    text: str
    taken: Callable[[Any], Taken]
    code: str = ""
    expected: Callable[..., Any] = lambda contents: contents
    shape: tuple[int, ...] = (2, 3)
    dtype: str = "float32"
    made: Callable[..., Blob] = Blob

    def function(self, blob: Blob, folder: Path) -> Taken:
        """Make the call, with a folder for files."""
        names = {"np": np, "pickle": pickle, "blob": blob, "folder": folder}
        names["other_processes"] = other_processes
        *before, last = ast.parse(self.code or f"import {self.module}; {self.text}").body
        exec(compile(ast.Module(before, []), self.text, "exec"), names)  # noqa: S102  # the table is ours
        return self.taken(eval(compile(ast.Expression(last.value), self.text, "eval"), names))  # noqa: S307  # as above


def _filtered(name, *args):
    def expected(image):
        filters, transform = map(importlib.import_module, ("skimage.filters", "skimage.transform"))
        return getattr(filters, name, getattr(transform, name, None))(image, *args)

    return expected


IMAGE = {"shape": (8, 8)}
ROW = {"shape": (6,)}
AXES = "from matplotlib.figure import Figure; axes = Figure().subplots(); "
SKIMAGE = "import skimage.filters, skimage.transform; "
JOBS = "import joblib; calls = [joblib.delayed(other_processes.total)(blob)] * 2; "
LOADER = """
from torch.utils.data import DataLoader
from syncblob.integrations.torch_data import collate
settings = {"collate_fn": collate, "multiprocessing_context": "spawn"}
[*DataLoader([blob], num_workers=1, **settings)][0]"""
INTO = """
import h5py
file = h5py.File(folder / "file.h5", "w")
numbers = np.arange(100, 100 + blob.size, dtype=blob.dtype).reshape(blob.shape)
dataset = file.create_dataset("x", data=numbers)
array = np.asarray(blob.cpu)
dataset.read_direct(array)
file.close()
array, blob"""
CALLS = [
    Call(
        *("torch", "default_collate([blob, blob])", _tensor),
        "import syncblob.integrations.torch_data; from torch.utils.data import default_collate; "
        "default_collate([blob, blob])",
        expected=lambda x: [x, x],
    ),
    Call(*("torch", "DataLoader([blob], num_workers=1)", _tensor, LOADER), expected=lambda x: [x]),
    Call(
        *("xarray", 'xr.DataArray(blob).mean("dim_0")', lambda array: Taken(array, lambda: array)),
        'import xarray as xr; array = xr.DataArray(blob).mean("dim_0"); '
        "assert type(array.data) is type(blob); array",
        expected=lambda x: x.mean(0),
    ),
    Call(
        *("PIL", "PIL.Image.fromarray(np.asarray(blob))", _image),
        "import PIL.Image; PIL.Image.fromarray(np.asarray(blob))",
        dtype="uint8",
        **IMAGE,
    ),
    Call(
        *("matplotlib", "axes.imshow(blob)", lambda image: _array(image.get_array())),
        f"{AXES}axes.imshow(blob)",
    ),
    Call(
        *("matplotlib", "axes.plot(blob)"),
        lambda lines: _array(lines[0].get_ydata(orig=False))._replace(held=lines[0]),
        f"{AXES}axes.plot(blob)",
        **ROW,
    ),
    Call(
        *("matplotlib", "axes.hist(blob)", lambda drawn: _nothing(drawn[0])),
        f"{AXES}axes.hist(blob)",
        lambda x: np.histogram(x)[0],
        **ROW,
    ),
    *(
        Call("skimage", f"skimage.{call}", _nothing, f"{SKIMAGE}skimage.{call}", expected, **IMAGE)
        for call, expected in (
            ("filters.gaussian(blob)", _filtered("gaussian")),
            ("transform.resize(blob, (4, 4))", _filtered("resize", (4, 4))),
        )
    ),
    Call(
        *("h5py", "dataset.read_direct(np.asarray(blob.cpu))"),
        lambda both: Taken(both[0], lambda: both[1], address(both[0])),
        INTO,
        expected=lambda x: x + 100,
    ),
    Call(
        *("safetensors", 'safetensors.torch.save({"x": torch.from_dlpack(blob.const)})', _nothing),
        "import torch; from safetensors.torch import load, save; "
        'load(save({"x": torch.from_dlpack(blob.const)}))["x"]',
    ),
    Call(
        *("joblib", 'joblib.dump(blob, "file")', _nothing),
        'import joblib; joblib.dump(blob, folder / "file"); joblib.load(folder / "file")',
    ),
    *(
        Call("joblib", call, _nothing, JOBS + call, expected=lambda x: [x.sum()] * 2)
        for call in ('joblib.Parallel(2, "threading")(calls)', 'joblib.Parallel(2, "loky")(calls)')
    ),
    Call("pickle", "pickle.dumps(blob)", _unpickled),
    Call(
        *("pickle", "pickle.dumps(blob, 5, buffer_callback=…)", _unpickled_beside),
        "kept = []; (pickle.dumps(blob, 5, buffer_callback=kept.append), kept)",
    ),
    Call(
        *("pickle", "pickle.dumps(Blob.in_shared_memory(…))"),
        lambda other: Taken(other, lambda: other, again=other.tolist),
        "pickle.loads(pickle.dumps(blob))",
        made=Blob.in_shared_memory,
    ),
]


def missing(call: Call) -> str | None:
    """Return a package that the call needs and that is not installed; None if there is none."""
    modules = [call.module, *(["torch"] if "torch." in call.text else [])]
    return next((module for module in modules if importlib.util.find_spec(module) is None), None)


# --- measuring -----------------------------------------------------------------------------------


def measure(call: Call) -> Row:
    """Make a call, check its result, and describe it."""
    with tempfile.TemporaryDirectory() as folder:
        return row_of(call, *_measured(call, Path(folder)))


def _measured(call: Call, folder: Path) -> tuple[str, str, str]:
    """Make a call twice; return whether it copies, the path and the transfers.

    With both sides up to date, the head distinguishes a read from an access that may write, and all
    addresses are known. With the newest contents only on the device, transfers are counted.
    """
    blob = _blob(call)
    blob.assume_unaliased()
    _ = blob.cpu_data()
    assert blob.head is Head.SYNCED
    buffers = {side: (address(blob.memory.buffer(side)), blob.nbytes) for side in Side}
    taken = call.function(blob, folder)
    head = blob.head
    side = _lies_in(taken.address, buffers)
    _check(call, taken)
    if taken.again is not None:
        side = _seen_by(taken, blob)
    kept = taken.address is not None or taken.again is not None
    del taken

    blob = _blob(call)
    with syncblob.record_transfers() as log:
        taken = call.function(blob, folder)
    # A private copy of elements does not change the head, whichever side it is made on.
    came_down = any(t.name == _NAME and t.direction == "download" for t in log)
    read = Side.HOST if came_down else Side.ACCELERATOR
    _check(call, taken)
    zero_copy = ("no" if side is None else "yes") if kept else "keeps none"
    if head is not Head.SYNCED:
        path = f"mutable, {SIDES[Side.HOST if head is Head.HEAD_AT_CPU else Side.ACCELERATOR]}"
    else:
        path = f"{'copy' if zero_copy == 'no' else 'const'}, {SIDES[read]}"
    return zero_copy, path, _counted(log, blob)


def _blob(call: Call) -> Blob:
    blob = call.made(call.shape, call.dtype, device="simulated:0")
    blob.overwrite_gpu_data()[...] = values(call.dtype, call.shape)
    blob.name = _NAME
    return blob


def _check(call: Call, taken: Taken) -> None:
    value = taken.value() if callable(taken.value) else taken.value
    expected = call.expected(values(call.dtype, call.shape))
    np.testing.assert_allclose(np.asarray(value), np.asarray(expected), rtol=1e-6)


def _lies_in(start: int | None, buffers) -> Side | None:
    """Return the side whose buffer contains an address."""
    if start is None:
        return None
    inside = [side for side, (first, size) in buffers.items() if 0 <= start - first < size]
    return inside[0] if inside else None


def _seen_by(taken: Taken, blob: Blob) -> Side | None:
    """Return the side whose writes the consumer sees."""
    before = np.array(taken.again())
    for side in Side:
        buffer = blob.memory.buffer(side)
        was = buffer.copy()
        buffer[:] = 0
        changed = not np.array_equal(before, taken.again())
        buffer[:] = was
        if changed:
            return side
    return None


def _counted(log, blob: Blob) -> str:
    """Count uploads and downloads, with those of single elements of the Blob apart."""
    single = [t for t in log if t.name == _NAME and t.nbytes == blob.itemsize]
    found = [t.direction for t in log if t not in single]
    parts = [
        f"{found.count(what)} {what}{'s' * (found.count(what) > 1)}"
        for what in ("upload", "download")
        if what in found
    ]
    if len(single) == blob.size:
        parts.append("1 download of each element")
    elif single:
        parts.append(f"{len(single)} of one element")
    return ", ".join(parts) or "none"


if __name__ == "__main__":
    TABLE.measure_anew(CALLS, missing, measure)
