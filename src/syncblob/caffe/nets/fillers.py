"""Caffe's fillers, which fill the blobs of a net before training."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from syncblob.caffe._pb.caffe_pb2 import FillerParameter
from syncblob.caffe.messages.fields import LEGACY_AXES, Shape
from syncblob.formats import Blob

_Values = NDArray[np.float32]


def fill_blob(
    shape: Shape, filler: FillerParameter | float | None, random: np.random.Generator
) -> Blob:
    """Make a float32 Blob and fill it as Caffe's filler does, with one value, or with zeros."""
    if not isinstance(filler, FillerParameter):
        filler = FillerParameter(value=filler or 0)
    kind = filler.type
    if kind == "constant":
        # A new Blob reads as zeros and allocates no memory before it is accessed.
        value = filler.value
        return Blob.asarray(np.full(shape, value, np.float32)) if value else Blob(shape)
    if kind not in _FILLERS:
        kinds = sorted((*_FILLERS, "constant"))
        raise ValueError(f"expected one of the fillers {', '.join(kinds)}, got {kind!r}")
    if kind == "bilinear" and (len(shape) != LEGACY_AXES or shape[2] != shape[3]):
        raise ValueError(f"'bilinear' fills square kernels, (out, in, size, size), got {shape}")
    if not shape or not math.prod(shape):
        raise ValueError(f"expected a blob with an axis, and elements, for {kind!r}, got {shape}")
    values = _FILLERS[kind](shape, filler, random)
    return Blob.asarray(values.astype(np.float32, copy=False))


def _uniform(shape: Shape, low: float, high: float, random: np.random.Generator) -> _Values:
    return random.random(shape, np.float32) * np.float32(high - low) + np.float32(low)


def _normal(shape: Shape, std: float, random: np.random.Generator) -> _Values:
    return random.standard_normal(shape, np.float32) * np.float32(std)


def _gaussian(shape: Shape, filler: FillerParameter, random: np.random.Generator) -> _Values:
    values = _normal(shape, filler.std, random) + np.float32(filler.mean)
    if filler.sparse >= 0:
        # On average, `sparse` entries along the first axis are nonzero.
        values *= random.random(shape, np.float32) < filler.sparse / shape[0]
    return values


def _unit_ball(shape: Shape, _: FillerParameter, random: np.random.Generator) -> _Values:
    rows = random.random((shape[0], math.prod(shape[1:])), np.float32)
    rows /= rows.sum(axis=1, keepdims=True)
    return rows.reshape(shape)


def _fan(shape: Shape, filler: FillerParameter) -> float:
    """Return the divisor of the variance."""
    count = math.prod(shape)
    fan_in = count // shape[0]
    fan_out = count // shape[1] if len(shape) > 1 else count
    if filler.variance_norm == filler.FAN_OUT:
        return fan_out
    return (fan_in + fan_out) / 2 if filler.variance_norm == filler.AVERAGE else fan_in


def _bilinear(shape: Shape, *_: object) -> _Values:
    size = shape[3]
    factor = math.ceil(size / 2)
    centre = (size - 1) / (2 * factor)
    weights = 1 - np.abs(np.arange(size) / factor - centre)
    return np.broadcast_to(np.outer(weights, weights), shape).astype(np.float32)


_FILLERS: dict[str, Callable[[Shape, FillerParameter, np.random.Generator], _Values]] = {
    "bilinear": _bilinear,
    "gaussian": _gaussian,
    "msra": lambda shape, filler, random: _normal(
        shape, math.sqrt(2 / _fan(shape, filler)), random
    ),
    "positive_unitball": _unit_ball,
    "uniform": lambda shape, filler, random: _uniform(shape, filler.min, filler.max, random),
    "xavier": lambda shape, filler, random: _uniform(
        shape, -(limit := math.sqrt(3 / _fan(shape, filler))), limit, random
    ),
}
