"""Copying the weights of one model to another, layer by layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncblob.caffe._fields import LEGACY_AXES
from syncblob.caffe._layer import Entry
from syncblob.caffe._param_shapes import ExpectedBlob, expected_blobs
from syncblob.caffe.blobproto import shapes_agree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from syncblob.caffe._layer import Layer

__all__ = ["CopyReport", "copy_trained_layers"]


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The result of `ModelFile.copy_trained_layers_from`.

    Parameters
    ----------
    copied
        Names of the layers whose blobs were copied.
    missing
        Names of the layers that have blobs, or should have some, and are not in the source. In
        Caffe they keep the values of their fillers.
    ignored
        Names of the layers of the source that are not in the model, with or without blobs.
    """

    copied: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]


def copy_trained_layers(target: Mapping[str, Layer], source: Iterable[Layer]) -> CopyReport:
    """Copy the blobs of layers; see `ModelFile.copy_trained_layers_from`."""
    found: dict[str, list[Entry]] = {}
    ignored = []
    for layer in source:
        if layer.name not in target:
            ignored.append(layer.name)
            continue
        # If several layers have the same name, the last one wins, as in Caffe.
        found[layer.name] = _fitting(target[layer.name], layer)
    missing = tuple(
        name for name, layer in target.items() if name not in found and _has_blobs(layer)
    )
    for name, entries in found.items():
        target[name].blobs._put(entries)
    copied = tuple(name for name in target if found.get(name))
    return CopyReport(copied, missing, tuple(ignored))


def _has_blobs(layer: Layer) -> bool:
    """Tell whether a layer has blobs, or its settings say that it should."""
    return bool(layer.blobs) or bool(expected_blobs(layer._definition.message()))


_RENAME = "to leave this layer out, rename it in one of the models: model.rename(old, new)"


def _fitting(target: Layer, source: Layer) -> list[Entry]:
    """Return the blobs of a source layer in the shapes of the target layer or its settings.

    Raises
    ------
    ValueError
        If number or shapes do not match.
    """
    found = source.blobs._entries
    expected: Sequence[Entry | ExpectedBlob] | None = target.blobs._entries
    if not expected:
        expected = expected_blobs(target._definition.message())
    if expected is None:
        return list(found)
    if len(expected) != len(found):
        raise ValueError(
            f"layer {target.name!r}: expected {len(expected)} blobs, the source has {len(found)}; "
            f"compare the settings of the two layers, such as bias_term; {_RENAME}"
        )
    entries = []
    for number, (place, entry) in enumerate(zip(expected, found, strict=True)):
        fitted = _fitted(place, entry)
        if fitted is None:
            shape = place.shape if isinstance(place, Entry) else place
            raise ValueError(
                f"layer {target.name!r}, blob {number}: expected shape {shape}, the source has "
                f"{entry.blob.shape}; {_advice(number, shape, entry)}; {_RENAME}"
            )
        entries.append(fitted)
    return entries


def _fitted(place: Entry | ExpectedBlob, entry: Entry) -> Entry | None:
    """Return a blob of the source in the form for the target; None if it does not fit."""
    blob = entry.blob
    if isinstance(place, ExpectedBlob):
        if not place.fits(blob.shape, legacy=entry.legacy):
            return None
        shape = blob.shape if place.repeats else blob.shape[blob.ndim - len(place.dims) :]
        legacy = entry.legacy
    else:
        shape = place.shape
        legacy = place.legacy or entry.legacy
        if not shapes_agree(shape, blob.shape, our_legacy=place.legacy, their_legacy=entry.legacy):
            return None
    if shape != blob.shape:
        blob = blob.reshape(shape)
    return Entry(blob, shape, legacy and len(shape) == LEGACY_AXES)


def _advice(number: int, shape: tuple[int, ...] | ExpectedBlob, entry: Entry) -> str:
    if isinstance(shape, ExpectedBlob) or math.prod(shape) != entry.blob.size:
        return "compare the settings of the two layers, such as num_output"
    return (
        f"if the values are in the same order, give that of the source this shape: "
        f"layer.replace_blob({number}, layer.blobs[{number}].reshape({shape}), resize=True)"
    )
