"""Folding away the padding layers of Caffe's first format.

Padding was a layer of its own then, in front of a convolution or a pooling; now it is one of their
settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Connection", "Folded", "PaddingError", "fold_padding"]

_PADDING = "padding"
_TAKE_PADDING = ("conv", "pool")


class Connection(NamedTuple):
    """A layer, as far as padding is concerned."""

    type: str
    """In the spelling of the first format; ``""`` for a layer of the second."""
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]


class Folded(NamedTuple):
    """A layer that stays."""

    position: int
    """Where it is among the layers before."""
    bottoms: tuple[str, ...]
    padding: int | None
    """Where the padding layer is whose `pad` it takes over."""


class PaddingError(ValueError):
    """Padding that no layer can take over, which Caffe refuses too.

    Parameters
    ----------
    position
        Where the layer is that has the padding layer as a bottom.
    message
        What is wrong.
    """

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


def fold_padding(layers: Sequence[Connection]) -> list[Folded]:
    """Return the layers that are no padding, connected to what is in front of the padding.

    Raises
    ------
    PaddingError
        If a padding layer has not exactly one bottom and one top, or is in front of something
        other than a convolution or a pooling with one bottom.
    """
    kept: list[Folded] = []
    # The last layer before that has a blob of this name as its top.
    makers: dict[str, int] = {}
    for position, layer in enumerate(layers):
        bottoms = list(layer.bottoms)
        padding = None
        for index, bottom in enumerate(layer.bottoms):
            maker = makers.get(bottom)
            if maker is None or layers[maker].type != _PADDING:
                continue
            _require_foldable(position, layer, layers[maker])
            padding = maker
            bottoms[index] = layers[maker].bottoms[0]
        if layer.type != _PADDING:
            kept.append(Folded(position, tuple(bottoms), padding))
        makers.update(dict.fromkeys(layer.tops, position))
    return kept


def _require_foldable(position: int, layer: Connection, padding: Connection) -> None:
    if layer.type not in _TAKE_PADDING:
        raise PaddingError(
            position,
            f"expected a layer of type 'conv' or 'pool' behind a padding layer, got {layer.type!r}",
        )
    counts = len(layer.bottoms), len(padding.bottoms), len(padding.tops)
    if counts != (1, 1, 1):
        raise PaddingError(
            position,
            f"expected one bottom of the {layer.type!r} layer, one bottom and one top of the "
            f"padding layer in front of it, got {counts[0]}, {counts[1]} and {counts[2]}",
        )
