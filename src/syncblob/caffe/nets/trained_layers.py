"""Copying the weights of one model into another, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from syncblob.caffe.messages.blobproto import shapes_agree
from syncblob.caffe.messages.fields import LEGACY_AXES
from syncblob.caffe.messages.lazy import had_diff, independent_copy
from syncblob.caffe.nets.layer import Entry, Layer
from syncblob.caffe.nets.net_shapes import computed_blobs, named_entries, shared_entry
from syncblob.caffe.nets.param_shapes import ExpectedBlob, expected_blobs
from syncblob.formats import Blob, untouched_values


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


class _Match(NamedTuple):
    """A blob of the source for one of the target, with the shape that it has there."""

    entry: Entry
    shape: tuple[int, ...]
    legacy: bool


Place = tuple[str, int]
"""The name of a layer and the number of a blob in it."""


def copy_trained_layers(
    target: Sequence[Layer], source: Sequence[Layer], *, shared_once: bool = False
) -> CopyReport:
    """Copy the blobs of layers; see `ModelFile.copy_trained_layers_from`.

    With `shared_once`, only the first of several layers that share a parameter has it in the
    source, as in Caffe's HDF5 files.
    """
    layers: dict[str, Layer] = {}
    for layer in target:
        layers.setdefault(layer.name, layer)
    new = any(
        layer.blobs and not layers[layer.name].blobs for layer in source if layer.name in layers
    )
    computed = computed_blobs(target) if new else {}
    elsewhere = _shared_places(layers.values()) if shared_once else {}
    found: dict[str, list[_Match]] = {}
    ignored = []
    for layer in source:
        if layer.name not in layers:
            ignored.append(layer.name)
            continue
        # Of several layers of a name, the last one wins, as in Caffe.
        found.pop(layer.name, None)
        mine = layers[layer.name]
        found[layer.name] = _fitting(mine, computed.get(layer.name), layer, elsewhere)
    writes, made = _plan(layers, found, elsewhere)
    missing = tuple(
        name for name, layer in layers.items() if name not in found and _has_blobs(layer)
    )
    for blob, match in writes:
        _copy_values(blob, match)
    for name, entries in made.items():
        layers[name].blobs.put(entries)
    copied = tuple(name for name, layer in layers.items() if name in found and layer.blobs)
    return CopyReport(copied, missing, tuple(ignored))


def _plan(
    layers: dict[str, Layer], found: dict[str, list[_Match]], elsewhere: dict[Place, Place]
) -> tuple[list[tuple[Blob, _Match]], dict[str, list[Entry]]]:
    """Return which Blobs of the target are written, and the blobs of layers without any.

    Layers that share a parameter that neither the target nor the source has are removed from
    `found`.
    """
    new = {
        name: _keys(layer, found[name], elsewhere)
        for name, layer in layers.items()
        if name in found and not layer.blobs
    }
    present: dict[str | Place, Entry] = {}
    if new:
        present.update(named_entries(layers.values()))
    known = set(present)
    for name, keys in new.items():
        if not known.issuperset(keys[len(found[name]) :]):
            del found[name]
        else:
            known.update(keys)
    writes = []
    # Of several values for one parameter the last ones win, as in Caffe.
    last: dict[str | Place, _Match] = {}
    for name, matches in found.items():
        for number, match in enumerate(matches):
            if name not in new:
                writes.append((layers[name].blobs[number], match))
            elif (key := new[name][number]) in present:
                writes.append((present[key].blob, match))
            else:
                last[key] = match
    owned = _owned(new, found)
    entries = present | {key: _new_entry(match, owned[key]) for key, match in last.items()}
    made = {}
    for name in [name for name in new if name in found]:
        made[name] = [entries[key] for key in new[name]]
        for number, match in enumerate(found[name]):
            made[name][number] = shared_entry(layers[name], number, made[name][number], match.shape)
    return writes, made


def _owned(
    new: dict[str, list[str | Place]], found: dict[str, list[_Match]]
) -> dict[str | Place, _Match]:
    """Return the blob of each parameter in the first layer that has it, whose shape it gets."""
    owned: dict[str | Place, _Match] = {}
    for name, keys in new.items():
        for key, match in zip(keys, found.get(name, []), strict=False):
            owned.setdefault(key, match)
    return owned


def _keys(
    layer: Layer, matches: Sequence[_Match], elsewhere: dict[Place, Place]
) -> list[str | Place]:
    """Return the names of the parameters of a layer, or their places for those without a name."""
    count = len(matches)
    while (layer.name, count) in elsewhere:
        count += 1
    names = [spec.name for spec in layer.proto.param[:count]]
    names += [""] * (count - len(names))
    return [name or (layer.name, number) for number, name in enumerate(names)]


def _shared_places(layers: Iterable[Layer]) -> dict[Place, Place]:
    """Return the places of parameters whose name an earlier layer has too, each with its place."""
    first: dict[str, Place] = {}
    shared: dict[Place, Place] = {}
    for layer in layers:
        for number, spec in enumerate(layer.proto.param):
            place = layer.name, number
            if spec.name and first.setdefault(spec.name, place) != place:
                shared[place] = first[spec.name]
    return shared


def _new_entry(match: _Match, owned: _Match) -> Entry:
    """Make a Blob of the target; values that have not been read stay in the file.

    `owned` has the shape. If it has another number of values, `match` does not fit, and
    `shared_entry` refuses it.
    """
    if match.entry.blob.size != owned.entry.blob.size:
        match = owned
    blob = independent_copy(match.entry.blob, {})
    if blob.shape != owned.shape:
        blob = blob.reshape(owned.shape)
    return Entry(blob, owned.shape, owned.legacy)


def _copy_values(blob: Blob, match: _Match) -> None:
    """Write the values of a blob of the source into one of the target.

    A gradient is written if the source has it in its file. Values that have not been read are not
    kept in the source.
    """
    theirs = match.entry.blob
    values = untouched_values(theirs)
    blob.copy_from((theirs if values is None else values).reshape(blob.shape))
    if had_diff(theirs):
        values = untouched_values(theirs, diff=True)
        blob.diff.copy_from((theirs.diff if values is None else values).reshape(blob.shape))


def _has_blobs(layer: Layer) -> bool:
    """Tell whether a layer has blobs, or its settings say that it should."""
    return bool(layer.blobs) or bool(expected_blobs(layer.proto))


_RENAME = "to leave this layer out, rename it in one of the models: model.rename(old, new)"


def _fitting(
    target: Layer,
    computed: list[ExpectedBlob] | None,
    source: Layer,
    elsewhere: dict[Place, Place],
) -> list[_Match]:
    """Match the blobs of a layer with those that the target layer has, or asks for.

    Parameters
    ----------
    target
        The layer of the target.
    computed
        The blobs that it should have, if the shapes of its bottoms are known.
    source
        The layer of the source.
    elsewhere
        The blobs that the source may have in another layer, and nothing in place of the last ones.

    Raises
    ------
    ValueError
        If they do not fit.
    """
    found = source.blobs.entries
    expected: Sequence[Entry | ExpectedBlob] | None = target.blobs.entries or computed
    if not expected:
        expected = expected_blobs(target.proto)
    if expected is None:
        return [_Match(entry, entry.blob.shape, entry.legacy) for entry in found]
    count = len(expected)
    while count > len(found) and (target.name, count - 1) in elsewhere:
        count -= 1
    if count != len(found):
        raise ValueError(
            f"layer {target.name!r}: expected {len(expected)} blobs, the source has {len(found)}; "
            f"compare the settings of the two layers, such as bias_term; {_RENAME}"
        )
    matches = []
    for number, (place, entry) in enumerate(zip(expected, found, strict=False)):
        match = _matched(place, entry)
        if match is None:
            shape = place.blob.shape if isinstance(place, Entry) else place
            raise ValueError(
                f"layer {target.name!r}, blob {number}: expected shape {shape}, the source has "
                f"{entry.blob.shape}; {_advice(number, shape, entry)}; {_RENAME}"
            )
        matches.append(match)
    return matches


def _matched(place: Entry | ExpectedBlob, entry: Entry) -> _Match | None:
    """Return a blob of the source as it is to be in the target; None if it does not fit."""
    blob = entry.blob
    if isinstance(place, ExpectedBlob):
        if not place.fits(blob.shape, legacy=entry.legacy):
            return None
        shape = blob.shape if place.repeats else blob.shape[blob.ndim - len(place.dims) :]
        legacy = entry.legacy
    else:
        shape = place.blob.shape
        legacy = place.legacy or entry.legacy
        if not shapes_agree(shape, blob.shape, our_legacy=place.legacy, their_legacy=entry.legacy):
            return None
    return _Match(entry, shape, legacy and len(shape) == LEGACY_AXES)


def _advice(number: int, shape: tuple[int, ...] | ExpectedBlob, entry: Entry) -> str:
    if isinstance(shape, ExpectedBlob) or math.prod(shape) != entry.blob.size:
        return "compare the settings of the two layers, such as num_output"
    return (
        f"if the values are in the same order, give that of the source this shape: "
        f"layer.replace_blob({number}, layer.blobs[{number}].reshape({shape}), resize=True)"
    )
