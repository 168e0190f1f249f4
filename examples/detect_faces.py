"""Find faces with the first stage of MTCNN, a Caffe model, and draw boxes around them.

The layers are read from the model file and computed by PyTorch functions, which take the Blobs of
the weights directly. The network looks at windows of 12 x 12 pixels. The image is scaled to several
sizes, so that a face of any size fills a window. Since this is the first of three stages, it
proposes more boxes than there are faces::

    python examples/detect_faces.py det1.caffemodel photograph.jpg --output boxes.png

Needs PyTorch and Pillow.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch.nn import functional

import syncblob
from syncblob import Blob, Layer, ModelFile

# The model has windows of this many pixels, one at every other pixel.
WINDOW, STRIDE = 12, 2
# The names of its two results: the scores of two classes, and the corrections of the box.
SCORES, OFFSETS = "conv4-1", "conv4-2"
# The factor from one size of the image to the next.
SHRINKAGE = 0.709


class Box(NamedTuple):
    """A face, in pixels of the image."""

    left: float
    top: float
    right: float
    bottom: float
    score: float


# --- the network ---------------------------------------------------------------------------------


def run(model: ModelFile, image: Blob) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Run the network.

    Parameters
    ----------
    model
        The first stage of MTCNN.
    image
        An image of shape (1, 3, width, height), from `prepared`.

    Returns
    -------
    scores : ndarray
        The probability of a face for each window, of shape (columns, rows).
    offsets : ndarray
        The corrections of left, top, right and bottom, in window widths, of shape
        (4, columns, rows).

    Raises
    ------
    ValueError
        If it is another model.
    """
    if not {SCORES, OFFSETS} <= {*model}:
        raise ValueError(
            f"expected the first stage of MTCNN, which has layers {SCORES} and {OFFSETS}, got a "
            f"model with layers {', '.join(model)}"
        )
    first = next(layer for layer in model.layers if layer.type == "Convolution")
    values: dict[str, Blob | torch.Tensor] = {first.bottoms[0]: image}
    for layer in model.layers:
        # This skips training layers: those that read data and compute losses.
        if layer.type in _LAYERS and layer.bottoms[0] in values:
            result = _LAYERS[layer.type](values[layer.bottoms[0]], layer)
            values.update(dict.fromkeys(layer.tops, result))
    scores = torch.softmax(values[SCORES], dim=1)
    return scores[0, 1].cpu().numpy(), values[OFFSETS][0].cpu().numpy()


def _convolution(x: Blob | torch.Tensor, layer: Layer) -> torch.Tensor:
    options = layer.proto.convolution_param
    weight, bias = layer.blobs
    return functional.conv2d(x, weight, bias, stride=[*options.stride][:1] or 1)


def _prelu(x: Blob | torch.Tensor, layer: Layer) -> torch.Tensor:
    return functional.prelu(x, layer.blobs[0])


def _pooling(x: Blob | torch.Tensor, layer: Layer) -> torch.Tensor:
    options = layer.proto.pooling_param
    # Caffe rounds the size of the result up.
    return functional.max_pool2d(x, options.kernel_size, options.stride, ceil_mode=True)


_LAYERS = {
    "Convolution": _convolution,
    "PReLU": _prelu,
    "Pooling": _pooling,
    "Split": lambda x, _: x,
}


# --- the image -----------------------------------------------------------------------------------


def prepared(image: Image.Image, device: str | None = None) -> Blob:
    """Convert an image to the input format of the network.

    Red, green and blue are from -1 to 1. Columns come before rows, because the network was trained
    in MATLAB, whose arrays are in Fortran order.
    """
    pixels = np.asarray(image.convert("RGB"), dtype=np.float32)
    normalised = (pixels - 127.5) / 128
    return syncblob.asarray(normalised.transpose(2, 1, 0)[None].copy(), device=device)


def pyramid(image: Image.Image, smallest: int) -> Iterator[tuple[float, Image.Image]]:
    """Yield the image in sizes for which faces of at least `smallest` pixels fill a window."""
    scale = WINDOW / smallest
    while min(image.size) * scale >= WINDOW:
        size = (round(image.width * scale), round(image.height * scale))
        yield scale, image.resize(size, Image.Resampling.BILINEAR)
        scale *= SHRINKAGE


# --- boxes ---------------------------------------------------------------------------------------


def boxes_of(
    scores: NDArray[np.float32], offsets: NDArray[np.float32], scale: float, threshold: float
) -> list[Box]:
    """Convert the results for an image of one size to boxes in the original image."""
    columns, rows = np.nonzero(scores >= threshold)
    corner = STRIDE * np.stack([columns, rows], axis=1)
    windows = np.concatenate([corner, corner + WINDOW], axis=1)
    moved = (windows + WINDOW * offsets[:, columns, rows].T) / scale
    found = scores[columns, rows]
    return [
        Box(*map(float, sides), float(score)) for sides, score in zip(moved, found, strict=True)
    ]


def overlap(a: Box, b: Box) -> float:
    """Return the intersection of two boxes, relative to their union."""
    width = min(a.right, b.right) - max(a.left, b.left)
    height = min(a.bottom, b.bottom) - max(a.top, b.top)
    shared = max(width, 0.0) * max(height, 0.0)
    areas = sum((box.right - box.left) * (box.bottom - box.top) for box in (a, b))
    return shared / (areas - shared)


def suppressed(boxes: Sequence[Box], most: float) -> list[Box]:
    """Keep boxes, highest score first, that overlap those kept before by at most `most`."""
    kept: list[Box] = []
    for box in sorted(boxes, key=lambda box: box.score, reverse=True):
        if all(overlap(box, other) <= most for other in kept):
            kept.append(box)
    return kept


def detect(
    model: ModelFile,
    image: Image.Image,
    *,
    smallest: int = 40,
    threshold: float = 0.95,
    device: str | None = None,
) -> list[Box]:
    """Return boxes around possible faces, the highest score first.

    Parameters
    ----------
    model
        The first stage of MTCNN.
    image
        An image of any size and mode.
    smallest
        The width of the smallest face, in pixels.
    threshold
        The minimum score.
    device
        The device that the network runs on; None for the default device.
    """
    found: list[Box] = []
    with torch.inference_mode():
        for scale, resized in pyramid(image, smallest):
            scores, offsets = run(model, prepared(resized, device))
            found += suppressed(boxes_of(scores, offsets, scale, threshold), 0.5)
    return suppressed(found, 0.3)


def draw(image: Image.Image, boxes: Sequence[Box]) -> Image.Image:
    """Return a copy of an image with boxes and their scores."""
    result = image.convert("RGB")
    pen = ImageDraw.Draw(result)
    for box in boxes:
        pen.rectangle(box[:4], outline="red", width=2)
        pen.text((box.left + 3, box.top + 2), f"{box.score:.3f}", fill="red")
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, find faces, save the image with the boxes."""
    parser = argparse.ArgumentParser(description="Find faces with the first stage of MTCNN.")
    parser.add_argument("model", type=Path, help="its .caffemodel: det1 or 12net")
    parser.add_argument("image", type=Path, help="an image that Pillow can read")
    parser.add_argument("--output", type=Path, help="default: NAME-faces.png, beside the image")
    parser.add_argument("--smallest", type=int, default=40, help="width of a face in pixels")
    parser.add_argument("--threshold", type=float, default=0.95, help="lowest score")
    parser.add_argument("--device", default="cpu", help='default: "cpu"')
    given = parser.parse_args(arguments)
    if not 0 < given.threshold <= 1:
        parser.error(f"--threshold: scores are from 0 to 1, got {given.threshold:g}")
    if not given.image.is_file():
        parser.error(f"image: there is no file {given.image}")
    output = given.output or given.image.with_name(f"{given.image.stem}-faces.png")
    if Image.registered_extensions().get(output.suffix.lower()) not in Image.SAVE:
        parser.error(f"--output: expected the extension of an image, as .png, got {output}")
    if not output.parent.is_dir():
        parser.error(f"--output: there is no folder {output.parent}")
    if output.resolve() == given.image.resolve():
        parser.error(f"--output: {output} is the image itself, which would be lost")
    try:
        model, image = syncblob.open_model(given.model), Image.open(given.image)
        # A single window checks the model and the device.
        detect(model, image.resize((WINDOW, WINDOW)), smallest=WINDOW, device=given.device)
    except (OSError, ValueError, syncblob.errors.NoDeviceError) as error:
        parser.error(str(error))
    if not WINDOW <= given.smallest <= min(image.size):
        parser.error(
            f"--smallest: expected from {WINDOW} pixels, the width of the network's windows, to "
            f"{min(image.size)}, the size of the image, got {given.smallest}"
        )

    with model, image:
        boxes = detect(
            model, image, smallest=given.smallest, threshold=given.threshold, device=given.device
        )
        draw(image, boxes).save(output)
    for box in boxes:
        print(f"{box.score:.3f} at", *(round(side) for side in box[:4]))
    print(f"{len(boxes)} boxes drawn into {output}")


if __name__ == "__main__":
    main()
