"""The types of layers: Caffe's shapes of tops and blobs, from settings and the shapes of bottoms.

The table at the end has a row for each type. Its functions raise ValueError if shapes do not fit
each other or the settings; the caller adds the name of the layer. Settings that say nothing about
shapes are not checked.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from syncblob.caffe._pb.caffe_pb2 import FillerParameter, ForkLayer, LayerParameter
from syncblob.caffe.messages.fields import (
    LEGACY_AXES,
    MOST_AXES,
    MOST_ELEMENTS,
    Shape,
    pad_axes,
    shapes_agree,
)
from syncblob.caffe.messages.upgrade_old_nets import DATA_LAYERS
from syncblob.caffe.nets.layer import Layer
from syncblob.formats import Blob

Partial = tuple[int | None, ...]
"""A shape with None for unknown dimensions."""

_IMAGES = {**DATA_LAYERS, "MemoryData": "memory_data_param"}
DATA = {*_IMAGES, "DummyData", "HDF5Data", "Input"}
"""The types whose tops have the shapes of data."""
_STATES = {"LSTM": 2, "RNN": 1}
"""The number of states that a recurrent layer passes from step to step, by type."""
_ANY = 1 << 30
_SAME_RATIO = 1e-6


class ExpectedBlob(NamedTuple):
    """The shape of a blob that the settings imply, and Caffe's filler for a new one."""

    dims: Partial
    filler: FillerParameter | float | None = None
    """The filler, or the constant that Caffe uses without one; None if it leaves zeros."""
    repeats: bool = False
    """Whether more dimensions may follow that are equal to the last one, or it may be absent."""
    legacy: bool = False
    """Whether it is that of a blob with num, channels, height and width."""

    def fits(self, shape: Shape, *, legacy: bool) -> bool:
        """Compare a shape with this one."""
        dims = self.dims
        if self.repeats:
            dims += dims[-1:] * (len(shape) - len(dims))
            dims = dims[: max(2, len(shape))]  # without spatial axes there is no kernel
        return shapes_agree(dims, shape, our_legacy=legacy or self.legacy, their_legacy=legacy)

    def __str__(self) -> str:
        dims = ["?" if dim is None else str(dim) for dim in self.dims] + ["..."] * self.repeats
        return f"({', '.join(dims)}{',' * (len(dims) == 1)})"


class LayerType(NamedTuple):
    """What is known of a type. The functions take the settings, and the shapes of the bottoms."""

    tops: Callable[..., Sequence[Partial | None]]
    """Returns the shapes of as many tops as the layer can have."""
    settings: str = ""
    """The field with the settings; without one, the functions take the whole layer.

    For types of forks, it is one of `ForkLayer`, and without it the shapes are not known.
    """
    fewest: int = 1
    most: int = 1
    """The number of bottoms."""
    fewest_tops: int | None = None
    """The tops that it must have; None for all. To a loss, of which it is 0, Caffe adds one."""
    blobs: Callable[..., list[ExpectedBlob] | None] = lambda *_: []
    """Returns the blobs after training, with fewer dimensions known if no bottoms are given."""

    @property
    def needs(self) -> str:
        """The field of `ForkLayer` that must be there; ``""`` for none."""
        return self.settings if self.settings in ForkLayer.DESCRIPTOR.fields_by_name else ""

    def settings_of(self, layer: LayerParameter) -> Any:
        """Return what the functions take."""
        owner: Any = fork_settings(layer) if self.needs else layer
        return getattr(owner, self.settings) if self.settings else owner


# --- what other modules ask -----------------------------------------------------------------------


def fork_settings(layer: LayerParameter) -> ForkLayer:
    """Return the settings of forks among the unknown fields of a layer."""
    return ForkLayer.FromString(layer.SerializePartialToString())


def why_unknown(layer: LayerParameter) -> str:
    """Return why the shapes of the tops do not follow from those of the bottoms; else ``""``."""
    kind = _TYPES.get(layer.type)
    if kind is not None and kind.needs and not fork_settings(layer).HasField(kind.needs):
        return f"its {kind.needs} is missing; read_prototxt(path, forks=True) reads it"
    if kind is not None:
        return ""
    if layer.type == "Python":
        return "its shapes are in its Python code"
    if layer.type:
        return "its type is not one of Caffe's"
    return "the file does not say its type; a .caffemodel or a .prototxt does"


def top_shapes(
    layer: LayerParameter, bottoms: Sequence[Shape] | None, first: Shape | None = None
) -> Sequence[Partial | None]:
    """Return the shapes of the tops of a layer; None for unknown ones."""
    if why_unknown(layer):
        return [None] * len(layer.top)
    kind = _TYPES[layer.type]
    _require_number("bottoms", len(layer.bottom), kind.fewest, kind.most)
    if bottoms is None:
        return [None] * len(layer.top)
    tops = kind.tops(kind.settings_of(layer), *bottoms)
    fewest = len(tops) if kind.fewest_tops is None else kind.fewest_tops
    _require_number("tops", len(layer.top), fewest, max(fewest, len(tops)))
    if first is not None and layer.type in _IMAGES:
        tops = [first, first[:1]]
    return tops[: len(layer.top)]


def expected_blobs(
    layer: LayerParameter, bottoms: Sequence[Shape] | None = None
) -> list[ExpectedBlob] | None:
    """Return the blobs that a layer has after training; None if its type is unknown."""
    if why_unknown(layer):
        return None
    kind = _TYPES[layer.type]
    return kind.blobs(kind.settings_of(layer), *bottoms or ())


def require_blob(shape: Shape) -> None:
    """Raise ValueError if Caffe cannot allocate a blob of a shape."""
    _expect(len(shape) <= MOST_AXES, f"a blob of at most {MOST_AXES} axes", len(shape))
    _expect(min(shape, default=0) >= 0, "no negative dimension", shape)
    # As Caffe multiplies: from the left, so dimensions after a 0 do not count.
    count = max(accumulate(shape, operator.mul), default=1)
    _expect(count <= MOST_ELEMENTS, f"a blob of at most {MOST_ELEMENTS} values", shape)


def squeezed_blobs(layer: Layer) -> list[Blob]:
    """Return the blobs of a layer without the leading axes of 1 that the older formats add.

    A bias of shape (1, 1, 1, 32) becomes a view of shape (32,). If the settings do not determine
    the number of axes, the blobs are returned as they are.
    """
    return [
        blob if blob.shape == shape else blob.reshape(shape)
        for blob, shape in zip(layer.blobs, own_shapes(layer), strict=True)
    ]


def mark_legacy(layer: Layer) -> None:
    """Mark the blobs that `squeezed_blobs` would change, to be written with four old dimensions.

    Caffe accepts these for the shape in a running net. It would refuse them in a `shape` message.
    """
    entries = layer.blobs.entries
    for number, shape in enumerate(own_shapes(layer)):
        if entries[number].blob.shape != shape:
            entries[number] = entries[number]._replace(legacy=True)


def own_shapes(layer: Layer) -> list[Shape]:
    """Return the shapes that the blobs of a layer have in a running net, without axes in front."""
    shapes = [blob.shape for blob in layer.blobs]
    if all(len(shape) != LEGACY_AXES for shape in shapes):
        return shapes
    expected = expected_blobs(layer.proto)
    # Without settings, it is not known that a layer has no bias, which comes last.
    if expected is None or len(expected) < len(shapes):
        return shapes
    for number, (shape, blob) in enumerate(zip(shapes, expected, strict=False)):
        short = shape[LEGACY_AXES - len(blob.dims) :]
        if len(shape) == LEGACY_AXES > len(short) and shape == pad_axes(short) and not blob.repeats:
            shapes[number] = short
    return shapes


# --- checks ---------------------------------------------------------------------------------------


def _expect(fits: object, expected: str, *found: object) -> None:
    if not fits:
        raise ValueError(f"expected {expected}, got {', '.join(map(str, found))}")


def _require_number(what: str, count: int, fewest: int, most: int) -> None:
    upper = " or more" if most == _ANY else "" if fewest == most else f" to {most}"
    _expect(fewest <= count <= most, f"{fewest}{upper} {what}", count)


def _require_axes(shape: Shape, count: int) -> None:
    _expect(len(shape) == count, f"a bottom of {count} axes", shape)


def _axis_of(index: int, shape: Shape) -> int:
    """Return an axis as a non-negative index. Negative ones count from the end."""
    if not -len(shape) <= index < len(shape):
        raise ValueError(f"axis {index} is out of range for its bottom, of shape {shape}")
    return index % len(shape)


def _with(shape: Shape, axis: int, *dims: int) -> Shape:
    """Return a shape with other dimensions in place of one."""
    return (*shape[:axis], *dims, *shape[axis + 1 :])


def _sides(shape: Shape) -> list[int]:
    """Return num, channels, height and width. Caffe has these of at most four axes."""
    _expect(len(shape) <= LEGACY_AXES, f"at most {LEGACY_AXES} axes", shape)
    return [*shape, *[1] * (LEGACY_AXES - len(shape))]


def _outputs(settings: Any) -> int:
    _expect(settings.num_output > 0, "a num_output of 1 or more", settings.num_output)
    return int(settings.num_output)


def _as_image(dims: Iterable[int]) -> Shape:
    image = tuple(dims)
    if min(image, default=0) < 0:
        raise ValueError(f"the image is too small: the result would be of size {image}")
    return image


def _channels(bottoms: tuple[Shape, ...]) -> int | None:
    return bottoms[0][1] if bottoms else None


# --- convolutions and pooling ---------------------------------------------------------------------


def _of_axes(settings: Any, name: str, count: int, default: int | None = None) -> list[int]:
    """Return a setting that a convolution has once for all spatial axes or once per axis."""
    values = list(getattr(settings, name))
    sides = [f"{name.removesuffix('_size')}_{side}" for side in "hw"]
    fields = settings.DESCRIPTOR.fields_by_name
    if any(side in fields and settings.HasField(side) for side in sides):
        if values or count != len(sides):
            raise ValueError(f"{' and '.join(sides)} are for 2 spatial axes, in place of {name}")
        values = [getattr(settings, side) for side in sides]
    elif not values and default is not None:
        values = [default]
    once_each = f"{name} once, or once for each of {count} spatial axes"
    _expect(len(values) in (1, count), once_each, values)
    if len(values) == 1:
        values *= count
    _expect(name in {"pad", "dilation"} or all(values), f"a {name} of 1 or more", values)
    return values


def _convolve(settings: Any, image: Shape, *, spreads: bool = False) -> Shape:
    """Return the size of an image after a convolution, or after one that `spreads` it."""
    windows = (
        _of_axes(settings, name, len(image), default)
        for name, default in (("kernel_size", None), ("dilation", 1), ("stride", 1), ("pad", 0))
    )
    dims = []
    for size, kernel, hole, stride, pad in zip(image, *windows, strict=True):
        extent = hole * (kernel - 1) + 1
        room = size + 2 * pad - extent
        # C++ rounds toward zero: a window a little larger than the image gives one value.
        after = (room // stride if room >= 0 else -(-room // stride)) + 1
        dims.append(stride * (size - 1) + extent - 2 * pad if spreads else after)
    return _as_image(dims)


def _convolution(layer: LayerParameter, first: Shape, *others: Shape) -> list[Shape]:
    settings = layer.convolution_param
    axis = _axis_of(settings.axis, first)
    _expect(len({first, *others}) == 1, "bottoms of one shape", first, *others)
    group, outputs, channels = settings.group, settings.num_output, first[axis]
    _expect(
        outputs > 0 and group > 0 and channels % group == outputs % group == 0,
        "num_output and channels that are multiples of group, and not 0",
        *(outputs, channels, group),
    )
    dims = _convolve(settings, first[axis + 1 :], spreads=layer.type == "Deconvolution")
    return [(*first[:axis], outputs, *dims)] * (1 + len(others))


def _convolution_blobs(layer: LayerParameter, *bottoms: Shape) -> list[ExpectedBlob]:
    settings = layer.convolution_param
    outputs, group, inputs = settings.num_output, max(1, settings.group), None
    kernel: Partial = tuple(settings.kernel_size)
    if bottoms:
        axis = _axis_of(settings.axis, bottoms[0])
        inputs = bottoms[0][axis]
        kernel = tuple(_of_axes(settings, "kernel_size", len(bottoms[0]) - axis - 1))
    elif settings.HasField("kernel_h") or settings.HasField("kernel_w"):
        kernel = (settings.kernel_h, settings.kernel_w)
    # A single size applies to all axes of the input. A layer made by hand may have no size.
    repeats = not bottoms and len(kernel) <= 1
    first, second = (inputs, outputs) if layer.type == "Deconvolution" else (outputs, inputs)
    dims = (first, None if second is None else second // group, *kernel)
    return _weight_and_bias(settings, dims, outputs, repeats=repeats)


def _weight_and_bias(
    settings: Any, dims: Partial, outputs: int | None, *, repeats: bool = False
) -> list[ExpectedBlob]:
    bias = ExpectedBlob((outputs,), settings.bias_filler)
    return [ExpectedBlob(dims, settings.weight_filler, repeats), *[bias] * settings.bias_term]


def _im2col(settings: Any, bottom: Shape) -> list[Shape]:
    axis = _axis_of(settings.axis, bottom)
    image = bottom[axis + 1 :]
    channels = bottom[axis] * math.prod(_of_axes(settings, "kernel_size", len(image)))
    return [(*bottom[:axis], channels, *_convolve(settings, image))]


def _pooling(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    _require_axes(bottom, LEGACY_AXES)
    settings = layer.pooling_param
    kernel = _of_sides(settings, "kernel", "kernel_size")
    stride, pad = _of_sides(settings, "stride"), _of_sides(settings, "pad")
    windows = settings.global_pooling or all(kernel + stride)
    _expect(windows, "kernel_size and stride above 0", kernel, stride)
    if settings.global_pooling:
        pooled: Shape = (1, 1)
    else:
        floor = settings.round_mode == settings.FLOOR
        pooled = _pool(bottom[2:], kernel, stride, pad, floor=floor)
    return [(*bottom[:2], *pooled)] * (1 + (settings.pool == settings.MAX))


def _of_sides(settings: Any, stem: str, both: str = "") -> list[int]:
    """Return a setting for height and width that is given for each, or for both at once."""
    sides = [f"{stem}_h", f"{stem}_w"]
    given = [settings.HasField(side) for side in sides]
    _expect(any(given) == all(given) or both, f"{sides[0]} and {sides[1]}, or neither", given)
    return [getattr(settings, side if all(given) else both or stem) for side in sides]


def _pool(
    image: Shape, kernel: list[int], stride: list[int], pad: list[int], *, floor: bool = False
) -> Shape:
    dims = []
    for size, extent, step, border in zip(image, kernel, stride, pad, strict=True):
        room = size + 2 * border - extent
        count = (room // step if floor else -(-room // step)) + 1
        # The last window must start inside the image, not in the padding after it.
        dims.append(count - (any(pad) and (count - 1) * step >= size + border))
    return _as_image(dims)


def _spp(settings: Any, bottom: Shape) -> list[Shape]:
    _require_axes(bottom, LEGACY_AXES)
    num, channels, *image = bottom
    height = settings.pyramid_height
    _expect(height > 0 and all(image), "an image, and a pyramid_height of 1 or more", image, height)
    counts = []
    for level in range(height):
        kernel = [-(-size // 2**level) for size in image]
        pad = [(k * 2**level - size + 1) // 2 for k, size in zip(kernel, image, strict=True)]
        coarse = all(p < k for p, k in zip(pad, kernel, strict=True))
        _expect(coarse, f"an image large enough for level {level} of the pyramid", image)
        pooled = _pool(tuple(image), kernel, kernel, pad)
        if height == 1:
            return [(num, channels, *pooled)]
        counts.append(math.prod(pooled))
    return [(num, channels * sum(counts))]


# --- products and sequences -----------------------------------------------------------------------


def _inner_product_blobs(settings: Any, *bottoms: Shape) -> list[ExpectedBlob]:
    inputs = math.prod(bottoms[0][_axis_of(settings.axis, bottoms[0]) :]) if bottoms else None
    dims = (settings.num_output, inputs)
    ordered = dims[::-1] if settings.transpose else dims
    return _weight_and_bias(settings, ordered, settings.num_output)


def _recurrent(layer: LayerParameter, x: Shape, cont: Shape, *others: Shape) -> list[Shape]:
    settings = layer.recurrent_param
    steps = x[:2]
    fits = steps < x and len(steps) > 1 and cont == steps
    _expect(fits, "bottoms of shapes (steps, streams, ...) and (steps, streams)", x, cont)
    state = (1, x[1], _outputs(settings))
    exposed = [state] * (_STATES[layer.type] * settings.expose_hidden)
    static = others[: max(0, len(others) - len(exposed))]
    fits = len(static) <= 1 and all(shape[:1] == x[1:2] for shape in static)
    _expect(
        fits and list(others[len(static) :]) == exposed,
        f"perhaps a static input of shape ({x[1]}, ...), and then {len(exposed)} states of shape "
        f"{state}",
        *others or ["none"],
    )
    return [(*steps, settings.num_output), *exposed]


def _recurrent_blobs(layer: LayerParameter, *bottoms: Shape) -> list[ExpectedBlob]:
    """Return the blobs of the unrolled net, in the order in which its layers own them."""
    settings = layer.recurrent_param
    lstm, size = layer.type == "LSTM", settings.num_output
    gates = 4 * size if lstm else size
    # The bottoms are the sequence, its continuation marks, perhaps a static input, and then the
    # exposed states.
    static = len(layer.bottom) > 2 + settings.expose_hidden * _STATES[layer.type]
    inputs = [math.prod(bottoms[0][2:]) if bottoms else None]
    if static:
        inputs.append(math.prod(bottoms[2][1:]) if bottoms else None)
    weight = partial(ExpectedBlob, filler=settings.weight_filler)
    bias = partial(ExpectedBlob, filler=settings.bias_filler)
    of_inputs = [weight((gates, count)) for count in inputs]
    of_output = [] if lstm else [weight((size, size)), bias((size,))]
    return [of_inputs[0], bias((gates,)), *of_inputs[1:], weight((gates, size)), *of_output]


def _lstm_unit(_layer: LayerParameter, cell: Shape, gates: Shape, cont: Shape) -> list[Shape]:
    size = cell[_axis_of(2, cell)]
    marks = (1, cell[1])
    _expect(
        (cell, gates, cont) == ((*marks, size), (*marks, 4 * size), marks),
        "bottoms of shapes (1, streams, size), (1, streams, 4 * size) and (1, streams)",
        *(cell, gates, cont),
    )
    return [cell] * 2


# --- elementwise ----------------------------------------------------------------------------------


def _same_with_channels(_layer: object, bottom: Shape) -> list[Shape]:
    _axis_of(1, bottom)
    return [bottom]


def _factors(
    settings: Any, *bottoms: Shape, name: str = "filler", default: float = 0.25
) -> list[ExpectedBlob]:
    """Return the factors of the channels, or the one that all of them share."""
    dims = () if settings.channel_shared else (_channels(bottoms),)
    return [ExpectedBlob(dims, _filler(settings, name, default))]


def _filler(settings: Any, name: str, default: float) -> FillerParameter | float:
    return getattr(settings, name) if settings.HasField(name) else default


def _eltwise(_layer: object, *bottoms: Shape) -> list[Shape]:
    _expect(len({*bottoms}) == 1, "bottoms of one shape", *bottoms)
    return [bottoms[0]]


def _broadcast_settings(layer: LayerParameter) -> tuple[bool, Any]:
    of_scale = layer.type == "Scale"
    return of_scale, layer.scale_param if of_scale else layer.bias_param


def _broadcast(layer: LayerParameter, first: Shape, *others: Shape) -> list[Shape]:
    of_scale, settings = _broadcast_settings(layer)
    count = len(others[0]) if others else settings.num_axes
    axis = 0  # a second bottom without axes fits any first one
    if others != ((),) or (of_scale and settings.bias_term):
        axis = _axis_of(settings.axis, first)
    _expect(
        -1 <= count <= len(first) - axis, f"num_axes that {first} has from axis {axis} on", count
    )
    part = first[axis : axis + count]
    _expect(not others or others[0] == part, f"a second bottom of shape {part}", *others)
    return [first]


def _broadcast_blobs(layer: LayerParameter, *bottoms: Shape) -> list[ExpectedBlob] | None:
    """Return factors, offsets or both. A second bottom replaces the first of them."""
    (of_scale, settings), has_other = _broadcast_settings(layer), len(layer.bottom) > 1
    if has_other and not (of_scale and settings.bias_term):
        return []
    if has_other and not bottoms:
        return None
    count = len(bottoms[1]) if has_other else settings.num_axes
    dims: Partial = (None,) * count
    if bottoms:
        axis = _axis_of(settings.axis, bottoms[0]) if count else 0
        dims = bottoms[0][axis:] if count < 0 else bottoms[0][axis : axis + count]
    elif count < 0:
        return None
    if not of_scale:
        return [ExpectedBlob(dims, settings.filler)]
    factors = ExpectedBlob(dims, _filler(settings, "filler", 1.0))
    offsets = ExpectedBlob(dims, settings.bias_filler)
    return [factors] * (not has_other) + [offsets] * settings.bias_term


# --- arranging ------------------------------------------------------------------------------------


def _old_axis(settings: Any, old: str, shape: Shape) -> int:
    """Return the axis, which has another name in older nets."""
    return _axis_of(getattr(settings, old if settings.HasField(old) else "axis"), shape)


def _concat(settings: Any, *bottoms: Shape) -> list[Shape]:
    axis = _old_axis(settings, "concat_dim", bottoms[0])
    rest = {(len(shape), *_with(shape, axis)) for shape in bottoms}
    _expect(len(rest) == 1, f"bottoms that differ along axis {axis} only", *bottoms)
    return [_with(bottoms[0], axis, sum(shape[axis] for shape in bottoms))]


def _slice(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    settings, count = layer.slice_param, len(layer.top)
    axis = _old_axis(settings, "slice_dim", bottom)
    size = bottom[axis]
    points = list(settings.slice_point)
    if not points and count and size % count == 0:
        points = [size // count * number for number in range(1, count)]
    ends = [0, *points, size]
    # Caffe lets the last part be empty if slice_point says so.
    rises = max(count, ends[-2]) <= size and all(a < b for a, b in pairwise(ends[:-1]))
    _expect(
        len(ends) == count + 1 and (rises or not settings.slice_point),
        f"axis {axis}, of {size} values, to be divided among {count} tops by slice_point, or "
        f"equally",
        list(settings.slice_point),
    )
    return [_with(bottom, axis, b - a) for a, b in pairwise(ends)]


def _flatten(settings: Any, bottom: Shape) -> list[Shape]:
    first = _axis_of(settings.axis, bottom)
    behind = _axis_of(settings.end_axis, bottom) + 1
    # As in Caffe, an end_axis just before the axis inserts one of length 1.
    _expect(behind >= first, f"end_axis at or after axis {first}", behind - 1)
    return [(*bottom[:first], math.prod(bottom[first:behind]), *bottom[behind:])]


def _reshape(settings: Any, bottom: Shape) -> list[Shape]:
    first = settings.axis + (len(bottom) + 1 if settings.axis < 0 else 0)
    behind = len(bottom) if settings.num_axes == -1 else first + settings.num_axes
    fits = 0 <= first <= behind <= len(bottom)
    _expect(fits, f"axes of {bottom}", f"{settings.num_axes} from axis {settings.axis} on")
    dims = [
        dim or bottom[_axis_of(first + number, bottom)]
        for number, dim in enumerate(settings.shape.dim)
    ]
    shape = [*bottom[:first], *dims, *bottom[behind:]]
    if dims.count(-1) == 1:
        known = -math.prod(shape)
        shape[shape.index(-1)] = math.prod(bottom) // known if known else -1
    fits = min(shape, default=0) >= 0 and math.prod(shape) == math.prod(bottom)
    _expect(fits, f"a shape for the values of {bottom}", list(settings.shape.dim))
    return [tuple(shape)]


def _crop(settings: Any, first: Shape, second: Shape) -> list[Shape]:
    axis = _axis_of(settings.axis, first)
    cut, wanted = first[axis:], second[axis : len(first)]
    offsets = list(settings.offset) or [0]
    if len(offsets) == 1:
        offsets *= len(cut)
    fits = len(cut) == len(wanted) == len(offsets) and all(
        size - skip >= part for size, skip, part in zip(cut, offsets, wanted, strict=True)
    )
    expected = f"a second bottom that fits into {first} from axis {axis} on, after the offsets"
    _expect(fits, expected, second, list(settings.offset))
    return [first[:axis] + wanted]


def _tile(settings: Any, bottom: Shape) -> list[Shape]:
    axis, tiles = _axis_of(settings.axis, bottom), settings.tiles
    _expect(tiles > 0, "tiles of 1 or more", tiles)
    return [_with(bottom, axis, bottom[axis] * tiles)]


def _argmax(settings: Any, bottom: Shape) -> list[Shape]:
    if settings.HasField("axis"):
        axis = _axis_of(settings.axis, bottom)
        found, among = _with(bottom, axis, settings.top_k), bottom[axis]
    else:
        num, among = bottom[_axis_of(0, bottom)], math.prod(bottom[1:])
        found = (num, 1 + settings.out_max_val, settings.top_k, *[1] * (len(bottom) - 3))
    _expect(1 <= settings.top_k <= among, f"a top_k from 1 to {among}", settings.top_k)
    return [found]


def _batch_reindex(_layer: object, values: Shape, indices: Shape) -> list[Shape]:
    _require_axes(indices, 1)
    return [indices + values[1:]]


def _filter(_layer: object, *bottoms: Shape) -> list[Shape]:
    *items, selector = bottoms
    # An upper bound: the number of items is only known at run time.
    fits = len(selector) > 0 and all(shape[:1] == (math.prod(selector),) for shape in bottoms)
    _expect(fits, "items along the first axis, and a selector of shape (items,) last", *bottoms)
    return items


# --- losses ---------------------------------------------------------------------------------------


def _label_loss(
    settings: Any, scores: Shape, labels: Shape, _matrix: Shape = (), *, second: bool = True
) -> list[Shape]:
    axis = _axis_of(settings.axis, scores)
    count = math.prod(_with(scores, axis))
    _expect(
        math.prod(labels) == count,
        f"{count} labels for scores of shape {scores} with the classes along axis {axis}",
        f"labels of shape {labels}",
    )
    return [(), scores if second else (scores[axis],)]


def _batch_loss(
    layer: LayerParameter, first: Shape, second: Shape, _similar: Shape = ()
) -> list[Shape]:
    fits = first[:1] == second[:1] != ()
    if layer.type in {"EuclideanLoss", "SigmoidCrossEntropyLoss"}:
        fits = fits and math.prod(first) == math.prod(second)
    _expect(fits, "bottoms that fit each other", first, second)
    return [()]


# --- layers that read data ------------------------------------------------------------------------


def _of_shapes(layer: LayerParameter) -> list[Partial | None]:
    """Return the shapes in the settings of Input, and of DummyData, which may have old ones."""
    settings: Any = layer.input_param if layer.type == "Input" else layer.dummy_data_param
    count = len(layer.top)
    if layer.type == "DummyData":
        dims = [settings.num, settings.channels, settings.height, settings.width]
        if any(dims):
            return list(zip(*(_for_tops(list(values), count) for values in dims), strict=True))
    shapes: list[Partial | None] = [tuple(shape.dim) for shape in settings.shape]
    return _for_tops(shapes or [None] * (layer.type == "Input"), count)


def _for_tops(values: list[Any], count: int) -> list[Any]:
    """Return a value for each top; a single value applies to all."""
    _expect(len(values) in (1, count), f"a shape for each of {count} tops, or one", len(values))
    return values if len(values) == count else values * count


def _images(layer: LayerParameter) -> list[Partial]:
    settings: Any = getattr(layer, _IMAGES[layer.type])
    side = getattr(settings, "crop_size", 0) or layer.transform_param.crop_size or None
    image: Partial = (None, side, side)
    if layer.type == "MemoryData":
        image = (settings.channels, settings.height, settings.width)
    elif layer.type == "ImageData":
        height, width = side or settings.new_height, side or settings.new_width
        image = (3 if settings.is_color else 1, height or None, width or None)
    batch = settings.batch_size or None
    return [(batch, *image), (batch,)]


# --- types of forks -------------------------------------------------------------------------------


def _permute(settings: Any, bottom: Shape) -> list[Shape]:
    # weiliu89/caffe, branch ssd: permute_layer.cpp.
    order = list(settings.order)
    fits = len(set(order)) == len(order) and max(order, default=-1) < len(bottom)
    _expect(fits, f"an order of different axes of {bottom}", order)
    order += [axis for axis in range(len(bottom)) if axis not in order]
    return [tuple(bottom[axis] for axis in order)]


def _prior_box(settings: Any, bottom: Shape, _image: Shape) -> list[Shape]:
    # weiliu89/caffe, branch ssd: prior_box_layer.cpp.
    ratios = [1.0]
    for ratio in settings.aspect_ratio:
        if all(abs(ratio - other) >= _SAME_RATIO for other in ratios):
            ratios += [ratio, 1 / ratio] if settings.flip else [ratio]
    count = len(ratios) * len(settings.min_size) + len(settings.max_size)
    height, width = _sides(bottom)[2:]
    fits = len(settings.max_size) in (0, len(settings.min_size))
    fits = fits and len(settings.min_size) > 0 and height * width > 0
    _expect(fits, "a min_size, as many max_size or none, and an image", settings, bottom)
    return [(1, 2, height * width * count * 4)]


def _interp(settings: Any, bottom: Shape) -> list[Shape]:
    # hszhao/PSPNet, interp_layer.cpp.
    num, channels, *image = _sides(bottom)
    pads = settings.pad_beg, settings.pad_end
    _expect(max(pads) <= 0, "pad_beg and pad_end of 0 or less", *pads)
    image = [size + sum(pads) for size in image]
    shrinks, zooms = settings.HasField("shrink_factor"), settings.HasField("zoom_factor")
    sized = settings.HasField("height") and settings.HasField("width")
    if shrinks == zooms and (sized or not shrinks):
        dims = [settings.height, settings.width]
    else:
        shrink = settings.shrink_factor if shrinks else 1
        zoom = settings.zoom_factor if zooms else 1
        _expect(min(shrink, zoom) > 0, "factors of 1 or more", shrink, zoom)
        dims = [((size - 1) // shrink) * zoom + 1 for size in image]
    _expect(min(*image, *dims) > 0, "height and width above 0", dims)
    return [(num, channels, *dims)]


def _roi_pooling(settings: Any, bottom: Shape, regions: Shape) -> list[Shape]:
    # rbgirshick/caffe-fast-rcnn, roi_pooling_layer.cpp.
    dims = settings.pooled_h, settings.pooled_w
    _expect(all(dims), "pooled_h and pooled_w above 0", *dims)
    return [(_sides(regions)[0], _sides(bottom)[1], *dims)]


# --- the table ------------------------------------------------------------------------------------

_NEURONS = """
    AbsVal BNLL Clip Dropout ELU Exp LRN Log Power ReLU Sigmoid Softmax Swish TanH Threshold
"""
_LOSSES = "EuclideanLoss HingeLoss MultinomialLogisticLoss SigmoidCrossEntropyLoss"
_TYPES = {
    **dict.fromkeys(_NEURONS.split(), LayerType(lambda _, bottom: [bottom])),
    **dict.fromkeys(_IMAGES, LayerType(_images, "", 0, 0)),
    **dict.fromkeys(("DummyData", "Input"), LayerType(_of_shapes, "", 0, 0, 1)),
    # Caffe adds a top to a loss that has none.
    **dict.fromkeys(_LOSSES.split(), LayerType(_batch_loss, "", 2, 2, 0)),
    # yonghenglh6/DepthwiseConvolution is a convolution whose group says it all.
    **dict.fromkeys(
        ("Convolution", "Deconvolution", "DepthwiseConvolution"),
        LayerType(_convolution, "", 1, _ANY, blobs=_convolution_blobs),
    ),
    **dict.fromkeys(("Scale", "Bias"), LayerType(_broadcast, "", 1, 2, blobs=_broadcast_blobs)),
    **dict.fromkeys(_STATES, LayerType(_recurrent, "", 2, 5, blobs=_recurrent_blobs)),
    "Accuracy": LayerType(partial(_label_loss, second=False), "accuracy_param", 2, 2, 1),
    "ArgMax": LayerType(_argmax, "argmax_param"),
    "BatchNorm": LayerType(
        _same_with_channels,
        # Mean and variance of each channel, and the divisor of both.
        blobs=lambda _, *bottoms: [ExpectedBlob((_channels(bottoms),))] * 2 + [ExpectedBlob((1,))],
    ),
    "BatchReindex": LayerType(_batch_reindex, "", 2, 2),
    "Concat": LayerType(_concat, "concat_param", 1, _ANY),
    "ContrastiveLoss": LayerType(_batch_loss, "", 3, 3, 0),
    "Crop": LayerType(_crop, "crop_param", 2, 2),
    "Data": LayerType(_images, "", 0, 0, 1),
    "Eltwise": LayerType(_eltwise, "", 2, _ANY),
    "Embed": LayerType(
        lambda settings, bottom: [(*bottom, _outputs(settings))],
        "embed_param",
        blobs=lambda settings, *_: _weight_and_bias(
            settings, (settings.input_dim, settings.num_output), settings.num_output
        ),
    ),
    "Filter": LayerType(_filter, "", 2, _ANY),
    "Flatten": LayerType(_flatten, "flatten_param"),
    "HDF5Data": LayerType(lambda layer: [None] * len(layer.top), "", 0, 0, 1),
    "HDF5Output": LayerType(lambda *_: [], "", 2, 2),
    "Im2col": LayerType(_im2col, "convolution_param"),
    "InfogainLoss": LayerType(_label_loss, "infogain_loss_param", 2, 3, 0),
    "InnerProduct": LayerType(
        lambda settings, bottom: [(*bottom[: _axis_of(settings.axis, bottom)], _outputs(settings))],
        "inner_product_param",
        blobs=_inner_product_blobs,
    ),
    "LSTMUnit": LayerType(_lstm_unit, "", 3, 3),
    "MVN": LayerType(lambda _, bottom: [tuple(_sides(bottom))]),
    "PReLU": LayerType(_same_with_channels, "prelu_param", blobs=_factors),
    "Parameter": LayerType(
        lambda settings: [tuple(settings.shape.dim)],
        "parameter_param",
        *(0, 0),
        blobs=lambda settings: [ExpectedBlob(tuple(settings.shape.dim))],
    ),
    "Pooling": LayerType(_pooling, fewest_tops=1),
    "Reduction": LayerType(
        lambda settings, bottom: [bottom[: _axis_of(settings.axis, bottom)]], "reduction_param"
    ),
    "Reshape": LayerType(_reshape, "reshape_param"),
    "SPP": LayerType(_spp, "spp_param"),
    "Silence": LayerType(lambda *_: [], "", 1, _ANY),
    "Slice": LayerType(_slice),
    "SoftmaxWithLoss": LayerType(_label_loss, "softmax_param", 2, 2, 0),
    "Split": LayerType(lambda layer, bottom: [bottom] * len(layer.top), fewest_tops=1),
    "Tile": LayerType(_tile, "tile_param"),
    # Types of forks.
    "Interp": LayerType(_interp, "interp_param"),
    # weiliu89/caffe, branch ssd: normalize_layer.cpp.
    "Normalize": LayerType(
        _same_with_channels, "norm_param", blobs=partial(_factors, name="scale_filler", default=1.0)
    ),
    "Permute": LayerType(_permute, "permute_param"),
    "PriorBox": LayerType(_prior_box, "prior_box_param", 2, 2),
    "ROIPooling": LayerType(_roi_pooling, "roi_pooling_param", 2, 2),
}
