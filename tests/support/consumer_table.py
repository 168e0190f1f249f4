"""The first table in docs/consumers.md, measured.

``python tests/support/consumer_table.py [MODULE ...]`` measures the calls of the named packages, or
of all installed ones, and writes their rows. The other rows stay as they are.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import numpy as np
from consumer_call import Call, Taken
from consumer_calls import CALLS
from consumer_document import Row, Table, row_of
from made_blobs import address, values

import syncblob
from syncblob import Blob, Head
from syncblob.devices import Side

TABLE = Table(columns=6)
SIDES = {Side.HOST: "host", Side.ACCELERATOR: "device"}

# The name of the Blob in the journal.
_NAME = "taken"


def missing(call: Call) -> str | None:
    """Return a package that the call needs and that is not installed; None if there is none."""
    modules = [call.module, *(["torch"] if "torch." in call.text else [])]
    found = [module for module in modules if importlib.util.find_spec(module) is None]
    return found[0] if found else None


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
