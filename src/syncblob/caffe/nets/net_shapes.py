"""The shapes in a net, layer by layer, and the blobs that Caffe would allocate."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, SupportsIndex

from syncblob.caffe.messages.blobproto import shapes_agree
from syncblob.caffe.messages.texts import naming, require_complete
from syncblob.caffe.nets.fillers import filled, require_filler
from syncblob.caffe.nets.layer import Entry, Layer
from syncblob.caffe.nets.param_shapes import ExpectedBlob, expected_blobs
from syncblob.caffe.nets.top_shapes import (
    DATA,
    Partial,
    Shape,
    require_blob,
    top_shapes,
    type_of,
    why_unknown,
)
from syncblob.formats import as_shape

if TYPE_CHECKING:
    import numpy as np

    from syncblob.caffe._pb.caffe_pb2 import LayerParameter

    Given = Mapping[str, Sequence[SupportsIndex]]
    Place = tuple[int, int]


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
    weights
        The shapes of the weights of each layer, in their order, after those of the layer for the
        inputs of the net itself, if it has some.
    """

    blobs: dict[str, Shape]
    params: dict[str, tuple[Shape, ...]]
    missing: dict[str, str] = field(default_factory=dict)
    weights: tuple[tuple[Shape, ...], ...] = ()


def infer_shapes(layers: Iterable[Layer], shapes: Given) -> NetShapes:
    """Compute the shapes in a net; see `ModelFile.infer_shapes`."""
    net = _Net(shapes)
    params: dict[str, tuple[Shape, ...]] = {}
    weights = []
    for layer, expected in net.steps(layers):
        weights.append(tuple(map(_shape, expected or ())))
        if expected:
            params.setdefault(layer.name, weights[-1])
    return NetShapes(net.blobs, params, net.missing, tuple(weights))


def computed_blobs(layers: Iterable[Layer]) -> dict[str, list[ExpectedBlob]]:
    """Return the blobs of layers, by name, as far as the shapes of their bottoms are known."""
    known: dict[str, list[ExpectedBlob]] = {}
    with contextlib.suppress(ValueError):  # Caffe refuses the rest of the net
        for layer, expected in _Net({}).steps(layers):
            if expected is not None:
                known.setdefault(layer.name, expected)
    return known


def fill_layers(
    layers: Sequence[Layer], shapes: Given, random: np.random.Generator
) -> tuple[str, ...]:
    """Give layers the blobs that they lack; see `ModelFile.fill`."""
    named = named_entries(layers)
    net = _Net(shapes)
    steps = list(net.steps(layers))
    if net.missing:
        raise ValueError("; ".join(net.missing.values()))
    new = []
    for layer, expected in steps:
        if layer.blobs and expected is not None:
            _require_fitting(layer, expected)
        elif expected:
            new.append((layer, _new_entries(layer, expected, named, random)))
    for layer, entries in new:
        layer.blobs.put(entries)
    return tuple(layer.name for layer, _ in new)


def named_entries(layers: Iterable[Layer]) -> dict[str, Entry]:
    """Return the blobs of the parameters that have a name, of each the first that there is."""
    named: dict[str, Entry] = {}
    for layer in layers:
        _record_names(layer.proto, layer.blobs.entries, named)
    return named


def _record_names(
    message: LayerParameter, entries: Sequence[Entry], named: dict[str, Entry]
) -> None:
    for spec, entry in zip(message.param, entries, strict=False):
        if spec.name:
            named.setdefault(spec.name, entry)


def _new_entries(
    layer: Layer,
    blobs: list[ExpectedBlob],
    named: dict[str, Entry],
    random: np.random.Generator,
) -> list[Entry]:
    """Return the blobs that a layer lacks. Record those with names, which layers share."""
    specs = layer.proto.param
    entries = []
    for number, expected in enumerate(blobs):
        spec, shape = specs[number] if number < len(specs) else None, _shape(expected)
        if spec is not None and spec.name in named:
            entries.append(shared_entry(layer, number, named[spec.name], shape))
        else:
            entries.append(Entry(filled(shape, expected.filler, random), shape, legacy=False))
    _record_names(layer.proto, entries, named)
    return entries


class _Net:
    """The shapes in a net that are known so far, the first of them those that the user gave."""

    def __init__(self, shapes: Given) -> None:
        self._given = {name: _as_shape(name, shape) for name, shape in shapes.items()}
        self._unused = set(self._given)
        # The shape of each parameter with a name, and the multipliers that a layer has set.
        self._owners: dict[str, tuple[Shape, dict[str, float]]] = {}
        self.blobs: dict[str, Shape] = {}
        self.missing: dict[str, str] = {}
        self._made: set[str] = set()

    def steps(self, layers: Iterable[Layer]) -> Iterator[tuple[Layer, list[ExpectedBlob] | None]]:
        """Yield the layers in order, after putting the shapes of their tops into `blobs`.

        With each are the blobs that it should have; None if its type or a bottom is unknown.
        """
        layers = list(layers)
        sources, uses = _uses(layers)
        for position, layer in enumerate(layers):
            message = layer.proto
            known = [
                shape for name in layer.bottoms if (shape := self._bottom(layer, name)) is not None
            ]
            bottoms = known if len(known) == len(layer.bottoms) else None
            expected = None
            try:
                tops = self._tops(layer, message, bottoms)
                if bottoms is not None:
                    expected = expected_blobs(message, bottoms)
                _require_settings(message, [uses[position, number] for number in range(len(tops))])
                _require_allocatable(message, tops, expected)
                self._share(message, expected or [])
            except ValueError as error:
                raise _error(layer, str(error)) from error
            for number, (name, shape) in enumerate(zip(layer.tops, tops, strict=True)):
                in_place = layer.bottoms[number : number + 1] == (name,)
                if in_place and uses[sources[position, number]] > 1:
                    raise _error(
                        layer,
                        f"it writes its bottom {name!r} in place, which is also used otherwise; "
                        f"give its top another name",
                    )
                self._put(layer, name, shape, in_place=in_place)
            yield layer, expected
        if self._unused:
            raise ValueError(
                f"there is no blob {min(self._unused)!r} in the net; the keys of shapes are names "
                f"of tops, or of bottoms that no layer computes"
            )

    def _bottom(self, layer: Layer, name: str) -> Shape | None:
        """Return the shape of a bottom, which is an input of the net if no layer computed it."""
        if name not in self._made:
            self._made.add(name)
            if name in self._given:
                self.blobs[name] = self._given[name]
                self._unused.discard(name)
            else:
                self._miss(
                    layer,
                    name,
                    f"its bottom {name!r} is not the top of an earlier layer; if it is an input of "
                    f"the net, give its shape",
                )
        return self.blobs.get(name)

    def _miss(self, layer: Layer, name: str, why: str, shape: Partial | None = None) -> None:
        problem = f"{why}: shapes={{{name!r}: {_with_names(shape)}}}"
        self.missing.setdefault(name, str(_error(layer, problem)))

    def _tops(
        self, layer: Layer, message: LayerParameter, bottoms: list[Shape] | None
    ) -> list[Shape | None]:
        """Return the shapes of the tops of a layer; None for unknown ones."""
        given = [self._given.get(name) for name in layer.tops]
        computed: Sequence[Partial | None] = [None] * len(given)
        if problem := why_unknown(message):
            problem += "; give the shape of its top"
        else:
            computed = top_shapes(message, bottoms, *given[:1])
            if message.type in DATA:
                problem = "the shape of its top is in the data; give it"
        tops: list[Shape | None] = []
        for number, (name, mine, theirs) in enumerate(
            zip(layer.tops, given, computed, strict=True)
        ):
            shape = mine if mine is not None and (problem or theirs is None) else theirs
            if problem and shape is None and layer.bottoms[number : number + 1] == (name,):
                shape = self.blobs.get(name)
            elif problem and (shape is None or None in shape):
                self._miss(layer, name, problem, shape)
                shape = None
            tops.append(None if shape is None else _known(shape))
        return tops

    def _put(self, layer: Layer, name: str, shape: Shape | None, *, in_place: bool) -> None:
        if name in self._made and not in_place:
            raise _error(
                layer,
                f"its top {name!r} is that of an earlier layer too; if the layers are those of two "
                f"phases, take one: ModelFile.from_net(net, phase='TEST')",
            )
        if shape is not None and self._given.get(name, shape) != shape:
            raise _error(layer, f"its top {name!r} has shape {shape}, not {self._given[name]}")
        self._made.add(name)
        self._unused.discard(name)
        if shape is None:
            self.blobs.pop(name, None)
        else:
            self.blobs[name] = shape

    def _share(self, layer: LayerParameter, blobs: list[ExpectedBlob]) -> None:
        """Raise ValueError if Caffe refuses to share the parameters of a layer."""
        for number, (spec, blob) in enumerate(zip(layer.param, blobs, strict=False)):
            if not spec.name:
                continue
            shape = _shape(blob)
            owned, multipliers = self._owners.setdefault(spec.name, (shape, {}))
            counts = math.prod(shape), math.prod(owned)
            if shape != owned and (spec.share_mode != spec.PERMISSIVE or counts[0] != counts[1]):
                raise ValueError(
                    f"blob {number} has shape {shape} and shares the parameter {spec.name!r}, "
                    f"which has shape {owned}"
                )
            for name in ("lr_mult", "decay_mult"):
                value = getattr(spec, name)
                if spec.HasField(name) and multipliers.setdefault(name, value) != value:
                    raise ValueError(
                        f"blob {number} has {name} {value:g} and shares the parameter "
                        f"{spec.name!r}, which has {multipliers[name]:g}"
                    )


def _uses(layers: Sequence[Layer]) -> tuple[dict[Place, Place | str], Counter[Place | str]]:
    """Return the source of each bottom, and how often each source is used.

    Bottoms and sources are places: the number of a layer, and of a bottom or a top in it. The
    source of an input of the net is its name. A source is used by layers, or as a loss, until a
    layer writes it in place. If more than once, Caffe splits it into blobs with other names, which
    no layer then writes in place, and moves its loss_weight (``InsertSplits`` in
    ``util/insert_splits.cpp``).
    """
    newest: dict[str, Place | str] = {}
    sources: dict[Place, Place | str] = {}
    counts: Counter[Place | str] = Counter()
    for at, layer in enumerate(layers):
        for number, name in enumerate(layer.bottoms):
            sources[at, number] = newest.get(name, name)
            counts[sources[at, number]] += 1
        newest |= {name: (at, number) for number, name in enumerate(layer.tops)}
        for name, weight in zip(layer.tops, layer.proto.loss_weight, strict=False):
            counts[newest[name]] += weight != 0
    return sources, counts


def _require_allocatable(
    layer: LayerParameter, tops: list[Shape | None], expected: list[ExpectedBlob] | None
) -> None:
    """Raise ValueError if Caffe cannot allocate the tops and the blobs of a layer, or fill them."""
    for shape in (*filter(None, tops), *map(_shape, expected or [])):
        require_blob(shape)
    for number, blob in enumerate(expected or []):
        if blob.filler is None:
            continue
        with naming(f"blob {number}"):
            require_filler(_shape(blob), blob.filler)
    if expected is not None and len(layer.param) > len(expected):
        raise ValueError(
            f"expected one param for each of {len(expected)} blobs, got {len(layer.param)}"
        )


def _require_settings(layer: LayerParameter, uses: list[int]) -> None:
    """Raise ValueError if Caffe refuses settings that layers of every type have.

    `uses` says how often each top is used.
    """
    require_complete(layer)
    # Caffe adds the top of a loss, and its weight.
    kind = type_of(layer)
    loss = kind is not None and kind.fewest_tops == 0
    tops = len(layer.top) or int(loss)
    # It moves the weights if it splits a top that has one.
    split = any(weight and use > 1 for weight, use in zip(layer.loss_weight, uses, strict=False))
    weights = 0 if split else len(layer.loss_weight)
    for name, given, count, what in (
        ("loss_weight", weights or int(loss), tops, "tops"),
        ("propagate_down", len(layer.propagate_down), len(layer.bottom), "bottoms"),
    ):
        if given and given != count:
            raise ValueError(f"expected one {name} for each of {count} {what}, got {given}")
    # If there are three, Caffe sets lr_mult to 0 itself.
    statistics = layer.param if layer.type == "BatchNorm" and len(layer.param) != 3 else ()  # noqa: PLR2004  # all of a BatchNorm
    if any(spec.lr_mult for spec in statistics):
        raise ValueError("expected lr_mult: 0 for its statistics, which are not learned")


def _with_names(shape: Partial | None) -> str:
    if shape is None:
        return "(...)"
    names = ("batch", "channels", "height", "width")
    dims = [name if dim is None else str(dim) for name, dim in zip(names, shape, strict=False)]
    return f"({', '.join(dims)})"


def shared_entry(layer: Layer, number: int, entry: Entry, shape: Shape) -> Entry:
    """Return a blob, which may be that of another layer, in the shape that a layer asks for.

    Raises
    ------
    ValueError
        If the layers cannot share it.
    """
    if shape == entry.shape:
        return entry
    spec = layer.proto.param[number]
    if (spec.share_mode == spec.PERMISSIVE and math.prod(shape) == entry.blob.size) or shapes_agree(
        shape, entry.shape, our_legacy=False, their_legacy=entry.legacy
    ):
        return Entry(entry.blob.reshape(shape), shape, legacy=False)
    raise _error(
        layer,
        f"blob {number} has shape {shape} and shares the parameter {spec.name!r}, which has shape "
        f"{entry.shape}",
    )


def _require_fitting(layer: Layer, expected: list[ExpectedBlob]) -> None:
    entries = layer.blobs.entries
    if len(entries) != len(expected):
        raise _error(layer, f"expected {len(expected)} blobs, got {len(entries)}")
    for number, (place, entry) in enumerate(zip(expected, entries, strict=True)):
        if not place.fits(entry.blob.shape, legacy=entry.legacy):
            raise _error(layer, f"blob {number}: expected shape {place}, got {entry.blob.shape}")


def _shape(expected: ExpectedBlob) -> Shape:
    return _known(expected.dims)


def _known(dims: Partial) -> Shape:
    """Return a shape whose dimensions are all known."""
    return tuple(dim for dim in dims if dim is not None)


def _as_shape(name: str, shape: Sequence[SupportsIndex]) -> Shape:
    with naming(f"the shape of {name!r}"):
        dims = as_shape(shape)
        require_blob(dims)
    return dims


def _error(layer: Layer, problem: str) -> ValueError:
    return ValueError(f"layer {layer.name!r} ({layer.type or 'of no type'}): {problem}")
