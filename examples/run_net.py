"""Run a Caffe net on an image and print its highest results.

The image is prepared as by ``caffe.io.Transformer``: scaled to the input of the net, channels blue,
green, red, from 0 to 255, less the mean::

    python examples/run_net.py deploy.prototxt net.caffemodel cat.jpg --mean mean.binaryproto

Needs PyTorch and Pillow.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from caffe_nets import Net
from numpy.typing import NDArray
from PIL import Image

import syncblob
from syncblob import Blob, ModelFile


def prepared(image: Image.Image, shape: Sequence[int], mean: NDArray[np.float32]) -> Blob:
    """Return an image as the input of a net.

    Parameters
    ----------
    image
        An image of any size and mode.
    shape
        The shape of the input: any number, 1 or 3 channels, height, width.
    mean
        One value for all channels, or one for each: blue, green, red.
    """
    _, channels, height, width = shape
    mode = "RGB" if channels == 3 else "L"  # noqa: PLR2004  # the colours
    pixels = np.asarray(image.convert(mode).resize((width, height)), dtype=np.float32)
    planes = pixels.reshape(height, width, channels).transpose(2, 0, 1)[::-1]
    blob = Blob((1, channels, height, width))
    blob[...] = planes - np.reshape(mean, (-1, 1, 1))
    return blob


def run(
    definition: Path, weights: Path, image: Image.Image, mean: Path | None = None
) -> tuple[dict[str, torch.Tensor], str]:
    """Return the tops of a net with one input, by name, and the name of the last one.

    Raises
    ------
    OSError, ValueError
        If a file cannot be read, does not fit the net, or the net does not have one input.
    """
    model = ModelFile.from_net(syncblob.read_prototxt(definition), phase="TEST")
    # This allocates the blobs, so that a file that lacks one of them is noticed.
    model.fill()
    if missing := model.copy_trained_layers_from(weights).missing:
        raise ValueError(f"{weights} lacks the weights of {', '.join(missing)}")
    net = Net(model)
    if len(net.inputs) != 1:
        raise ValueError(f"expected a net with one input, got {', '.join(net.inputs) or 'none'}")
    (name,) = net.inputs
    means = np.zeros((1, 1)) if mean is None else np.asarray(syncblob.read_blob(mean))
    data = prepared(image, model.infer_shapes().blobs[name], means.mean(axis=(-2, -1)).ravel())
    with torch.inference_mode():
        return net.forward(**{name: data}), net.nodes[-1].tops[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, run the net, print the highest results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("net", type=Path, help="its definition, a .prototxt with an input's shape")
    parser.add_argument("weights", type=Path, help="its .caffemodel")
    parser.add_argument("image", type=Path, help="an image that Pillow can read")
    parser.add_argument("--mean", type=Path, help="the mean to subtract, a .binaryproto")
    parser.add_argument("--top", type=int, default=5, help="how many results to print")
    parser.add_argument("--device", default="cpu", help='default: "cpu"')
    given = parser.parse_args(arguments)
    try:
        with syncblob.use_device(given.device), Image.open(given.image) as image:
            values, last = run(given.net, given.weights, image, given.mean)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    scores = values[last].flatten()
    for score, index in zip(*scores.topk(min(given.top, len(scores))), strict=True):
        print(f"{last}[{index}] {score:.4f}")


if __name__ == "__main__":
    main()
