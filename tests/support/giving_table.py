"""The second table in docs/consumers.md, what to pass to which consumer, measured.

``python tests/support/giving_table.py [MODULE ...]`` makes the calls of the named packages, or of
all installed ones, and writes their rows. The other rows stay as they are.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
from consumer_document import Row, Table, row_of
from giving_calls import CALLS, WAYS, Giving

from syncblob import Blob
from syncblob.devices import Side

TABLE = Table(columns=5)
# The calls of its rows. The others take a Blob itself.
ROWS = [call for call in CALLS if call.give != "b"]


def missing(call: Giving) -> str | None:
    """Return the package of a call if it cannot be imported."""
    try:
        importlib.import_module(call.module)
    except (ImportError, RuntimeError):
        # torchvision raises RuntimeError: its wheels on PyPI need PyTorch's for CUDA.
        return call.module
    return None


def measure(call: Giving) -> Row:
    """Make a call with a Blob and with the recommended argument, and describe the results."""
    itself = _outcome(call, "b")
    assert _outcome(call, call.give) == "works", call.text
    return row_of(call, itself, f"`{call.give}`")


def _outcome(call: Giving, give: str) -> str:
    """Compare the result for a Blob that is newest on a device with that for an ndarray."""
    array = call.array.copy()
    blob = Blob(array.shape, array.dtype, device="simulated:0")
    blob.overwrite_gpu_data()[...] = array
    with warnings.catch_warnings(action="ignore"):
        expected = call.function(array)
        result, raised = _made(call, WAYS[give](blob))
    on_device, buffer = blob.gpu_data(), blob.memory.buffer(Side.HOST)
    if raised:
        changed = buffer is not None and buffer.tobytes() != on_device.tobytes()
        return f"{'writes const memory, and ' * changed}raises `{raised}`"
    if not np.array_equal(on_device, array):
        # The write went to the host's buffer, unknown to the device, or where none was expected.
        if np.array_equal(array, call.array) or (
            buffer is not None and buffer.tobytes() == array.tobytes()
        ):
            return "**silently** writes const memory"
        unchanged = np.array_equal(on_device, call.array)
        return f"**silently** {'writes nothing' if unchanged else 'writes wrong contents'}"
    if not (result is None is expected or _equal(result, expected)):
        return "**silently** gives a wrong result"
    return "works"


def _made(call: Giving, argument: Any) -> tuple[Any, str]:
    """Make a call; return the result, and the name of the error if there was one."""
    try:
        return call.function(argument), ""
    except Exception as error:  # noqa: BLE001  # libraries raise various errors
        kind = type(error)
        module = kind.__module__.partition(".")[0].lstrip("_")
        return None, kind.__name__ if module == "builtins" else f"{module}.{kind.__name__}"


def _equal(result, expected) -> bool:
    actual, wanted = np.asarray(result), np.asarray(expected)
    same = (actual.shape, actual.dtype) == (wanted.shape, wanted.dtype)
    return same and bool((actual == wanted).all())


if __name__ == "__main__":
    TABLE.measure_anew(ROWS, missing, measure)
