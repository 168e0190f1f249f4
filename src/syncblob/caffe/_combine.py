"""Network definitions and trained weights: from one to the other, and both together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncblob.caffe._copy_report import CopyReport
from syncblob.caffe._layer import Entry, Layer
from syncblob.caffe._legacy import LEGACY_AXES, equal_shapes
from syncblob.caffe._param_shapes import ExpectedBlob, expected_blobs
from syncblob.caffe._pb.caffe_pb2 import NetParameter, Phase
from syncblob.caffe._upgrade import upgrade_net
from syncblob.caffe._write_model import net_settings

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetStateRule
    from syncblob.caffe.model import ModelFile

__all__ = ["copy_trained_layers", "net_message", "split_net"]


def split_net(
    net: NetParameter, phase: str | None, level: int, stages: Collection[str]
) -> tuple[bytes, list[Layer]]:
    """Return the settings of a net besides name and layers, serialised, and its layers.

    With a phase, only the layers that Caffe would run in that state.
    """
    descriptor = getattr(net, "DESCRIPTOR", None)
    if descriptor is None or descriptor.name != NetParameter.DESCRIPTOR.name:
        kind = type(net).__name__ if descriptor is None else descriptor.name
        raise TypeError(
            f"expected a NetParameter message, got {kind}; read_prototxt(path) reads one from a "
            f".prototxt"
        )
    settings = NetParameter()
    settings.ParseFromString(net.SerializeToString())
    settings = upgrade_net(settings)
    layers = list(settings.layer)
    if phase is not None:
        state = _State(_phase(phase), level, frozenset(stages))
        layers = [layer for layer in layers if state.includes(layer)]
    made = [Layer.from_proto(layer) for layer in layers]
    for name in ("name", "layer"):
        settings.ClearField(name)
    return settings.SerializeToString(), made


def _phase(name: str) -> int:
    if not isinstance(name, str) or name.upper() not in Phase.keys():  # noqa: SIM118  # no mapping
        raise ValueError(f"expected a phase of 'TRAIN' and 'TEST', or None for both, got {name!r}")
    return Phase.Value(name.upper())


def net_message(model: ModelFile) -> NetParameter:
    """Return a net without blobs as a message."""
    net = NetParameter.FromString(net_settings(model))
    for layer in model.layers:
        layer._definition.require_consistent()
    net.layer.extend(layer._definition.message() for layer in model.layers)
    return net


def copy_trained_layers(target: ModelFile, source: ModelFile) -> CopyReport:
    """Do what `ModelFile.copy_trained_layers_from` says."""
    found: dict[str, list[Entry]] = {}
    ignored = []
    for layer in source.layers:
        if layer.name not in target:
            ignored.append(layer.name)
            continue
        # Of several layers of a name, the last one wins, as in Caffe.
        found[layer.name] = _fitting(target[layer.name], layer)
    missing = tuple(
        name for name, layer in target.items() if name not in found and _has_blobs(layer)
    )
    for name, entries in found.items():
        target[name].blobs._entries = entries
    copied = tuple(name for name in target if found.get(name))
    return CopyReport(copied, missing, tuple(ignored))


def _has_blobs(layer: Layer) -> bool:
    """Tell whether a layer has blobs, or its settings say that it should."""
    return bool(layer.blobs) or bool(expected_blobs(layer._definition.message()))


_RENAME = "to leave this layer out, rename it in one of the models: model.rename(old, new)"


def _fitting(target: Layer, source: Layer) -> list[Entry]:
    """Return the blobs of a layer in the shapes that another one has, or asks for.

    Raises
    ------
    ValueError
        If that is not possible.
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
    """Return a blob of the source as it is to be in the target; None if it does not fit."""
    blob = entry.blob
    if isinstance(place, ExpectedBlob):
        if not place.fits(blob.shape, legacy=entry.legacy):
            return None
        shape = blob.shape if place.repeats else blob.shape[blob.ndim - len(place.dims) :]
        legacy = entry.legacy
    else:
        shape = place.shape
        legacy = place.legacy or entry.legacy
        if not equal_shapes(shape, blob.shape, our_legacy=place.legacy, their_legacy=entry.legacy):
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


@dataclass(frozen=True, slots=True)
class _State:
    """What a net is being run as."""

    phase: int
    level: int
    stages: frozenset[str]

    def includes(self, layer: LayerParameter) -> bool:
        """Tell whether a layer is part of the net in this state.

        Raises
        ------
        ValueError
            If it has rules of both kinds.
        """
        if layer.include and layer.exclude:
            raise ValueError(
                f"layer {layer.name!r} has rules of both kinds, include and exclude; Caffe takes "
                f"one kind only"
            )
        if layer.include:
            return any(self._meets(rule) for rule in layer.include)
        return not any(self._meets(rule) for rule in layer.exclude)

    def _meets(self, rule: NetStateRule) -> bool:
        return (
            (not rule.HasField("phase") or rule.phase == self.phase)
            and (not rule.HasField("min_level") or rule.min_level <= self.level)
            and (not rule.HasField("max_level") or rule.max_level >= self.level)
            and self.stages.issuperset(rule.stage)
            and self.stages.isdisjoint(rule.not_stage)
        )
