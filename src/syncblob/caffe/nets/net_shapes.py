"""The shapes in a net, layer by layer, and the blobs that Caffe would allocate."""

from __future__ import annotations

import contextlib
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncblob.caffe.messages.blobproto import shapes_agree
from syncblob.caffe.nets.fillers import filled
from syncblob.caffe.nets.layer import Entry
from syncblob.caffe.nets.param_shapes import expected_blobs
from syncblob.caffe.nets.top_shapes import adds_top, data_shapes, require_blob, top_shapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import SupportsIndex

    import numpy as np

    from syncblob.caffe._pb.caffe_pb2 import LayerParameter
    from syncblob.caffe.nets.layer import Layer
    from syncblob.caffe.nets.param_shapes import ExpectedBlob
    from syncblob.caffe.nets.top_shapes import Partial, Shape

    Given = Mapping[str, Sequence[SupportsIndex]]

__all__ = [
    "NetShapes",
    "computed_blobs",
    "fill_layers",
    "infer_shapes",
    "named_entries",
    "shared_entry",
]


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
    """

    blobs: dict[str, Shape]
    params: dict[str, tuple[Shape, ...]]


@dataclass(frozen=True, slots=True)
class _Step:
    """A layer, its settings, and the blobs it should have; None if its type is unknown."""

    layer: Layer
    message: LayerParameter
    expected: list[ExpectedBlob] | None


def infer_shapes(layers: Iterable[Layer], shapes: Given) -> NetShapes:
    """Compute the shapes in a net; see `ModelFile.infer_shapes`."""
    blobs: dict[str, Shape] = {}
    params: dict[str, tuple[Shape, ...]] = {}
    for step in _steps(layers, shapes, blobs):
        if step.expected:
            params.setdefault(step.layer.name, tuple(_shape(blob) for blob in step.expected))
    return NetShapes(blobs, params)


def computed_blobs(layers: Iterable[Layer]) -> dict[str, list[ExpectedBlob]]:
    """Return the blobs of layers, by name, as far as the shapes of their bottoms are known."""
    known: dict[str, list[ExpectedBlob]] = {}
    with contextlib.suppress(ValueError):  # the shapes of data that is in a database, mostly
        for step in _steps(layers, {}, {}):
            if step.expected is not None:
                known.setdefault(step.layer.name, step.expected)
    return known


def fill_layers(
    layers: Sequence[Layer], shapes: Given, random: np.random.Generator
) -> tuple[str, ...]:
    """Give layers the blobs that they lack; see `ModelFile.fill`."""
    named = named_entries(layers)
    new = []
    for step in _steps(layers, shapes, {}):
        entries = _new_entries(step, named, random)
        if entries:
            new.append((step.layer, entries))
    for layer, entries in new:
        layer.blobs._put(entries)
    return tuple(layer.name for layer, _ in new)


def named_entries(layers: Iterable[Layer]) -> dict[str, Entry]:
    """Return the blobs of the parameters that have a name, of each the first that there is."""
    named: dict[str, Entry] = {}
    for layer in layers:
        if layer.blobs:
            _record_names(layer._definition.message(), layer.blobs._entries, named)
    return named


def _record_names(
    message: LayerParameter, entries: Sequence[Entry], named: dict[str, Entry]
) -> None:
    for spec, entry in zip(message.param, entries, strict=False):
        if spec.name:
            named.setdefault(spec.name, entry)


def _new_entries(step: _Step, named: dict[str, Entry], random: np.random.Generator) -> list[Entry]:
    """Return the blobs that a layer lacks. Record those with names, which layers share."""
    layer, specs = step.layer, step.message.param
    entries: list[Entry] = []
    if step.expected is None:
        return entries
    if layer.blobs:
        _require_fitting(layer, step.expected)
        return entries
    for number, expected in enumerate(step.expected):
        spec, shape = specs[number] if number < len(specs) else None, _shape(expected)
        if spec is not None and spec.name in named:
            entries.append(shared_entry(layer, number, named[spec.name], shape))
            continue
        try:
            blob = filled(shape, expected.filler, random)
        except ValueError as error:
            raise _error(layer, f"blob {number}: {error}") from error
        entries.append(Entry(blob, shape, legacy=False))
    _record_names(step.message, entries, named)
    return entries


def _steps(layers: Iterable[Layer], shapes: Given, blobs: dict[str, Shape]) -> Iterator[_Step]:
    """Yield the layers in order, after putting the shapes of their tops into `blobs`."""
    given = {name: _as_shape(name, shape) for name, shape in shapes.items()}
    unused = set(given)
    for layer in layers:
        message = layer._definition.message()
        bottoms = []
        for name in layer.bottoms:
            if name not in blobs:
                blobs[name] = _input(layer, name, given)
                unused.discard(name)
            bottoms.append(blobs[name])
        try:
            tops = _tops(message, bottoms, given)
            expected = expected_blobs(message, bottoms)
            _require_settings(message)
            _require_allocatable(message, tops, expected)
        except ValueError as error:
            raise _error(layer, str(error)) from error
        for number, (name, shape) in enumerate(zip(layer.tops, tops, strict=True)):
            in_place = layer.bottoms[number : number + 1] == (name,)
            if name in blobs and not in_place:
                raise _error(
                    layer,
                    f"its top {name!r} is that of an earlier layer too; if the layers are those of "
                    f"two phases, take one: ModelFile.from_net(net, phase='TEST')",
                )
            if name in given and given[name] != shape:
                raise _error(layer, f"its top {name!r} has shape {shape}, not {given[name]}")
            unused.discard(name)
            blobs[name] = shape
        yield _Step(layer, message, expected)
    if unused:
        raise ValueError(
            f"there is no blob {min(unused)!r} in the net; the keys of shapes are names of tops, "
            f"or of bottoms that no layer computes"
        )


def _tops(layer: LayerParameter, bottoms: list[Shape], given: dict[str, Shape]) -> list[Shape]:
    """Return the shapes of the tops of a layer."""
    computed = top_shapes(layer, bottoms)
    if computed is not None:
        return computed
    names = list(layer.top)
    read = data_shapes(layer, given.get(names[0]) if names else None)
    if read is None:
        return [_of_unknown_type(layer, number, bottoms, given) for number in range(len(names))]
    tops = []
    for name, shape in zip(names, read, strict=False):
        known = given.get(name, () if shape is None else shape)
        if (shape is None and name not in given) or None in known:
            raise ValueError(
                f"the shape of its top {name!r} is in the data; give it: shapes={{{name!r}: "
                f"{_with_names(shape)}}}"
            )
        tops.append(tuple(dim for dim in known if dim is not None))
    return tops


def _require_allocatable(
    layer: LayerParameter, tops: list[Shape], expected: list[ExpectedBlob] | None
) -> None:
    """Raise ValueError if Caffe cannot allocate the tops and the blobs of a layer."""
    for shape in (*tops, *map(_shape, expected or [])):
        require_blob(shape)
    if expected is not None and len(layer.param) > len(expected):
        raise ValueError(
            f"expected one param for each of {len(expected)} blobs, got {len(layer.param)}"
        )


def _require_settings(layer: LayerParameter) -> None:
    """Raise ValueError if Caffe refuses settings that layers of every type have."""
    # Caffe adds the top of a loss.
    tops = len(layer.top) or int(adds_top(layer.type))
    for name, given, count, what in (
        ("loss_weight", len(layer.loss_weight), tops, "tops"),
        ("propagate_down", len(layer.propagate_down), len(layer.bottom), "bottoms"),
    ):
        if given and given != count:
            raise ValueError(f"expected no {name}, or one for each of {count} {what}, got {given}")
    # If there are three, Caffe sets lr_mult to 0 itself.
    statistics = layer.param if layer.type == "BatchNorm" and len(layer.param) != 3 else ()  # noqa: PLR2004  # all of a BatchNorm
    if any(spec.lr_mult for spec in statistics):
        raise ValueError("expected lr_mult: 0 for its statistics, which are not learned")


def _of_unknown_type(
    layer: LayerParameter, number: int, bottoms: list[Shape], given: dict[str, Shape]
) -> Shape:
    name = layer.top[number]
    if name in given:
        return given[name]
    if list(layer.bottom[number : number + 1]) == [name]:
        return bottoms[number]  # in place
    what = (
        "its type is not one of Caffe's"
        if layer.type
        else "the file does not say its type; a .caffemodel or a .prototxt does"
    )
    raise ValueError(f"{what}; give the shape of its top: shapes={{{name!r}: (...)}}")


def _with_names(shape: Partial | None) -> str:
    if shape is None:
        return "(...)"
    names = ("batch", "channels", "height", "width")
    dims = [name if dim is None else str(dim) for name, dim in zip(names, shape, strict=False)]
    return f"({', '.join(dims)})"


def _input(layer: Layer, name: str, given: dict[str, Shape]) -> Shape:
    if name in given:
        return given[name]
    raise _error(
        layer,
        f"its bottom {name!r} is not the top of an earlier layer; if it is an input of the net, "
        f"give its shape: shapes={{{name!r}: (...)}}",
    )


def shared_entry(layer: Layer, number: int, entry: Entry, shape: Shape) -> Entry:
    """Return a blob, which may be that of another layer, in the shape that a layer asks for.

    Raises
    ------
    ValueError
        If the layers cannot share it.
    """
    if shape == entry.shape:
        return entry
    spec = layer._definition.message().param[number]
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
    entries = layer.blobs._entries
    if len(entries) != len(expected):
        raise _error(layer, f"expected {len(expected)} blobs, got {len(entries)}")
    for number, (place, entry) in enumerate(zip(expected, entries, strict=True)):
        if not place.fits(entry.blob.shape, legacy=entry.legacy):
            raise _error(layer, f"blob {number}: expected shape {place}, got {entry.blob.shape}")


def _shape(expected: ExpectedBlob) -> Shape:
    """Return a shape whose dimensions are all known."""
    return tuple(dim for dim in expected.dims if dim is not None)


def _as_shape(name: str, shape: Sequence[SupportsIndex]) -> Shape:
    try:
        dims = tuple(operator.index(dim) for dim in shape)
    except TypeError as error:
        raise TypeError(
            f"expected a tuple of integers as the shape of {name!r}, got {shape!r}"
        ) from error
    try:
        require_blob(dims)
    except ValueError as error:
        raise ValueError(f"the shape of {name!r}: {error}") from error
    return dims


def _error(layer: Layer, problem: str) -> ValueError:
    return ValueError(f"layer {layer.name!r} ({layer.type or 'of no type'}): {problem}")
