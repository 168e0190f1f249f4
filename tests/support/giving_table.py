"""The second table in docs/consumers.md, what to give whom: measured, compared, and written.

``python tests/support/giving_table.py`` makes the calls of all that is installed, and writes their
rows. Those of the others stay as they are.
"""

from __future__ import annotations

import importlib.util
import warnings
from typing import TYPE_CHECKING, NamedTuple

import consumer_table
import numpy as np
from giving_calls import CALLS, WAYS

from syncblob import Blob
from syncblob.devices import Side

if TYPE_CHECKING:
    from giving_calls import Giving

RULE = "| --- | --- | --- | --- | --- |"
NAMES = {
    **consumer_table.NAMES,
    "astropy": "Astropy",
    "catboost": "CatBoost",
    "cv2": "OpenCV",
    "lightgbm": "LightGBM",
    "numba": "Numba",
    "onnxruntime": "ONNX Runtime",
    "polars": "Polars",
    "pyvista": "PyVista",
    "random": "Python",
    "scipy": "SciPy",
    "sklearn": "scikit-learn",
    "sympy": "SymPy",
    "vtkmodules": "VTK",
}


class Row(NamedTuple):
    """A line of the table."""

    consumer: str
    version: str
    call: str
    itself: str
    give: str

    def __str__(self):
        return f"| {' | '.join(self)} |"

    @property
    def key(self):
        """What tells rows apart."""
        return self.consumer, self.call


def key_of(call: Giving):
    """Return the key of a call's row."""
    return NAMES.get(call.module, call.module), f"`{call.text}`"


def is_installed(call: Giving) -> bool:
    """Tell whether the package of a call is there."""
    return importlib.util.find_spec(call.module) is not None


def measure(call: Giving) -> Row:
    """Make a call with a Blob and with what is to be given for it, and describe what comes."""
    itself = _outcome(call, "b")
    if call.give != "b":
        assert _outcome(call, call.give) == "works", call.text
    consumer, text = key_of(call)
    version = consumer_table.version("vtk" if call.module == "vtkmodules" else call.module)
    return Row(consumer, version, text, itself, f"`{call.give}`")


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
            kind = type(error).__name__
            known = type(error).__module__ == "builtins"
            return f"raises `{kind if known else f'{call.module}.{kind}'}`"
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


def committed() -> dict[tuple[str, str], Row]:
    """Read the rows of the document."""
    _, lines, _ = consumer_table.parts(RULE)
    rows = [Row(*(cell.strip() for cell in line.split("|")[1:-1])) for line in lines]
    return {row.key: row for row in rows}


def main() -> None:
    """Measure and write."""
    known = committed()
    rows = [
        measure(call) if is_installed(call) else known.get(key_of(call), "MISSING")
        for call in CALLS
    ]
    consumer_table.write(rows, RULE)


if __name__ == "__main__":
    main()
