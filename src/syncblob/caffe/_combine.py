"""Network definitions and trained weights: from one to the other, and both together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncblob.caffe._layer import Layer
from syncblob.caffe._origins import origin_of
from syncblob.caffe._param_shapes import ExpectedBlob, expected_blobs
from syncblob.caffe._pb.caffe_pb2 import NetParameter, Phase
from syncblob.caffe._upgrade import upgrade_net
from syncblob.caffe._write_model import net_settings
from syncblob.caffe.model import CopyReport

if TYPE_CHECKING:
    from collections.abc import Collection

    from syncblob.blob import Blob
    from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetStateRule
    from syncblob.caffe.model import ModelFile

__all__ = ["copy_trained_layers", "net_message", "split_net"]


def split_net(
    net: NetParameter, phase: str | None, level: int, stages: Collection[str]
) -> tuple[bytes, list[Layer]]:
    """Return the settings of a net besides name and layers, serialised, and its layers.

    With a phase, only the layers that Caffe would run in that state.
    """
    settings = NetParameter()
    settings.ParseFromString(net.SerializeToString())
    settings = upgrade_net(settings)
    layers = list(settings.layer)
    if phase is not None:
        state = _State(Phase.Value(phase), level, frozenset(stages))
        layers = [layer for layer in layers if state.includes(layer)]
    made = [Layer.from_proto(layer) for layer in layers]
    for name in ("name", "layer"):
        settings.ClearField(name)
    return settings.SerializeToString(), made


def net_message(model: ModelFile) -> NetParameter:
    """Return a net without blobs as a message."""
    net = NetParameter.FromString(net_settings(model))
    net.layer.extend(layer.proto for layer in model.layers)
    return net


def copy_trained_layers(target: ModelFile, source: ModelFile) -> CopyReport:
    """Do what `ModelFile.copy_trained_layers_from` says."""
    found: dict[str, Layer] = {}
    ignored = []
    for layer in source.layers:
        if layer.name not in target:
            ignored.append(layer.name)
            continue
        _require_same_blobs(target[layer.name], layer)
        found[layer.name] = layer  # of several layers of a name, the last one wins, as in Caffe
    missing = tuple(
        name for name, layer in target.items() if name not in found and _has_blobs(layer)
    )
    for name, layer in found.items():
        target[name].blobs.assign(layer.blobs)
    copied = tuple(name for name in target if name in found and found[name].blobs)
    return CopyReport(copied, missing, tuple(ignored))


def _has_blobs(layer: Layer) -> bool:
    """Tell whether a layer has blobs, or its settings say that it should."""
    return bool(layer.blobs) or bool(expected_blobs(layer.proto))


def _require_same_blobs(target: Layer, source: Layer) -> None:
    if target.blobs:
        expected: list[ExpectedBlob] | None = [ExpectedBlob(blob.shape) for blob in target.blobs]
    else:
        expected = expected_blobs(target.proto)
    if expected is None:
        return
    if len(expected) != len(source.blobs):
        raise ValueError(
            f"layer {target.name!r}: expected {len(expected)} blobs, the source has "
            f"{len(source.blobs)}; to leave this layer out, rename it"
        )
    for number, (shape, blob) in enumerate(zip(expected, source.blobs, strict=True)):
        if not shape.fits(blob.shape, legacy=_is_legacy(blob)):
            raise ValueError(
                f"layer {target.name!r}, blob {number}: expected shape {shape}, the source has "
                f"{blob.shape}; to leave this layer out, rename it"
            )


def _is_legacy(blob: Blob) -> bool:
    origin = origin_of(blob)
    return origin is not None and origin.index.legacy


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
