"""The shapes in a net, layer by layer, and the blobs that Caffe would allocate."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import SupportsIndex

import numpy as np

from syncblob.caffe.messages.fields import Shape, shapes_agree
from syncblob.caffe.messages.string_fields import at_place, require_complete
from syncblob.caffe.nets.fillers import fill_blob
from syncblob.caffe.nets.layer import Entry, Layer
from syncblob.caffe.nets.layer_types import (
    DATA,
    ExpectedBlob,
    Partial,
    expected_blobs,
    require_blob,
    top_shapes,
    why_unknown,
)
from syncblob.formats import as_shape

Given = Mapping[str, Sequence[SupportsIndex]]


@dataclass(frozen=True, slots=True)
class NetShapes:
    """The shapes in a net, as returned by `ModelFile.infer_shapes`.

    Parameters
    ----------
    blobs
        The shapes of the layers' outputs, by the names of the blobs in the net, in the order in
        which they are computed: those of pycaffe's ``net.blobs``.
    params
        The shapes of the weights, by the names of the layers that have weights: those of
        ``net.params``. If several layers have the same name, those of the first.
    missing
        The blobs whose shapes must be given, by name, each with the reason. Shapes that follow from
        these are not known either.
    """

    blobs: dict[str, Shape]
    params: dict[str, tuple[Shape, ...]]
    missing: dict[str, str] = field(default_factory=dict)


def infer_shapes(layers: Iterable[Layer], shapes: Given) -> NetShapes:
    net = _Net(layers, shapes)
    params: dict[str, tuple[Shape, ...]] = {}
    named: dict[str, Shape] = {}
    for layer, expected in net.steps():
        shapes_of_blobs = tuple(_shape_of(blob.dims) for blob in expected or ())
        for number, shape in enumerate(shapes_of_blobs):
            if name := param_name(layer, number):
                _require_shareable(layer, number, shape, named.setdefault(name, shape))
        if expected:
            params.setdefault(layer.name, shapes_of_blobs)
    return NetShapes(net.blobs, params, net.missing)


def computed_blobs(layers: Iterable[Layer]) -> dict[str, list[ExpectedBlob]]:
    """Return the blobs of layers, by name, as far as the shapes of their bottoms are known."""
    known: dict[str, list[ExpectedBlob]] = {}
    with contextlib.suppress(ValueError):  # shapes after the first error stay unknown
        for layer, expected in _Net(layers, {}).steps():
            if expected is not None:
                known.setdefault(layer.name, expected)
    return known


def fill_layers(
    layers: Sequence[Layer], shapes: Given, random: np.random.Generator
) -> tuple[str, ...]:
    named = named_entries(layers)
    net = _Net(layers, shapes)
    steps = list(net.steps())
    if net.missing:
        raise ValueError("; ".join(net.missing.values()))
    new = []
    for layer, expected in steps:
        if layer.blobs and expected is not None:
            _require_fit(layer, expected)
        elif expected:
            entries = [
                _new_entry(layer, number, blob, named, random)
                for number, blob in enumerate(expected)
            ]
            new.append((layer, entries))
    for layer, entries in new:
        layer.blobs.put(entries)
    return tuple(layer.name for layer, _ in new)


def named_entries(layers: Iterable[Layer]) -> dict[str, Entry]:
    """Return the blobs of the parameters that have a name, of each the first that there is."""
    named: dict[str, Entry] = {}
    for layer in layers:
        for number, entry in enumerate(layer.blobs.entries):
            if name := param_name(layer, number):
                named.setdefault(name, entry)
    return named


def param_name(layer: Layer, number: int) -> str:
    """Return the name of a blob as a parameter, by which layers share it; ``""`` for none."""
    specs = layer.proto.param
    return specs[number].name if number < len(specs) else ""


def _new_entry(
    layer: Layer,
    number: int,
    expected: ExpectedBlob,
    named: dict[str, Entry],
    random: np.random.Generator,
) -> Entry:
    """Return a blob that a layer lacks. Record one with a name, which layers share."""
    name, shape = param_name(layer, number), _shape_of(expected.dims)
    if name in named:
        return shared_entry(layer, number, named[name], shape)
    with at_place(f"{_place(layer)}: blob {number}"):
        entry = Entry(fill_blob(shape, expected.filler, random))
    if name:
        named[name] = entry
    return entry


class _Net:
    """The shapes in a net that are known so far, the first of them those that the user gave."""

    def __init__(self, layers: Iterable[Layer], shapes: Given) -> None:
        self._layers = list(layers)
        self._given: dict[str, Shape] = {}
        for name, shape in shapes.items():
            with at_place(f"the shape of {name!r}"):
                self._given[name] = as_shape(shape)
                require_blob(self._given[name])
        names = {name for layer in self._layers for name in (*layer.bottoms, *layer.tops)}
        if unused := self._given.keys() - names:
            raise ValueError(
                f"there is no blob {min(unused)!r} in the net; the keys of shapes are names of "
                f"tops, or of bottoms that no layer computes"
            )
        self.blobs: dict[str, Shape] = {}
        self.missing: dict[str, str] = {}
        self._blob_of: set[str] = set()

    def steps(self) -> Iterator[tuple[Layer, list[ExpectedBlob] | None]]:
        """Yield the layers in order, after putting the shapes of their tops into `blobs`."""
        for layer in self._layers:
            found = [self._bottom(layer, name) for name in layer.bottoms]
            known = [shape for shape in found if shape is not None]
            bottoms = known if len(known) == len(found) else None
            with at_place(_place(layer)):
                require_complete(layer.proto)
                tops = self._tops(layer, bottoms)
                expected = None if bottoms is None else expected_blobs(layer.proto, bottoms)
                for allocated in (*filter(None, tops), *(blob.dims for blob in expected or ())):
                    require_blob(_shape_of(allocated))
                for number, (name, shape) in enumerate(zip(layer.tops, tops, strict=True)):
                    self._put(name, shape, in_place=_is_in_place(layer, number))
            yield layer, expected

    def _bottom(self, layer: Layer, name: str) -> Shape | None:
        """Return the shape of a bottom, which is an input of the net if no layer computed it."""
        if name not in self._blob_of:
            self._blob_of.add(name)
            if name in self._given:
                self.blobs[name] = self._given[name]
            else:
                why = (
                    f"its bottom {name!r} is not the top of an earlier layer; if it is an input of "
                    f"the net, give its shape"
                )
                self._miss(layer, name, why)
        return self.blobs.get(name)

    def _miss(self, layer: Layer, name: str, why: str, shape: Partial | None = None) -> None:
        names = ("batch", "channels", "height", "width")
        dims = [each if dim is None else dim for each, dim in zip(names, shape or (), strict=False)]
        wanted = "..." if shape is None else ", ".join(map(str, dims))
        self.missing.setdefault(name, f"{_place(layer)}: {why}: shapes={{{name!r}: ({wanted})}}")

    def _tops(self, layer: Layer, bottoms: list[Shape] | None) -> list[Shape | None]:
        """Return the shapes of the tops of a layer; None for unknown ones."""
        given = [self._given.get(name) for name in layer.tops]
        computed = top_shapes(layer.proto, bottoms, *given[:1])
        if problem := why_unknown(layer.proto):
            problem += "; give the shape of its top"
        elif layer.type in DATA:
            problem = "the shape of its top is in the data; give it"
        tops: list[Shape | None] = []
        for number, (name, mine, theirs) in enumerate(
            zip(layer.tops, given, computed, strict=True)
        ):
            shape = mine if mine is not None and (problem or theirs is None) else theirs
            if problem and shape is None and _is_in_place(layer, number):
                shape = self.blobs.get(name)
            elif problem and (shape is None or None in shape):
                self._miss(layer, name, problem, shape)
                shape = None
            tops.append(None if shape is None else _shape_of(shape))
        return tops

    def _put(self, name: str, shape: Shape | None, *, in_place: bool) -> None:
        if name in self._blob_of and not in_place:
            raise ValueError(
                f"its top {name!r} is that of an earlier layer too; if the layers are those of two "
                f"phases, take one: ModelFile.from_net(net, phase='TEST')"
            )
        if shape is not None and self._given.get(name, shape) != shape:
            raise ValueError(f"its top {name!r} has shape {shape}, not {self._given[name]}")
        self._blob_of.add(name)
        if shape is None:
            self.blobs.pop(name, None)
        else:
            self.blobs[name] = shape


def _is_in_place(layer: Layer, number: int) -> bool:
    # `layer.bottoms` would make a tuple of all names for each top: quadratic in their number.
    proto = layer.proto
    return list(proto.bottom[number : number + 1]) == list(proto.top[number : number + 1])


def shared_entry(layer: Layer, number: int, entry: Entry, shape: Shape) -> Entry:
    """Return a blob, which may be that of another layer, in the shape that a layer asks for."""
    theirs = entry.blob.shape
    if shape == theirs:
        return entry
    _require_shareable(layer, number, shape, theirs, legacy=entry.legacy)
    return Entry(entry.blob.reshape(shape))


def _require_shareable(
    layer: Layer, number: int, shape: Shape, theirs: Shape, *, legacy: bool = False
) -> None:
    spec = layer.proto.param[number]
    fits = spec.share_mode == spec.PERMISSIVE and math.prod(shape) == math.prod(theirs)
    if not fits and not shapes_agree(shape, theirs, their_legacy=legacy):
        raise ValueError(
            f"{_place(layer)}: blob {number} has shape {shape} and shares the parameter "
            f"{spec.name!r}, which has shape {theirs}"
        )


def _require_fit(layer: Layer, expected: list[ExpectedBlob]) -> None:
    with at_place(_place(layer)):
        entries = layer.blobs.entries
        if len(entries) != len(expected):
            raise ValueError(f"expected {len(expected)} blobs, got {len(entries)}")
        for number, (place, entry) in enumerate(zip(expected, entries, strict=True)):
            if not place.fits(entry.blob.shape, legacy=entry.legacy):
                raise ValueError(f"blob {number}: expected shape {place}, got {entry.blob.shape}")


def _shape_of(dims: Partial) -> Shape:
    return tuple(dim for dim in dims if dim is not None)


def _place(layer: Layer) -> str:
    return f"layer {layer.name!r} ({layer.type or 'of no type'})"
