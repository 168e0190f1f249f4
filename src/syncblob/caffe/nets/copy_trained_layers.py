"""Copying the weights of one model into another, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from syncblob.caffe.messages.fields import LEGACY_AXES, Shape
from syncblob.caffe.messages.lazy_blobs import had_diff, independent_copy
from syncblob.caffe.nets.infer_shapes import computed_blobs, named_entries, param_name, shared_entry
from syncblob.caffe.nets.layer import Entry, Layer
from syncblob.caffe.nets.layer_types import ExpectedBlob, expected_blobs
from syncblob.formats import Blob, untouched_values

_ADVICE = (
    "compare the settings of the two layers, such as num_output and bias_term; to leave this layer "
    "out, rename it in one of the models: model.rename(old, new)"
)


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
    shape: Shape


def copy_trained_layers(
    target: Sequence[Layer], source: Sequence[Layer], *, shared_once: bool = False
) -> CopyReport:
    # Of several layers of a name, Caffe fills the first, with the blobs of the last.
    layers: dict[str, Layer] = {}
    for layer in target:
        layers.setdefault(layer.name, layer)
    given: dict[str, list[Entry]] = {}
    for layer in source:
        given.pop(layer.name, None)
        given[layer.name] = layer.blobs.entries
    if shared_once:
        _add_shared(layers.values(), given)
    new = any(given.get(name) and not layer.blobs for name, layer in layers.items())
    computed = computed_blobs(target) if new else {}
    found = {
        name: _match_blobs(layers[name], computed.get(name), entries)
        for name, entries in given.items()
        if name in layers
    }
    writes, made = _plan(layers, found)
    missing = [
        name
        for name, layer in layers.items()
        if name not in found and (layer.blobs or expected_blobs(layer.proto))
    ]
    for blob, theirs in writes:
        values = untouched_values(theirs)
        blob.copy_from((theirs if values is None else values).reshape(blob.shape))
        if had_diff(theirs):
            values = untouched_values(theirs, diff=True)
            blob.diff.copy_from((theirs.diff if values is None else values).reshape(blob.shape))
    for name, new_entries in made.items():
        layers[name].blobs.put(new_entries)
    copied = [name for name, layer in layers.items() if name in found and layer.blobs]
    ignored = [layer.name for layer in source if layer.name not in layers]
    return CopyReport(tuple(copied), tuple(missing), tuple(ignored))


def _add_shared(target: Iterable[Layer], given: dict[str, list[Entry]]) -> None:
    """Add the parameters that layers of the source have in an earlier layer of the target."""
    first: dict[str, tuple[str, int]] = {}
    for layer in target:
        for number, spec in enumerate(layer.proto.param):
            owner, at = first.setdefault(spec.name, (layer.name, number))
            mine, theirs = given.get(layer.name), given.get(owner, [])
            if not spec.name or (owner, at) == (layer.name, number) or mine is None:
                continue
            if number == len(mine) and at < len(theirs):
                given[layer.name] = [*mine, theirs[at]]
            elif number == len(mine):
                del given[layer.name]


def _plan(
    layers: dict[str, Layer], found: dict[str, list[_Match]]
) -> tuple[list[tuple[Blob, Blob]], dict[str, list[Entry]]]:
    """Return which Blobs of the target are written, and the blobs of layers without any."""
    # By the name of a parameter; without one, by the name of its layer and the number of the blob.
    entries: dict[object, Entry] = dict(named_entries(layers.values()).items())
    # Of several values for one parameter the last ones in the source win, as in Caffe.
    last: dict[object, _Match] = {}
    writes = []
    for name, matches in found.items():
        for number, match in enumerate(matches):
            key = param_name(layers[name], number) or (name, number)
            if layers[name].blobs:
                writes.append((layers[name].blobs[number], match.entry.blob))
            elif key in entries:
                writes.append((entries[key].blob, match.entry.blob))
            else:
                last[key] = match
    made: dict[str, list[Entry]] = {}
    for name, layer in layers.items():
        if name not in found or layer.blobs:
            continue
        made[name] = []
        for number, match in enumerate(found[name]):
            key = param_name(layer, number) or (name, number)
            if key not in entries:
                entries[key] = _new_entry(last[key], match)
            made[name].append(shared_entry(layer, number, entries[key], match.shape))
    return writes, made


def _new_entry(match: _Match, owner: _Match) -> Entry:
    """Make a Blob in the shape of `owner`; values that have not been read stay in the file."""
    if match.entry.blob.size != owner.entry.blob.size:
        match = owner  # which `shared_entry` refuses
    blob = independent_copy(match.entry.blob, {})
    if blob.shape != owner.shape:
        blob = blob.reshape(owner.shape)
    return Entry(blob, owner.entry.legacy and len(owner.shape) == LEGACY_AXES)


def _match_blobs(
    target: Layer, computed: list[ExpectedBlob] | None, found: Sequence[Entry]
) -> list[_Match]:
    """Match blobs of the source with those that the target layer has, or asks for."""
    own = [ExpectedBlob(blob.shape, legacy=legacy) for blob, legacy in target.blobs.entries]
    expected = own or computed or expected_blobs(target.proto)
    if expected is None:
        return [_Match(entry, entry.blob.shape) for entry in found]
    if len(expected) != len(found):
        raise ValueError(
            f"layer {target.name!r}: expected {len(expected)} blobs, the source has {len(found)}; "
            f"{_ADVICE}"
        )
    matches = []
    for number, (place, entry) in enumerate(zip(expected, found, strict=True)):
        blob, specs = entry.blob, target.proto.param[number : number + 1]
        known = tuple(dim for dim in place.dims if dim is not None)
        counts_alone = any(spec.share_mode == spec.PERMISSIVE for spec in specs)
        if place.fits(blob.shape, legacy=entry.legacy):
            shape = blob.shape if place.repeats else blob.shape[blob.ndim - len(place.dims) :]
        elif counts_alone and math.prod(known) == blob.size:
            shape = known  # in HDF5 it may be in the shape of another layer
        else:
            raise ValueError(
                f"layer {target.name!r}, blob {number}: expected shape {place}, the source has "
                f"{blob.shape}; {_ADVICE}"
            )
        matches.append(_Match(entry, shape))
    return matches
