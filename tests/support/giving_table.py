"""The table in docs/consumers.md, what to pass to which consumer: measured, read and written.

``python tests/support/giving_table.py [MODULE ...]`` makes the calls of the named packages, or of
all installed ones, and writes their rows. The other rows stay as they are.
"""

import argparse
import importlib
import platform
import warnings
from pathlib import Path

import numpy as np
from call_texts import texts
from giving_calls import CALLS, WAYS

from syncblob import Blob
from syncblob.devices import Side

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "consumers.md"
NAMES = dict(
    each.split("=")
    for each in texts(
        """
        PIL=Pillow; astropy=Astropy; catboost=CatBoost; cv2=OpenCV; gymnasium=Gymnasium;
        imageio=ImageIO; jax=JAX; lightgbm=LightGBM; matplotlib=Matplotlib; networkx=NetworkX;
        numba=Numba; numpy=NumPy; onnxruntime=ONNX Runtime; pint=Pint; polars=Polars;
        pyvista=PyVista; random=Python; rasterio=Rasterio; rerun=Rerun; scipy=SciPy;
        skimage=scikit-image; sklearn=scikit-learn; sympy=SymPy; tables=PyTables; torch=PyTorch;
        vtkmodules=VTK; warp=Warp
        """
    )
)

# The calls of the rows. The others take a Blob itself.
IN_TABLE = [call for call in CALLS if call.give != "b"]

# The cells of a row: the consumer, its version, the call, the outcome for a Blob, what to pass.
Row = tuple[str, ...]


def key_of(call):
    """Return the cells that identify the row of a call."""
    return NAMES.get(call.module, call.module), f"`{call.text}`"


def version_of(call):
    """Return the version of a call's package; Python's for standard modules."""
    module = importlib.import_module("vtk" if call.module == "vtkmodules" else call.module)
    return getattr(module, "__version__", platform.python_version())


def committed():
    """Read the rows of the document, by the cells that identify them."""
    rows = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in _parts()[1]]
    return {(row[0], row[2]): row for row in rows}


def write():
    """Measure the calls of the packages on the command line, or all; keep the other rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    wanted, known = parser.parse_args().modules, committed()
    rows = []
    for call in IN_TABLE:
        row = known.get(key_of(call))
        if not missing(call) and (not wanted or call.module in wanted):
            consumer, text = key_of(call)
            row = consumer, version_of(call), text, *measure(call)
        rows += [f"| {' | '.join(row)} |"] if row else []
    above, _, below = _parts()
    DOCUMENT.write_text("\n".join([*above, *rows, *below]), "utf-8")


def _parts():
    """Split the document into the lines before the rows, the rows, and the lines after."""
    lines = DOCUMENT.read_text("utf-8").split("\n")
    start = lines.index("| --- | --- | --- | --- | --- |") + 1
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    return lines[:start], lines[start:end], lines[end:]


def missing(call):
    """Return the package of a call if it cannot be imported."""
    try:
        importlib.import_module(call.module)
    except (ImportError, RuntimeError):
        # torchvision raises RuntimeError: its wheels on PyPI need PyTorch's for CUDA.
        return call.module
    return None


def measure(call):
    """Make a call with a Blob and with the recommended argument; return the cells about them."""
    itself = _outcome(call, "b")
    if call.give != "b":
        assert _outcome(call, call.give) == "works", call.text
    return itself, f"`{call.give}`"


def _outcome(call, give):
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


def _made(call, argument):
    """Make a call; return the result, and the name of the error if there was one."""
    try:
        return call.function(argument), ""
    except Exception as error:  # noqa: BLE001  # libraries raise various errors
        kind = type(error)
        module = kind.__module__.partition(".")[0].lstrip("_")
        return None, kind.__name__ if module == "builtins" else f"{module}.{kind.__name__}"


def _equal(result, expected):
    actual, wanted = np.asarray(result), np.asarray(expected)
    same = (actual.shape, actual.dtype) == (wanted.shape, wanted.dtype)
    return same and bool((actual == wanted).all())


if __name__ == "__main__":
    write()
