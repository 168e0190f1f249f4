"""Nets as messages: models of network definitions, and the definitions of models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncblob.caffe._layer import Layer
from syncblob.caffe._messages import own_copy
from syncblob.caffe._pb.caffe_pb2 import NetParameter, Phase
from syncblob.caffe._upgrade import upgrade_net
from syncblob.caffe._write_model import net_settings

if TYPE_CHECKING:
    from collections.abc import Collection

    from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetStateRule
    from syncblob.caffe.model import ModelFile

__all__ = ["net_message", "split_net"]


def split_net(
    net: NetParameter, phase: str | None, level: int, stages: Collection[str]
) -> tuple[bytes, list[Layer]]:
    """Return the settings of a net besides name and layers, serialised, and its layers.

    With a phase, only the layers that Caffe would run in that state.
    """
    settings = upgrade_net(
        own_copy(NetParameter, net, "read_prototxt(path) reads one from a .prototxt")
    )
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
