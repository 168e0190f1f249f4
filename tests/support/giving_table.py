"""The second table in docs/consumers.md, what to give whom, measured.

``python tests/support/giving_table.py [MODULE ...]`` makes the calls of the packages, of all that
are installed where none is named, and writes their rows. Those of the others stay as they are.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING

import numpy as np
from consumer_document import Row, Table, row_of
from giving_calls import CALLS, WAYS

from syncblob import Blob
from syncblob.devices import Side

if TYPE_CHECKING:
    from giving_calls import Giving

TABLE = Table(columns=5)


def missing(call: Giving) -> str | None:
    """Return the package of a call if it cannot be imported."""
    try:
        importlib.import_module(call.module)
    except (ImportError, RuntimeError):
        # RuntimeError of torchvision, whose wheels on PyPI want PyTorch's for CUDA.
        return call.module
    return None


def measure(call: Giving) -> Row:
    """Make a call with a Blob and with what is to be given for it, and describe what comes."""
    itself = _outcome(call, "b")
    if call.give != "b":
        assert _outcome(call, call.give) == "works", call.text
    return row_of(call, itself, f"`{call.give}`")


def _outcome(call: Giving, give: str) -> str:
    """Compare what comes of a Blob, newest on a device, with what comes of an ndarray."""
    array = call.array.copy()
    blob = Blob(array.shape, array.dtype, device="simulated:0")
    blob.overwrite_gpu_data()[...] = array
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = call.function(array)
        try:
            result = call.function(WAYS[give](blob))
        except Exception as error:  # noqa: BLE001  # each library has its own
            kind = type(error)
            module = kind.__module__.partition(".")[0].lstrip("_")
            return (
                f"raises `{kind.__name__ if module == 'builtins' else f'{module}.{kind.__name__}'}`"
            )
    on_device = blob.gpu_data()
    if not np.array_equal(on_device, array):
        # Nobody has told the device of it.
        buffer = blob.memory.buffer(Side.HOST)
        if buffer is not None and buffer.tobytes() == array.tobytes():
            return "**silently** writes const memory"
        unchanged = np.array_equal(on_device, call.array)
        return f"**silently** {'writes nothing' if unchanged else 'leaves other contents'}"
    if not (result is None is expected or _equal(result, expected)):
        return "**silently** gives another result"
    return "works"


def _equal(result, expected) -> bool:
    actual, wanted = np.asarray(result), np.asarray(expected)
    return actual.shape == wanted.shape and bool((actual == wanted).all())


if __name__ == "__main__":
    TABLE.measure_anew(CALLS, missing, measure)
