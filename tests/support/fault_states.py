"""The scenarios of the fault campaign, and the state that is compared before and after."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from syncblob import Blob, ModelFile
from syncblob.devices import Side


class Scenario(NamedTuple):
    """An operation that can fail at several points.

    `make`: makes the state, by name: Blobs, arrays, models. It gets an empty folder.
    `act`: Acts on the state. After the failures, its result is compared.
    `tolerant`: whether a library in between may recover from the failure.
    """

    make: Callable[[Path], dict[str, Any]]
    act: Callable[[dict[str, Any]], Any]
    tolerant: bool = False


def newest(memory):
    """Return the newest contents of each byte according to the map, without an access.

    Bytes that both sides hold must be equal. Bytes that no side holds come from the source.
    """
    contents = np.zeros(memory.nbytes, np.uint8)
    for run in memory.spans.runs(0, memory.nbytes):
        part = slice(run.start, run.stop)
        found = {held_by(memory, side, run) for side in Side if run.holders & 1 << side}
        assert len(found) < 2, f"both sides hold bytes {run.start} to {run.stop}, and they differ"
        if found:
            contents[part] = np.frombuffer(found.pop(), np.uint8)
        elif memory.source is not None:
            fill_from_source(memory, contents[part], run.start)
    return contents.tobytes()


def held_by(memory, side, run):
    """Return the bytes of a run that a side holds, perhaps in several windows."""
    parts = [
        window.array[max(run.start, window.start) - window.start : run.stop - window.start]
        for window in memory.windows(side)
        if window.start < run.stop and run.start < window.stop
    ]
    found = b"".join(part.tobytes() for part in parts)
    assert len(found) == run.nbytes, f"no buffer of {side} has bytes {run.start} to {run.stop}"
    return found


def fill_from_source(memory, contents, start):
    """Read a part of a source without changing its state."""
    source = memory.source
    kept = source._contents
    source.fill(contents, start)
    source._contents = kept


def _memories(blob):
    diff = blob.existing_diff()
    return [blob.memory] if diff is None else [blob.memory, diff]


def _of_blob(blob):
    data, *diff = _memories(blob)
    # A gradient of zeros is equivalent to none.
    written = [newest(memory) for memory in diff if any(newest(memory))]
    return (blob.shape, blob.dtype.name, newest(data), written)


def _of_folder(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def contents(value):
    """Describe the contents of an object in a comparable form. Changes nothing.

    For a NumPy array, this includes its write permission, because borrows may lose it.
    """
    if isinstance(value, dict):
        return {name: contents(item) for name, item in value.items()}
    if isinstance(value, Blob):
        return _of_blob(value)
    if isinstance(value, ModelFile):
        layers = [(layer.name, [_of_blob(blob) for blob in layer.blobs]) for layer in value.layers]
        return (value.name, layers)
    if isinstance(value, np.ndarray):
        return (value.tolist(), value.flags.writeable)
    return _of_folder(value) if isinstance(value, Path) else plain(value)


def heads(state):
    """Return the holders of each byte of the Blobs of a state, if any byte is held."""
    return {
        name: [memory.spans for memory in _memories(value) if memory.head]
        for name, value in state.items()
        if isinstance(value, Blob)
    }


def plain(result):
    """Describe a result by its values."""
    if isinstance(result, (list, tuple)):
        return [plain(item) for item in result]
    if isinstance(result, ModelFile):
        return [(layer.name, plain(list(layer.blobs))) for layer in result.layers]
    if hasattr(result, "tolist"):
        with_grad = getattr(result, "grad_fn", None) is not None
        values = result.detach() if with_grad else result
        return (tuple(result.shape), str(result.dtype), repr(values.tolist()))
    return result
