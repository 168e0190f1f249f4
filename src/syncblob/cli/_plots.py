"""Pictures of weights as PNG files: the filters of convolutions, and histograms."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob.cli._histogram import BINS, histogram_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from syncblob.blob import Blob
    from syncblob.cli._contents import LayerLike

__all__ = [
    "Picture",
    "pictures",
    "save",
    "tile_filters",
]

_CONVOLUTION_AXES = 4
_COLOURS = 3
# More tiles would be too small.
_MOST_TILES = 64
_GAP = 1
# File systems limit a name to 255 bytes.
_LONGEST_NAME = 100
# The axes of Matplotlib overflow near the largest doubles.
_LARGEST = 1e306
_DPI = 100
_INCHES = 8.0


class Picture(NamedTuple):
    """A PNG file to write.

    Attributes
    ----------
    file
        The name of the file.
    title
        The title above the picture.
    blob
        The Blob to show.
    filters
        Whether to show filters; else a histogram.
    """

    file: str
    title: str
    blob: Blob
    filters: bool


def pictures(layers: Iterable[LayerLike]) -> Iterator[Picture]:
    """Yield the pictures of the blobs of layers.

    The names of the files begin with a number, which makes them unique and sorts them in the order
    of the layers.
    """
    blobs = [
        (layer, index, blob)
        for layer in layers
        for index, blob in enumerate(layer.blobs)
        if blob.size
    ]
    digits = len(str(len(blobs)))
    for place, (layer, index, blob) in enumerate(blobs, start=1):
        name = re.sub(r"[^A-Za-z0-9._-]", "_", layer.name)[:_LONGEST_NAME]
        stem = f"{place:0{digits}}_{name}_{index}" if name else f"{place:0{digits}}"
        title = f"{layer.name}, blob {index}, {blob.shape}" if name else str(blob.shape)
        # Blobs of old files always have four axes.
        if index == 0 and blob.ndim == _CONVOLUTION_AXES and layer.type != "InnerProduct":
            yield Picture(f"{stem}_filters.png", title, blob, filters=True)
        yield Picture(f"{stem}_histogram.png", title, blob, filters=False)


def save(picture: Picture, directory: Path) -> None:
    """Draw a picture and write its file. Reads the Blob on the host.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # an optional dependency
    from matplotlib.figure import Figure

    size = (_INCHES, _INCHES if picture.filters else _INCHES / 2)
    figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    # Otherwise a dollar sign would start a formula.
    axes.set_title(picture.title, parse_math=False, fontsize="medium")
    (_draw_filters if picture.filters else _draw_histogram)(axes, picture.blob)
    figure.savefig(directory / picture.file)


def _draw_histogram(axes: Axes, blob: Blob) -> None:
    histogram = histogram_of(blob)
    axes.set_ylabel("values")
    if histogram is None:
        axes.text(0.5, 0.5, "no finite values", ha="center", transform=axes.transAxes)
        return
    start, stop = histogram.start, histogram.stop
    if max(-start, stop) > _LARGEST:
        text = f"values from {start:.3g} to {stop:.3g}"
        axes.text(0.5, 0.5, text, ha="center", transform=axes.transAxes)
        return
    if start == stop:
        axes.bar([start], [blob.size])
        return
    edges = start + (stop / 2 - start / 2) * np.linspace(0, 2, BINS + 1)
    axes.stairs(histogram.counts, edges, fill=True)


def _draw_filters(axes: Axes, blob: Blob) -> None:
    tiles, legend = tile_filters(np.asarray(blob))
    limit = float(np.nanmax(np.abs(tiles), initial=0)) or 1.0
    shown: dict[str, Any] = {"interpolation": "nearest"}
    if tiles.ndim == _COLOURS:
        shown["X"] = np.nan_to_num(0.5 + tiles / limit / 2, nan=1.0)
    else:
        shown |= {"X": tiles / limit, "cmap": "gray", "vmin": -1, "vmax": 1}
    axes.imshow(**shown)
    axes.set_frame_on(False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(legend)


def tile_filters(weights: NDArray[np.generic]) -> tuple[NDArray[np.float64], str]:
    """Tile the kernels of a convolution, with gaps of NaN between them.

    The weights have the shape (outputs, inputs, height, width).

    Returns
    -------
    array, str
        The picture and a legend. Filters over three inputs are colour tiles in a square, with shape
        (rows, columns, 3); the inputs are blue, green and red, as in Caffe's images. Other filters
        have one tile for each output (from top to bottom) and input (from left to right), with
        shape (rows, columns).
    """
    outputs, inputs, height, width = weights.shape
    if inputs == _COLOURS:
        shown = min(outputs, _MOST_TILES**2)
        columns = math.ceil(math.sqrt(shown))
        rows = math.ceil(shown / columns)
        tiles = np.full((rows * columns, height, width, _COLOURS), np.nan)
        tiles[:shown] = weights[:shown, ::-1].transpose(0, 2, 3, 1)
        tiles = tiles.reshape(rows, columns, height, width, _COLOURS)
        legend = f"{shown} of {outputs} filters, their inputs as blue, green and red"
    else:
        rows, columns = min(outputs, _MOST_TILES), min(inputs, _MOST_TILES)
        tiles = weights[:rows, :columns, :, :, None].astype(np.float64)
        legend = (
            f"inputs, {columns} of {inputs}, from left to right; "
            f"outputs, {rows} of {outputs}, from top to bottom"
        )
    # Infinite values are left blank.
    tiles = np.where(np.isfinite(tiles), tiles, np.nan)
    gaps = ((0, 0), (0, 0), (0, _GAP), (0, _GAP), (0, 0))
    padded = np.pad(tiles, gaps, constant_values=np.nan).transpose(0, 2, 1, 3, 4)
    picture = padded.reshape(rows * (height + _GAP), columns * (width + _GAP), -1)
    picture = picture[:-_GAP, :-_GAP]
    return (picture if inputs == _COLOURS else picture[..., 0]), legend
