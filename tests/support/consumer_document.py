"""The tables in docs/consumers.md: reading, comparing with measurements, and writing."""

from __future__ import annotations

import argparse
import importlib
import platform
from pathlib import Path

from call_texts import texts

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "consumers.md"
NAMES = dict(
    each.split("=")
    for each in texts(
        """
        PIL=Pillow; astropy=Astropy; catboost=CatBoost; cv2=OpenCV; gymnasium=Gymnasium;
        imageio=ImageIO; jax=JAX; lightgbm=LightGBM; matplotlib=Matplotlib; networkx=NetworkX;
        numba=Numba; numpy=NumPy; onnxruntime=ONNX Runtime; pickle=Python; pint=Pint;
        polars=Polars; pyarrow=PyArrow; pyvista=PyVista; random=Python; rasterio=Rasterio;
        rerun=Rerun; scipy=SciPy; skimage=scikit-image; sklearn=scikit-learn; sympy=SymPy;
        tables=PyTables; tensorflow=TensorFlow; torch=PyTorch; vtkmodules=VTK; warp=Warp;
        zarr=Zarr
        """
    )
)


class Row(tuple[str, ...]):
    """The cells of a row: the consumer, its version, the call, and the measurements."""

    __slots__ = ()

    def __str__(self):
        return f"| {' | '.join(self)} |"

    @property
    def key(self):
        """The cells that identify the row."""
        return self[0], self[2]

    @property
    def measured(self):
        """The cells that are the same for all versions."""
        return self[3:]


def key_of(call):
    """Return the key of a call's row."""
    return NAMES.get(call.module, call.module), f"`{call.text}`"


def row_of(call, *measured: str) -> Row:
    """Return the row of a call with the version of its package; Python's for standard modules."""
    consumer, text = key_of(call)
    module = importlib.import_module("vtk" if call.module == "vtkmodules" else call.module)
    return Row(
        (consumer, getattr(module, "__version__", platform.python_version()), text, *measured)
    )


class Table:
    """One of the tables, identified by the number of its columns."""

    def __init__(self, columns):
        self._rule = f"|{' --- |' * columns}"

    def committed(self) -> dict[tuple[str, str], Row]:
        """Read the rows of the document."""
        _, lines, _ = self._parts()
        rows = [Row(cell.strip() for cell in line.split("|")[1:-1]) for line in lines]
        return {row.key: row for row in rows}

    def write(self, rows) -> None:
        """Replace the rows of the document."""
        above, _, below = self._parts()
        DOCUMENT.write_text("\n".join([*above, *map(str, rows), *below]), "utf-8")

    def measure_anew(self, calls, missing, measure) -> None:
        """Measure the calls of the packages on the command line, or all; keep the other rows.

        `calls`: one for each row.
        `missing`: returns a package that a call needs and that is not installed, or None.
        `measure`: makes the row of a call.
        """
        parser = argparse.ArgumentParser()
        parser.add_argument("modules", nargs="*", metavar="MODULE")
        wanted = parser.parse_args().modules
        known = self.committed()
        here = [missing(x) is None and (not wanted or x.module in wanted) for x in calls]
        rows = [
            measure(call) if is_here else known.get(key_of(call))
            for call, is_here in zip(calls, here, strict=True)
        ]
        self.write([row for row in rows if row is not None])

    def _parts(self) -> tuple[list[str], list[str], list[str]]:
        """Split the document into the lines before the rows, the rows, and the lines after."""
        lines = DOCUMENT.read_text("utf-8").split("\n")
        start = lines.index(self._rule) + 1
        end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
        return lines[:start], lines[start:end], lines[end:]
