"""Caffe's shapes of the tops of a layer, from its settings and the shapes of its bottoms.

This module raises ValueError if Caffe aborts the process. The caller adds the name of the layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob.caffe._pb.caffe_pb2 import ForkLayer
from syncblob.caffe.messages.fields import LEGACY_AXES, MOST_AXES, MOST_ELEMENTS
from syncblob.caffe.nets.fillers import require_filler

if TYPE_CHECKING:
    from syncblob.caffe._pb.caffe_pb2 import (
        ConvolutionParameter,
        LayerParameter,
        PoolingParameter,
    )

Shape = tuple[int, ...]
Partial = tuple[int | None, ...]
"""A shape with None for unknown dimensions."""

_STATES = {"LSTM": 2, "RNN": 1}
"""The number of states that a recurrent layer passes from step to step, by type."""


def why_unknown(layer: LayerParameter) -> str:
    """Return why the shapes of the tops do not follow from those of the bottoms; else ``""``."""
    kind = type_of(layer)
    if layer.type == "Python" and kind is None:
        return "its shapes are in its Python code"
    if kind is None and layer.type:
        return "its type is not one of Caffe's"
    if kind is None:
        return "the file does not say its type; a .caffemodel or a .prototxt does"
    if not kind.needs or fork_settings(layer).HasField(kind.needs):
        return ""
    return f"its {kind.needs} is missing; read_prototxt(path, forks=True) reads it"


def type_of(layer: LayerParameter) -> LayerType | None:
    """Return what is known of the type of a layer: of Caffe's, and of some of forks."""
    if layer.type == "Python" and layer.python_param.layer == "ProposalLayer":
        return _TYPES["Proposal"]
    return _TYPES.get(layer.type)


def top_shapes(
    layer: LayerParameter, bottoms: Sequence[Shape] | None, first: Shape | None = None
) -> Sequence[Partial | None]:
    """Return the shapes of the tops of a layer of a known type; None for unknown ones.

    Parameters
    ----------
    layer
        The layer.
    bottoms
        The shapes of its bottoms; None if they are not known.
    first
        The shape of the first top, if known from elsewhere. The labels of images have the length of
        its first axis.
    """
    kind = type_of(layer)
    if kind is None:
        raise ValueError(why_unknown(layer))
    _require_number("bottoms", len(layer.bottom), kind.fewest, kind.most)
    if layer.type in _NOT_IN_PLACE and layer.top[:1] == layer.bottom[:1]:
        raise ValueError(f"expected another top than its bottom, got {layer.bottom[0]!r} for both")
    if bottoms is None:
        return [None] * len(layer.top)
    tops = kind.shapes(layer, *bottoms)
    fewest = len(tops) if kind.fewest_tops is None else kind.fewest_tops
    _require_number("tops", len(layer.top), fewest, max(fewest, len(tops)))
    if first is not None and layer.type in _IMAGES:
        tops = [first, first[:1]]
    return tops[: len(layer.top)]


def require_blob(shape: Shape) -> None:
    """Raise ValueError if Caffe cannot allocate a blob of a shape."""
    if len(shape) > MOST_AXES:
        raise ValueError(f"expected a blob of at most {MOST_AXES} axes, got {len(shape)}")
    if min(shape, default=0) < 0:
        raise ValueError(f"expected no negative dimension, got {shape}")
    count = 1
    for dim in shape:
        count *= dim
        if count > MOST_ELEMENTS:
            raise ValueError(
                f"expected a blob of at most {MOST_ELEMENTS} values, got shape {shape}"
            )


def axis_of(index: int, shape: Shape) -> int:
    """Return an axis as a non-negative index. Negative ones count from the end."""
    if not -len(shape) <= index < len(shape):
        raise ValueError(f"axis {index} is out of range for its bottom, of shape {shape}")
    return index % len(shape)


# --- convolutions and pooling ---------------------------------------------------------------------


def of_spatial_axes(
    settings: ConvolutionParameter, name: str, count: int, default: int | None = None
) -> list[int]:
    """Return a setting that a convolution has once for all spatial axes or once per axis.

    Parameters
    ----------
    settings
        The settings.
    name
        ``"kernel_size"``, ``"stride"``, ``"pad"`` or ``"dilation"``.
    count
        The number of spatial axes.
    default
        The value of an absent setting; None if it must be present.
    """
    values = list(getattr(settings, name))
    sides = [f"{name.removesuffix('_size')}_{side}" for side in "hw"]
    fields = settings.DESCRIPTOR.fields_by_name
    if any(side in fields and settings.HasField(side) for side in sides):
        if values or count != len(sides):
            raise ValueError(f"{' and '.join(sides)} are for 2 spatial axes, in place of {name}")
        values = [getattr(settings, side) for side in sides]
    elif not values and default is not None:
        values = [default]
    if len(values) not in (1, count):
        raise ValueError(
            f"expected {name} once, or once for each of {count} spatial axes, got {values}"
        )
    if len(values) == 1:
        values *= count
    if name in {"kernel_size", "stride"} and not all(values):
        raise ValueError(f"expected a {name} of 1 or more, got {values}")
    return values


def _extents(layer: LayerParameter, image: Shape) -> tuple[list[int], list[int], list[int]]:
    """Return the extents, strides and pads of the windows, for each spatial axis."""
    settings, count = layer.convolution_param, len(image)
    kernel, dilation, stride, pad = (
        of_spatial_axes(settings, name, count, default)
        for name, default in (("kernel_size", None), ("dilation", 1), ("stride", 1), ("pad", 0))
    )
    extents = [hole * (size - 1) + 1 for size, hole in zip(kernel, dilation, strict=True)]
    return extents, stride, pad


def _convolved(layer: LayerParameter, image: Shape) -> Shape:
    dims = []
    for size, extent, stride, pad in zip(image, *_extents(layer, image), strict=True):
        room = size + 2 * pad - extent
        # C++ rounds toward zero: a window a little larger than the image gives one value.
        dims.append((room // stride if room >= 0 else -(-room // stride)) + 1)
    return _as_image(dims)


def _divided_up(image: Shape, strides: list[int]) -> Shape:
    """Return the size with the padding of TensorFlow's SAME, pad_type 1 of synopsys-caffe."""
    return tuple(-(-size // stride) for size, stride in zip(image, strides, strict=True))


def _spread(layer: LayerParameter, image: Shape) -> Shape:
    extents, strides, pads = _extents(layer, image)
    return _as_image(
        stride * (size - 1) + extent - 2 * pad
        for size, extent, stride, pad in zip(image, extents, strides, pads, strict=True)
    )


def _convolution(layer: LayerParameter, first: Shape, *others: Shape) -> list[Shape]:
    settings = layer.convolution_param
    axis = axis_of(settings.axis, first)
    _require_equal("bottoms", first, *others)
    group, outputs, channels = settings.group, settings.num_output, first[axis]
    if not outputs or not group or channels % group or outputs % group:
        raise ValueError(
            f"expected num_output {outputs} and {channels} channels to be multiples of group "
            f"{group}, and none of them 0"
        )
    image = first[axis + 1 :]
    resized = _spread if layer.type == "Deconvolution" else _convolved
    dims = resized(layer, image)
    if layer.type != "Deconvolution" and fork_settings(layer).pad_type:
        dims = _divided_up(image, of_spatial_axes(settings, "stride", len(image), 1))
    return [(*first[:axis], outputs, *dims)] * (1 + len(others))


def _im2col(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    axis = axis_of(layer.convolution_param.axis, bottom)
    image = bottom[axis + 1 :]
    if not image:
        raise ValueError(f"expected a bottom with axes after axis {axis}, got {bottom}")
    kernel = of_spatial_axes(layer.convolution_param, "kernel_size", len(image))
    return [(*bottom[:axis], bottom[axis] * math.prod(kernel), *_convolved(layer, image))]


def _pooling(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    _require_axes(bottom, LEGACY_AXES)
    settings = layer.pooling_param
    given = [name for name in _KERNEL if settings.HasField(name)]
    if settings.global_pooling:
        if given:
            raise ValueError(f"global_pooling has no {given[0]}: the image is the window")
        kernel = list(bottom[2:])
    elif given == ["kernel_size"] or (given and given[0] == "kernel_size" and len(given) == 2):  # noqa: PLR2004  # Caffe ignores a lone side
        kernel = [settings.kernel_size] * 2
    else:
        kernel = _pair(settings, "kernel", "kernel_size")
    stride, pad = _pair(settings, "stride", "stride"), _pair(settings, "pad", "pad")
    if settings.global_pooling and (stride, pad) != ([1, 1], [0, 0]):
        raise ValueError(f"global_pooling has stride 1 and pad 0, got {stride} and {pad}")
    if not all(kernel) or not all(stride):
        raise ValueError(f"expected kernel_size and stride, got {kernel} and {stride}")
    if any(p >= k for p, k in zip(pad, kernel, strict=True)):
        raise ValueError(f"expected a pad below kernel_size, got {pad} and {kernel}")
    if any(pad) and settings.pool == settings.STOCHASTIC:
        raise ValueError(f"a stochastic pooling has no pad, got {pad}")
    floor = settings.round_mode == settings.FLOOR
    if fork_settings(layer).pad_type:
        pooled = _divided_up(bottom[2:], stride)
    else:
        pooled = _pooled(bottom[2:], kernel, stride, pad, floor=floor)
    mask = settings.pool == settings.MAX
    return [(*bottom[:2], *pooled)] * (1 + mask)


def _pair(settings: PoolingParameter, stem: str, name: str) -> list[int]:
    """Return a setting for height and width that is given for both at once or for each."""
    sides: list[Any] = [f"{stem}_h", f"{stem}_w"]
    given = [settings.HasField(side) for side in sides]
    both: Any = name
    if given[0] != given[1] or (given[0] and settings.HasField(both)):
        raise ValueError(f"expected {name}, or both {sides[0]} and {sides[1]}")
    return [getattr(settings, side if given[0] else name) for side in sides]


def _pooled(
    image: Shape, kernel: list[int], stride: list[int], pad: list[int], *, floor: bool = False
) -> Shape:
    dims = []
    for size, extent, step, border in zip(image, kernel, stride, pad, strict=True):
        room = size + 2 * border - extent
        count = (room // step if floor else -(-room // step)) + 1
        # The last window must start inside the image, not in the padding after it.
        if any(pad) and (count - 1) * step >= size + border:
            count -= 1
        dims.append(count)
    return _as_image(dims)


def _spp(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    _require_axes(bottom, LEGACY_AXES)
    num, channels, *image = bottom
    height = layer.spp_param.pyramid_height
    if not height:
        raise ValueError("expected a pyramid_height of 1 or more")
    counts = []
    for level in range(height):
        kernel = [-(-size // 2**level) for size in image]
        pad = [(k * 2**level - size + 1) // 2 for k, size in zip(kernel, image, strict=True)]
        if any(pad) and layer.spp_param.pool == layer.spp_param.STOCHASTIC:
            raise ValueError(f"a stochastic pooling has no pad, level {level} asks for {pad}")
        if any(p >= k for p, k in zip(pad, kernel, strict=True)):
            raise ValueError(
                f"level {level} of the pyramid is too fine for an image {tuple(image)}"
            )
        pooled = _pooled(tuple(image), kernel, kernel, pad)
        if height == 1:
            return [(num, channels, *pooled)]
        counts.append(math.prod(pooled))
    return [(num, channels * sum(counts))]


# --- products and sequences -----------------------------------------------------------------------


def _inner_product(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    axis = axis_of(layer.inner_product_param.axis, bottom)
    return [(*bottom[:axis], _outputs(layer.inner_product_param.num_output))]


def _embed(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    if not layer.embed_param.input_dim:
        raise ValueError("expected an input_dim of 1 or more")
    return [(*bottom, _outputs(layer.embed_param.num_output))]


def _recurrent(layer: LayerParameter, x: Shape, cont: Shape, *others: Shape) -> list[Shape]:
    settings, states = layer.recurrent_param, _STATES[layer.type]
    if len(x) <= 2 or cont != x[:2]:  # noqa: PLR2004  # time and stream
        raise ValueError(
            f"expected bottoms of shapes (steps, streams, ...) and (steps, streams), got {x} and "
            f"{cont}"
        )
    state = (1, x[1], _outputs(settings.num_output))
    exposed = [state] * (states * settings.expose_hidden)
    static = others[: max(0, len(others) - len(exposed))]
    if len(others) - len(static) < len(exposed) or len(static) > 1:
        raise ValueError(
            f"expected {len(exposed)} states, and perhaps a static input before them, got "
            f"{len(others)} more bottoms"
        )
    if static and static[0][:1] != x[1:2]:
        raise ValueError(f"expected a static input of shape ({x[1]}, ...), got {static[0]}")
    _require_equal("states", *others[len(static) :], *exposed)
    return [(*x[:2], settings.num_output), *exposed]


def _lstm_unit(_layer: LayerParameter, cell: Shape, gates: Shape, cont: Shape) -> list[Shape]:
    size = cell[axis_of(2, cell)]
    marks = (1, cell[1])
    if (cell, gates, cont) != ((*marks, size), (*marks, 4 * size), marks):
        raise ValueError(
            f"expected bottoms of shapes (1, streams, size), (1, streams, 4 * size) and "
            f"(1, streams), got {_listed([cell, gates, cont])}"
        )
    return [cell] * 2


# --- normalisation and elementwise ----------------------------------------------------------------


def _exponential(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    base = (layer.exp_param if layer.type == "Exp" else layer.log_param).base
    one = base == 1 and layer.type == "Log"
    if base != -1 and (not 0 < base < math.inf or one):
        raise ValueError(
            f"expected a finite base above 0{', except 1' * (layer.type == 'Log')}, or -1 for e, "
            f"got {base:g}"
        )
    return [bottom]


def _channels(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    axis_of(1, bottom)
    if layer.type == "PReLU":
        _sides(bottom)
    elif not bottom[0] * bottom[1]:  # Caffe divides by it
        raise ValueError(f"expected a batch with values, got {bottom}")
    return [bottom]


def _softmax(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    axis_of(layer.softmax_param.axis, bottom)
    return [bottom]


def _lrn(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    _require_axes(bottom, LEGACY_AXES)
    if not layer.lrn_param.local_size % 2:
        raise ValueError(f"expected an odd local_size, got {layer.lrn_param.local_size}")
    return [bottom]


def _eltwise(layer: LayerParameter, *bottoms: Shape) -> list[Shape]:
    settings = layer.eltwise_param
    if settings.coeff and (
        len(settings.coeff) != len(bottoms) or settings.operation == settings.PROD
    ):
        raise ValueError(
            f"expected a coeff for each of {len(bottoms)} bottoms of a sum, got "
            f"{len(settings.coeff)}"
        )
    _require_equal("bottoms", *bottoms)
    return [bottoms[0]]


def _broadcast(layer: LayerParameter, first: Shape, *others: Shape) -> list[Shape]:
    settings: Any = layer.scale_param if layer.type == "Scale" else layer.bias_param
    if others:
        axis = axis_of(settings.axis, first) if others[0] else 0
        if first[axis : axis + len(others[0])] != others[0]:
            raise ValueError(
                f"expected the shape of the second bottom to be that of {first} from axis {axis} "
                f"on, got {others[0]}"
            )
        if layer.type == "Scale" and settings.bias_term:
            axis_of(settings.axis, first)
    else:
        axis = axis_of(settings.axis, first)
        if settings.num_axes < -1 or axis + settings.num_axes > len(first):
            raise ValueError(
                f"there are no {settings.num_axes} axes from axis {axis} on in {first}"
            )
    return [first]


# --- arranging ------------------------------------------------------------------------------------


def _old_axis(settings: Any, old: str, shape: Shape) -> int:
    """Return the axis, which has another name in older nets."""
    if settings.HasField(old) and settings.HasField("axis"):
        raise ValueError(f"expected axis or {old}, got both")
    return axis_of(getattr(settings, old if settings.HasField(old) else "axis"), shape)


def _concat(layer: LayerParameter, *bottoms: Shape) -> list[Shape]:
    axis = _old_axis(layer.concat_param, "concat_dim", bottoms[0])
    rest = [shape[:axis] + shape[axis + 1 :] for shape in bottoms]
    if any(len(shape) != len(bottoms[0]) for shape in bottoms) or len(set(rest)) > 1:
        raise ValueError(
            f"expected bottoms that differ along axis {axis} only, got {_listed(bottoms)}"
        )
    return [(*bottoms[0][:axis], sum(shape[axis] for shape in bottoms), *bottoms[0][axis + 1 :])]


def _slice(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    settings, count = layer.slice_param, len(layer.top)
    axis = _old_axis(settings, "slice_dim", bottom)
    size = bottom[axis]
    points = list(settings.slice_point)
    if not points and count and size % count == 0:
        points = [size // count * number for number in range(1, count)]
    ends = [0, *points, size]
    # Caffe lets the last part be empty if slice_point says so.
    if (
        len(ends) != count + 1
        or ends[-2] > size
        or (settings.slice_point and count > size)
        or any(a >= b for a, b in pairwise(ends[:-1]) if settings.slice_point)
    ):
        raise ValueError(
            f"expected axis {axis}, of {size} values, to be divided among {count} tops by "
            f"slice_point, or equally, got {list(settings.slice_point)}"
        )
    return [(*bottom[:axis], b - a, *bottom[axis + 1 :]) for a, b in pairwise(ends)]


def _flatten(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    first = axis_of(layer.flatten_param.axis, bottom)
    behind = axis_of(layer.flatten_param.end_axis, bottom) + 1
    if behind < first:  # as in Caffe, an end_axis just before the axis inserts one of length 1
        raise ValueError(f"expected end_axis at or after axis {first}, got {behind - 1}")
    return [(*bottom[:first], math.prod(bottom[first:behind]), *bottom[behind:])]


def _reshape(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    settings = layer.reshape_param
    first = settings.axis + (len(bottom) + 1 if settings.axis < 0 else 0)
    behind = len(bottom) if settings.num_axes == -1 else first + settings.num_axes
    if not 0 <= first <= behind <= len(bottom):
        raise ValueError(
            f"there are no num_axes {settings.num_axes} from axis {settings.axis} on in {bottom}"
        )
    dims = list(settings.shape.dim)
    for number, dim in enumerate(dims):
        if dim == 0:
            if first + number >= len(bottom):
                raise ValueError(f"there is no axis {first + number} of {bottom} to copy")
            dims[number] = bottom[first + number]
    shape = [*bottom[:first], *dims, *bottom[behind:]]
    if -1 in dims:
        known = math.prod(dim for dim in shape if dim != -1)
        place = shape.index(-1)
        if dims.count(-1) == 1 and known:
            shape[place] = math.prod(bottom) // known
    if min(shape, default=0) < 0 or math.prod(shape) != math.prod(bottom):
        raise ValueError(f"the shape {list(settings.shape.dim)} does not fit {bottom}")
    return [tuple(shape)]


def _crop(layer: LayerParameter, first: Shape, second: Shape) -> list[Shape]:
    settings = layer.crop_param
    axis = axis_of(settings.axis, first)
    cut, wanted = first[axis:], second[axis : len(first)]
    offsets = list(settings.offset) or [0]
    if len(offsets) == 1:
        offsets *= len(cut)
    if len(second) < len(first) or len(offsets) != len(cut):
        raise ValueError(
            f"expected a second bottom of at least {len(first)} axes, and an offset for each axis "
            f"from {axis} on, got {first}, {second} and {list(settings.offset)}"
        )
    if any(a - skip < b for a, skip, b in zip(cut, offsets, wanted, strict=True)):
        raise ValueError(f"cannot cut {second} out of {first} at {offsets}")
    return [first[:axis] + wanted]


def _tile(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    axis, tiles = axis_of(layer.tile_param.axis, bottom), layer.tile_param.tiles
    if tiles < 1:
        raise ValueError(f"expected tiles of 1 or more, got {tiles}")
    return [(*bottom[:axis], bottom[axis] * tiles, *bottom[axis + 1 :])]


def _argmax(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    settings = layer.argmax_param
    if settings.HasField("axis"):
        axis = axis_of(settings.axis, bottom)
        found = [*bottom[:axis], settings.top_k, *bottom[axis + 1 :]]
        among = bottom[axis]
    else:
        found = [bottom[axis_of(0, bottom)], 1 + settings.out_max_val, settings.top_k]
        found += [1] * (len(bottom) - len(found))
        among = math.prod(bottom[1:])
    if not 1 <= settings.top_k <= among:
        raise ValueError(f"expected a top_k from 1 to {among}, got {settings.top_k}")
    return [tuple(found)]


def _batch_reindex(_layer: LayerParameter, values: Shape, indices: Shape) -> list[Shape]:
    _require_axes(indices, 1)
    return [indices + values[1:]]


def _filter(_layer: LayerParameter, *bottoms: Shape) -> list[Shape]:
    *items, selector = bottoms
    if (
        not selector
        or {shape[:1] for shape in items} != {selector[:1]}
        or math.prod(selector[1:]) != 1
    ):
        raise ValueError(
            f"expected a selector of shape (items,), the last bottom, and items along the first "
            f"axis of the others, got {_listed(bottoms)}"
        )
    return items  # an upper bound: the number of items is only known at run time


# --- losses ---------------------------------------------------------------------------------------


def _label_loss(
    layer: LayerParameter, scores: Shape, labels: Shape, matrix: Shape | None = None
) -> list[Shape]:
    of_type = {"InfogainLoss": layer.infogain_loss_param, "Accuracy": layer.accuracy_param}
    settings: Any = of_type.get(layer.type, layer.softmax_param)
    axis = axis_of(settings.axis, scores)
    count = math.prod(scores[:axis] + scores[axis + 1 :])
    if math.prod(labels) != count:
        raise ValueError(
            f"expected {count} labels for scores of shape {scores} with the classes along axis "
            f"{axis}, got labels of shape {labels}"
        )
    if layer.type == "Accuracy":
        if not count or settings.top_k > scores[axis]:
            raise ValueError(f"expected a top_k of at most {scores[axis]}, got {settings.top_k}")
        return [(), (scores[axis],)]
    _require_batch(scores, labels)
    if layer.type == "InfogainLoss":
        if layer.loss_param.HasField("normalize"):
            raise ValueError("expected normalization in place of normalize")
        if matrix is None and not settings.HasField("source"):
            raise ValueError("expected a source, or the matrix as the third bottom")
        if matrix is not None and math.prod(matrix) != scores[axis] ** 2:
            raise ValueError(
                f"expected a matrix of {scores[axis]} by {scores[axis]} values, got shape {matrix}"
            )
    elif len(layer.top) > 1:
        # Its own Softmax, with one top, gets the loss_weight of both.
        raise ValueError("expected one top: Caffe opens no such layer with two; add a Softmax")
    return [(), scores]


def _pair_loss(layer: LayerParameter, first: Shape, second: Shape) -> list[Shape]:
    _require_batch(first, second)
    sizes = [math.prod(first), math.prod(second)]
    if layer.type == "EuclideanLoss":
        sizes = [math.prod(first[1:]), math.prod(second[1:])]
    elif layer.type == "MultinomialLogisticLoss":
        sizes = [1, *_sides(second)[1:]]
    if layer.type != "HingeLoss" and len(set(sizes)) > 1:
        raise ValueError(f"expected bottoms that fit each other, got {_listed([first, second])}")
    return [()]


def _contrastive_loss(
    _layer: LayerParameter, first: Shape, second: Shape, similar: Shape
) -> list[Shape]:
    _require_batch(first, second)
    # The features are channels.
    features = _sides(first)[1:]
    if features[1:] != [1, 1] or _sides(second)[1:] != features or _sides(similar)[1:] != [1, 1, 1]:
        raise ValueError(
            f"expected bottoms that fit each other, got {_listed([first, second, similar])}"
        )
    return [()]


def _require_batch(first: Shape, second: Shape) -> None:
    if not first or first[:1] != second[:1]:
        raise ValueError(f"expected as many items in both bottoms, got {first} and {second}")


# --- types of forks -------------------------------------------------------------------------------


def fork_settings(layer: LayerParameter) -> ForkLayer:
    """Return the settings of forks among the unknown fields of a layer."""
    return ForkLayer.FromString(layer.SerializePartialToString())


def _depthwise(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    # farmingyard/caffe-mobilenet, conv_dw_layer.cpp: num_output, group and axis have no effect.
    num, channels, *_ = _sides(bottom)
    return [(num, channels, *_convolved(layer, tuple(_sides(bottom)[2:])))]


def _normalize(_layer: LayerParameter, bottom: Shape) -> list[Shape]:
    # weiliu89/caffe, branch ssd: normalize_layer.cpp.
    axis_of(1, bottom)
    return [bottom[: len(_sides(bottom))]]


def _permute(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    # weiliu89/caffe, branch ssd: permute_layer.cpp.
    order = list(fork_settings(layer).permute_param.order)
    if len(set(order)) < len(order) or max(order, default=-1) >= len(bottom):
        raise ValueError(f"expected an order of different axes of {bottom}, got {order}")
    order += [axis for axis in range(len(bottom)) if axis not in order]
    return [tuple(bottom[axis] for axis in order)]


def _prior_box(layer: LayerParameter, bottom: Shape, _image: Shape) -> list[Shape]:
    # weiliu89/caffe, branch ssd: prior_box_layer.cpp.
    settings = fork_settings(layer).prior_box_param
    ratios = [1.0]
    for ratio in settings.aspect_ratio:
        if all(abs(ratio - other) >= _SAME_RATIO for other in ratios):
            ratios += [ratio, 1 / ratio] if settings.flip else [ratio]
    count = len(ratios) * len(settings.min_size) + len(settings.max_size)
    height, width = _sides(bottom)[2:]
    fits = len(settings.max_size) in (0, len(settings.min_size))
    if not fits or not settings.min_size or not height * width:
        raise ValueError("expected a min_size, as many max_size or none, and an image")
    return [(1, 2, height * width * count * 4)]


def _interp(layer: LayerParameter, bottom: Shape) -> list[Shape]:
    # hszhao/PSPNet, interp_layer.cpp.
    settings = fork_settings(layer).interp_param
    num, channels, *image = _sides(bottom)
    if settings.pad_beg > 0 or settings.pad_end > 0:
        raise ValueError("expected pad_beg and pad_end of 0 or less")
    image = [size + settings.pad_beg + settings.pad_end for size in image]
    shrinks, zooms = settings.HasField("shrink_factor"), settings.HasField("zoom_factor")
    sized = settings.HasField("height") and settings.HasField("width")
    if shrinks == zooms and (sized or not shrinks):
        dims = [settings.height, settings.width]
    else:
        shrink = settings.shrink_factor if shrinks else 1
        zoom = settings.zoom_factor if zooms else 1
        if shrink < 1 or zoom < 1:
            raise ValueError(f"expected factors of 1 or more, got {shrink} and {zoom}")
        dims = [((size - 1) // shrink) * zoom + 1 for size in image]
    if min(*image, *dims) < 1:
        raise ValueError(f"expected height and width above 0, got {tuple(dims)}")
    return [(num, channels, *dims)]


def _roi_pooling(layer: LayerParameter, bottom: Shape, regions: Shape) -> list[Shape]:
    # rbgirshick/caffe-fast-rcnn, roi_pooling_layer.cpp.
    settings = fork_settings(layer).roi_pooling_param
    if not settings.pooled_h or not settings.pooled_w:
        raise ValueError("expected pooled_h and pooled_w above 0")
    return [(_sides(regions)[0], _sides(bottom)[1], settings.pooled_h, settings.pooled_w)]


def _proposal(layer: LayerParameter, *_bottoms: Shape) -> list[Shape]:
    # rbgirshick/py-faster-rcnn, lib/rpn/proposal_layer.py, and synopsys-caffe, proposal_layer.cpp.
    # The number of regions is known at run time only.
    return [(1, 5) if layer.type == "Python" else (1, 1, 1, 5), (1, 1, 1, 1)]


# --- layers that read data ------------------------------------------------------------------------


def _input(layer: LayerParameter) -> list[Partial | None]:
    shapes = [tuple(shape.dim) for shape in layer.input_param.shape]
    return _for_tops(shapes or [None], len(layer.top))


def _dummy_data(layer: LayerParameter) -> list[Partial | None]:
    settings, count = layer.dummy_data_param, len(layer.top)
    fillers = list(settings.data_filler) or [type(settings)().data_filler.add()]
    fillers = _for_tops(fillers, count, "data_filler")
    dims = [settings.num, settings.channels, settings.height, settings.width]
    if not any(dims):
        shapes = _for_tops([tuple(shape.dim) for shape in settings.shape], count)
    elif settings.shape:
        raise ValueError("expected shape, or num, channels, height and width, got both")
    else:
        shapes = list(zip(*(_for_tops(list(values), count) for values in dims), strict=True))
    for shape, filler in zip(shapes, fillers, strict=True):
        require_blob(shape)
        # Caffe fills the constant blobs when it makes the net, and the others later.
        require_filler(shape if filler.type == "constant" else None, filler)
    return shapes


def _hdf5_data(layer: LayerParameter) -> list[Partial | None]:
    if layer.HasField("transform_param"):
        raise ValueError("expected no transform_param, which this type does not apply")
    return [None] * len(layer.top)


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


def _for_tops(values: list[Any], count: int, what: str = "shape") -> list[Any]:
    """Return a value for each top; a single value applies to all."""
    if len(values) not in (1, count):
        raise ValueError(f"expected a {what} for each of {count} tops, or one for all")
    return values if len(values) == count else values * count


_SAME_RATIO = 1e-6

_KERNEL = ("kernel_size", "kernel_h", "kernel_w")

_IMAGES = {
    "Data": "data_param",
    "ImageData": "image_data_param",
    "MemoryData": "memory_data_param",
    "WindowData": "window_data_param",
}
DATA = {*_IMAGES, "DummyData", "HDF5Data", "Input"}
"""The types whose tops have the shapes of data."""
_ANY = 1 << 30


# --- checks ---------------------------------------------------------------------------------------


def _require_number(what: str, count: int, fewest: int, most: int) -> None:
    if fewest <= count <= most:
        return
    expected = (
        f"{fewest}"
        if fewest == most
        else f"{fewest} or more"
        if most == _ANY
        else f"{fewest} to {most}"
    )
    raise ValueError(f"expected {expected} {what}, got {count}")


def _outputs(number: int) -> int:
    if not number:
        raise ValueError("expected a num_output of 1 or more")
    return number


def _as_image(dims: Iterable[int]) -> Shape:
    image = tuple(dims)
    if min(image, default=0) < 0:
        raise ValueError(f"the image is too small: the result would be of size {image}")
    return image


def _sides(shape: Shape) -> list[int]:
    """Return num, channels, height and width. Caffe has these of at most four axes."""
    if len(shape) > LEGACY_AXES:
        raise ValueError(f"expected at most {LEGACY_AXES} axes, got {shape}")
    return [*shape, *[1] * (LEGACY_AXES - len(shape))]


def _require_axes(shape: Shape, count: int) -> None:
    if len(shape) != count:
        raise ValueError(f"expected a bottom of {count} axes, got {shape}")


def _require_equal(what: str, *shapes: Shape) -> None:
    if len(set(shapes)) > 1:
        raise ValueError(f"expected {what} of one shape, got {_listed(shapes)}")


def _listed(shapes: Sequence[Shape]) -> str:
    return ", ".join(map(str, shapes))


# --- types ----------------------------------------------------------------------------------------


class LayerType(NamedTuple):
    """The function for the shapes of the tops of a type, and the number of its bottoms and tops.

    Attributes
    ----------
    shapes
        The function. It returns the shapes of as many tops as the layer can have.
    fewest, most
        The numbers of bottoms.
    fewest_tops
        The number of tops that it must have; None for all. To a loss, of which it is 0, Caffe adds
        one.
    needs
        The field of `ForkLayer` without which the shapes are not known; ``""`` for Caffe's types.
    """

    shapes: Callable[..., Sequence[Partial | None]]
    fewest: int = 1
    most: int = 1
    fewest_tops: int | None = None
    needs: str = ""


_NOT_IN_PLACE = frozenset(("AbsVal", "Flatten", "Reshape", "Split"))

_NEURONS = "AbsVal BNLL Clip Dropout ELU Power ReLU Sigmoid Swish TanH Threshold"
_TYPES = {
    **dict.fromkeys(_NEURONS.split(), LayerType(lambda _, bottom: [bottom])),
    **dict.fromkeys(("BatchNorm", "PReLU"), LayerType(_channels)),
    **dict.fromkeys(("Convolution", "Deconvolution"), LayerType(_convolution, 1, _ANY)),
    **dict.fromkeys(("Scale", "Bias"), LayerType(_broadcast, 1, 2)),
    **dict.fromkeys(_STATES, LayerType(_recurrent, 2, 5)),
    **dict.fromkeys(_IMAGES, LayerType(_images, 0, 0)),
    **dict.fromkeys(
        (
            *("EuclideanLoss", "HingeLoss"),
            *("MultinomialLogisticLoss", "SigmoidCrossEntropyLoss"),
        ),
        LayerType(_pair_loss, 2, 2, fewest_tops=0),  # Caffe adds the top
    ),
    "Accuracy": LayerType(_label_loss, 2, 2, fewest_tops=1),
    "ArgMax": LayerType(_argmax),
    "BatchReindex": LayerType(_batch_reindex, 2, 2),
    "Concat": LayerType(_concat, 1, _ANY),
    "ContrastiveLoss": LayerType(_contrastive_loss, 3, 3, fewest_tops=0),
    "Crop": LayerType(_crop, 2, 2),
    "Data": LayerType(_images, 0, 0, fewest_tops=1),
    "DummyData": LayerType(_dummy_data, 0, 0, fewest_tops=1),
    "Eltwise": LayerType(_eltwise, 2, _ANY),
    "Embed": LayerType(_embed),
    "Exp": LayerType(_exponential),
    "Filter": LayerType(_filter, 2, _ANY),
    "Flatten": LayerType(_flatten),
    "HDF5Data": LayerType(_hdf5_data, 0, 0, fewest_tops=1),
    "HDF5Output": LayerType(lambda *_: [], 2, 2),
    "Im2col": LayerType(_im2col),
    "InfogainLoss": LayerType(_label_loss, 2, 3, fewest_tops=0),
    "InnerProduct": LayerType(_inner_product),
    "Input": LayerType(_input, 0, 0, fewest_tops=1),
    "LRN": LayerType(_lrn),
    "LSTMUnit": LayerType(_lstm_unit, 3, 3),
    "Log": LayerType(_exponential),
    "MVN": LayerType(lambda _, bottom: [tuple(_sides(bottom))]),
    "Parameter": LayerType(lambda layer: [tuple(layer.parameter_param.shape.dim)], 0, 0),
    "Pooling": LayerType(_pooling, fewest_tops=1),
    "Reduction": LayerType(
        lambda layer, bottom: [bottom[: axis_of(layer.reduction_param.axis, bottom)]]
    ),
    "Reshape": LayerType(_reshape),
    "SPP": LayerType(_spp),
    "Silence": LayerType(lambda *_: [], 1, _ANY),
    "Slice": LayerType(_slice),
    "Softmax": LayerType(_softmax),
    "SoftmaxWithLoss": LayerType(_label_loss, 2, 2, fewest_tops=0),
    "Split": LayerType(lambda layer, bottom: [bottom] * len(layer.top), fewest_tops=1),
    "Tile": LayerType(_tile),
    # Types of forks. yonghenglh6/DepthwiseConvolution is a convolution whose group says it all.
    "ConvolutionDepthwise": LayerType(_depthwise),
    "DepthwiseConvolution": LayerType(_convolution, 1, _ANY),
    # weiliu89/caffe, branch ssd: detection_output_layer.cpp. The number is known at run time only.
    "DetectionOutput": LayerType(lambda *_: [(1, 1, 1, 7)], 3, 4),
    "Interp": LayerType(_interp, needs="interp_param"),
    "Normalize": LayerType(_normalize),
    "Permute": LayerType(_permute, needs="permute_param"),
    "PriorBox": LayerType(_prior_box, 2, 2, needs="prior_box_param"),
    "Proposal": LayerType(_proposal, 3, 3, fewest_tops=1),
    "ROIPooling": LayerType(_roi_pooling, 2, 2, needs="roi_pooling_param"),
}
