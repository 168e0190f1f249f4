"""Caffe's layers as functions of PyTorch, by type in `LAYERS`.

Each takes a `Node` and its bottoms, which are tensors, and returns its top, or a tuple of tops. The
formulas are those of the files in ``src/caffe/layers`` of BVLC/caffe. Weights are Blobs, or
parameters over them; PyTorch takes both. Shapes are Caffe's: number, channels, height, width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["LAYERS", "Node"]


class Node(NamedTuple):
    """A layer of a net: its settings, and its blobs as the functions use them."""

    name: str
    type: str
    bottoms: Sequence[str]
    tops: Sequence[str]
    proto: Any
    blobs: Sequence[Any]
    training: bool = False


# --- settings ------------------------------------------------------------------------------------


def _pair(options: Any, name: str) -> list[int]:
    """Return a setting for height and width, which may be given for each, once, or not at all."""
    sides = [f"{name.removesuffix('_size')}_{side}" for side in "hw"]
    known = options.DESCRIPTOR.fields_by_name
    if any(side in known and options.HasField(side) for side in sides):
        return [getattr(options, side) for side in sides]
    values = getattr(options, name)
    listed = [values] if isinstance(values, int) else list(values)
    return ((listed or [0 if name == "pad" else 1]) * 2)[:2]


def _weight_and_bias(layer: Node) -> tuple[Any, Any]:
    weight, *bias = layer.blobs
    # In older files every blob has four axes.
    return weight, bias[0].reshape(-1) if bias else None


def _axis(options: Any, older: str) -> int:
    """Return an axis, which older definitions set under another name."""
    return getattr(options, older) if options.HasField(older) else options.axis


def _matched(x: Tensor, blob: Any, axis: int) -> Any:
    """Append axes of length 1, so that a blob's axes match those of x from `axis` on."""
    behind = x.ndim - axis % x.ndim - blob.ndim if blob.ndim else 0
    return blob.reshape((*blob.shape, *[1] * behind))


# --- layers with weights -------------------------------------------------------------------------


def _convolution(layer: Node, x: Tensor) -> Tensor:
    options = layer.proto.convolution_param
    stride, pad, dilation = (_pair(options, name) for name in ("stride", "pad", "dilation"))
    weight, bias = _weight_and_bias(layer)
    if layer.type == "Deconvolution":
        return functional.conv_transpose2d(x, weight, bias, stride, pad, 0, options.group, dilation)
    return functional.conv2d(x, weight, bias, stride, pad, dilation, options.group)


def _inner_product(layer: Node, x: Tensor) -> Tensor:
    options = layer.proto.inner_product_param
    weight, bias = _weight_and_bias(layer)
    weight = weight.reshape(weight.shape[-2:])
    return functional.linear(
        x.flatten(options.axis), weight.T if options.transpose else weight, bias
    )


def _embed(layer: Node, x: Tensor) -> Tensor:
    weight, bias = _weight_and_bias(layer)
    top = functional.embedding(x.long(), weight)
    return top if bias is None else top + bias


def _scale(layer: Node, x: Tensor, *factors: Tensor) -> Tensor:
    """Multiply by a second bottom or the first blob, then add the remaining blob, if any."""
    factor, *bias = (*factors, *layer.blobs)
    axis = layer.proto.scale_param.axis
    x = torch.mul(x, _matched(x, factor, axis))
    return torch.add(x, _matched(x, bias[0], axis)) if bias else x


def _bias(layer: Node, x: Tensor, *terms: Tensor) -> Tensor:
    (term,) = (*terms, *layer.blobs)
    return torch.add(x, _matched(x, term, layer.proto.bias_param.axis))


def _prelu(layer: Node, x: Tensor) -> Tensor:
    return functional.prelu(x, layer.blobs[0].reshape(-1))


def _batch_norm(layer: Node, x: Tensor) -> Tensor:
    """Normalise by the batch in training, else by the means and variances of the blobs.

    The third blob divides both. In training, all three decay by `moving_average_fraction`; then the
    first gets the batch's mean, the second its unbiased variance, the third 1.
    """
    options = layer.proto.batch_norm_param
    mean, variance, count = (blob.reshape(-1) for blob in layer.blobs)
    stored = options.use_global_stats if options.HasField("use_global_stats") else None
    if not layer.training if stored is None else stored:
        factor = 1 / count.item() if count.item() else 0
        with torch.no_grad():  # they are not learned
            mean, variance = mean * factor, variance * factor
        return functional.batch_norm(x, mean, variance, eps=options.eps)
    with torch.no_grad():
        values = x.transpose(0, 1).flatten(1)
        unbiased = values.var(1, correction=min(1, values.shape[1] - 1))
        for blob, new in zip(layer.blobs, (values.mean(1), unbiased, 1), strict=True):
            torch.add(torch.mul(blob, options.moving_average_fraction), new, out=blob)
    return functional.batch_norm(x, None, None, training=True, eps=options.eps)


def _lstm(layer: Node, x: Tensor, going_on: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Run a sequence of shape (steps, streams, ...).

    `going_on` is 0 where a new sequence begins, else 1. The other bottoms are a static input and,
    with `expose_hidden`, the states before the first step. Without it they are 0: unlike Caffe, a
    call does not continue the one before.
    """
    options = layer.proto.recurrent_param
    weight, bias, *static_weight, hidden_weight = layer.blobs
    gates = functional.linear(x.flatten(2), weight, bias)
    if static_weight:
        gates = gates + functional.linear(others[0].flatten(1), static_weight[0])
    if options.expose_hidden:
        hidden, cell = (state[0] for state in others[-2:])
    else:
        hidden = cell = gates.new_zeros(x.shape[1], options.num_output)
    tops = []
    for gate, kept in zip(gates, going_on[:, :, None], strict=True):
        gate = gate + functional.linear(hidden * kept, hidden_weight)  # noqa: PLW2901  # its sum
        enter, forget, leave, new = gate.chunk(4, 1)
        cell = kept * torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
        hidden = torch.sigmoid(leave) * torch.tanh(cell)
        tops.append(hidden)
    states = (hidden[None], cell[None]) if options.expose_hidden else ()
    return torch.stack(tops), *states


# --- windows and normalisation -------------------------------------------------------------------


def _pooling(layer: Node, x: Tensor) -> Tensor:
    """Pool windows, of which the last ones may begin within the image and end beyond its padding.

    The mean of such a window is over its part within the padding. PyTorch's own padding is not
    used, because it is limited to half the kernel.
    """
    options = layer.proto.pooling_param
    if options.pool == options.STOCHASTIC:
        raise ValueError(f"{layer.name!r}: stochastic pooling has no function")
    if options.global_pooling:
        kernel, stride, pad = list(x.shape[2:]), [1, 1], [0, 0]
    else:
        kernel, stride, pad = (_pair(options, name) for name in ("kernel_size", "stride", "pad"))
    rounded = math.ceil if options.round_mode == options.CEIL else math.floor
    padding: list[int] = []
    areas = []
    for length, k, s, p in zip(x.shape[2:], kernel, stride, pad, strict=True):
        count = rounded((length + 2 * p - k) / s) + 1
        if p and (count - 1) * s >= length + p:
            count -= 1  # the last window would begin in the padding
        padding = [p, max((count - 1) * s + k - p - length, 0), *padding]
        starts = [index * s - p for index in range(count)]
        areas.append([min(start + k, length + p) - start for start in starts])
    rows, columns = map(len, areas)
    if options.pool == options.MAX:
        top = functional.max_pool2d(functional.pad(x, padding, value=-math.inf), kernel, stride)
        return top[..., :rows, :columns]
    top = functional.avg_pool2d(functional.pad(x, padding), kernel, stride, divisor_override=1)
    heights, widths = map(top.new_tensor, areas)
    return top[..., :rows, :columns] / torch.outer(heights, widths)


def _lrn(layer: Node, x: Tensor) -> Tensor:
    options = layer.proto.lrn_param
    n, alpha, beta = options.local_size, options.alpha, options.beta
    if options.norm_region == options.ACROSS_CHANNELS:
        return functional.local_response_norm(x, n, alpha, beta, options.k)
    # Within a channel, Caffe ignores k.
    return x * (1 + alpha * functional.avg_pool2d(x.square(), n, 1, n // 2)) ** -beta


def _mvn(layer: Node, x: Tensor) -> Tensor:
    options = layer.proto.mvn_param
    axes = tuple(range(1 if options.across_channels else 2, x.ndim))
    x = x - x.mean(axes, keepdim=True)
    if options.normalize_variance:
        x = x / (x.square().mean(axes, keepdim=True).sqrt() + options.eps)
    return x


# --- elementwise ---------------------------------------------------------------------------------


def _relu(layer: Node, x: Tensor) -> Tensor:
    return functional.leaky_relu(x, layer.proto.relu_param.negative_slope)


def _elu(layer: Node, x: Tensor) -> Tensor:
    return functional.elu(x, layer.proto.elu_param.alpha)


def _power(layer: Node, x: Tensor) -> Tensor:
    options = layer.proto.power_param
    return (options.shift + options.scale * x) ** options.power


def _exp(layer: Node, x: Tensor) -> Tensor:
    options = layer.proto.exp_param
    exponent = options.shift + options.scale * x
    return torch.exp(exponent if options.base == -1 else exponent * math.log(options.base))


def _log(layer: Node, x: Tensor) -> Tensor:
    options = layer.proto.log_param
    top = torch.log(options.shift + options.scale * x)
    return top if options.base == -1 else top / math.log(options.base)


def _clip(layer: Node, x: Tensor) -> Tensor:
    return torch.clamp(x, layer.proto.clip_param.min, layer.proto.clip_param.max)


def _dropout(layer: Node, x: Tensor) -> Tensor:
    return functional.dropout(x, layer.proto.dropout_param.dropout_ratio, layer.training)


def _eltwise(layer: Node, *xs: Tensor) -> Tensor:
    options = layer.proto.eltwise_param
    if options.operation == options.SUM:
        return sum(map(torch.mul, xs, options.coeff or [1] * len(xs)))
    return reduce(torch.mul if options.operation == options.PROD else torch.maximum, xs)


# --- shapes --------------------------------------------------------------------------------------


def _concat(layer: Node, *xs: Tensor) -> Tensor:
    return torch.cat(xs, _axis(layer.proto.concat_param, "concat_dim"))


def _slice(layer: Node, x: Tensor) -> tuple[Tensor, ...]:
    options = layer.proto.slice_param
    where = list(options.slice_point) or len(layer.tops)
    return torch.tensor_split(x, where, _axis(options, "slice_dim"))


def _flatten(layer: Node, x: Tensor) -> Tensor:
    return x.flatten(layer.proto.flatten_param.axis, layer.proto.flatten_param.end_axis)


def _reshape(layer: Node, x: Tensor) -> Tensor:
    """Replace `num_axes` axes from `axis` on: 0 keeps a length, -1 is computed."""
    options = layer.proto.reshape_param
    start = options.axis if options.axis >= 0 else x.ndim + 1 + options.axis
    end = x.ndim if options.num_axes == -1 else start + options.num_axes
    new = [size or x.shape[start + index] for index, size in enumerate(options.shape.dim)]
    return x.reshape(*x.shape[:start], *new, *x.shape[end:])


def _crop(layer: Node, x: Tensor, like: Tensor) -> Tensor:
    """Crop the axes from `axis` on to the lengths of a second bottom."""
    options = layer.proto.crop_param
    first = options.axis % x.ndim
    offsets = list(options.offset) or [0]
    if len(offsets) == 1:
        offsets *= x.ndim - first
    for axis, offset in enumerate(offsets, first):
        x = x.narrow(axis, offset, like.shape[axis])
    return x


def _tile(layer: Node, x: Tensor) -> Tensor:
    return torch.cat([x] * layer.proto.tile_param.tiles, layer.proto.tile_param.axis)


def _reduction(layer: Node, x: Tensor) -> Tensor:
    """Reduce all axes from `axis` on."""
    options = layer.proto.reduction_param
    axis = options.axis % x.ndim
    x = x.reshape(*x.shape[:axis], -1)
    top = {
        options.SUM: x.sum,
        options.MEAN: x.mean,
        options.ASUM: x.abs().sum,
        options.SUMSQ: x.square().sum,
    }[options.operation](-1)
    return options.coeff * top


def _argmax(layer: Node, x: Tensor) -> Tensor:
    """Return indices, as floats; of equal values Caffe takes the last one first."""
    options = layer.proto.argmax_param
    axis, given = (options.axis, x) if options.HasField("axis") else (1, x.flatten(1))
    order = given.flip(axis).argsort(dim=axis, descending=True, stable=True)
    indices = given.shape[axis] - 1 - order.narrow(axis, 0, options.top_k)
    largest = given.gather(axis, indices)
    if options.HasField("axis"):
        return largest if options.out_max_val else indices.to(x.dtype)
    tops = [indices.to(x.dtype), *([largest] if options.out_max_val else [])]
    return torch.stack(tops, 1).reshape(len(x), len(tops), -1, *[1] * (x.ndim - 3))


# --- losses --------------------------------------------------------------------------------------


def _rows(x: Tensor, label: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return one row of scores for each label, and the labels, which Caffe has as floats."""
    return x.movedim(axis, -1).reshape(-1, x.shape[axis]), label.flatten().long()


def _mean(total: Tensor, options: Any, default: int, counts: tuple[int, int, int]) -> Tensor:
    """Divide by the number of all labels, of those not ignored, of the batch, or by 1.

    `counts` has the first three. `normalize` is the older setting.
    """
    mode = options.normalization if options.HasField("normalization") else default
    if options.HasField("normalize") and not options.HasField("normalization"):
        mode = options.VALID if options.normalize else options.BATCH_SIZE
    modes = (options.FULL, options.VALID, options.BATCH_SIZE, options.NONE)
    return total / max(dict(zip(modes, (*counts, 1), strict=True))[mode], 1)


def _softmax_with_loss(layer: Node, x: Tensor, label: Tensor) -> tuple[Tensor, ...]:
    options = layer.proto.loss_param
    axis = layer.proto.softmax_param.axis
    scores, labels = _rows(x, label, axis)
    ignored = options.ignore_label if options.HasField("ignore_label") else -100
    total = functional.cross_entropy(scores, labels, ignore_index=ignored, reduction="sum")
    counts = (len(labels), int((labels != ignored).sum()), math.prod(x.shape[:axis]))
    loss = _mean(total, options, options.VALID, counts)
    return (loss, torch.softmax(x, axis))[: len(layer.tops)]


def _sigmoid_cross_entropy_loss(layer: Node, x: Tensor, target: Tensor) -> Tensor:
    options = layer.proto.loss_param
    target = target.reshape(x.shape)
    losses = functional.binary_cross_entropy_with_logits(x, target, reduction="none")
    if options.HasField("ignore_label"):
        losses = losses[target.long() != options.ignore_label]
    counts = (x.numel(), losses.numel(), len(x))
    return _mean(losses.sum(), options, options.BATCH_SIZE, counts)


def _euclidean_loss(_layer: Node, x: Tensor, target: Tensor) -> Tensor:
    return (x - target.reshape(x.shape)).square().sum() / len(x) / 2


def _hinge_loss(layer: Node, x: Tensor, label: Tensor) -> Tensor:
    options = layer.proto.hinge_loss_param
    scores = x.flatten(1)
    signs = 1 - 2 * functional.one_hot(label.flatten().long(), scores.shape[1])
    margins = functional.relu(1 + signs * scores)
    return (margins.square() if options.norm == options.L2 else margins).sum() / len(x)


def _contrastive_loss(layer: Node, a: Tensor, b: Tensor, similar: Tensor) -> Tensor:
    options = layer.proto.contrastive_loss_param
    squares = (a - b).flatten(1).square().sum(1)
    if options.legacy_version:
        apart = functional.relu(options.margin - squares)
    else:
        # The root has no gradient at 0, where Caffe's is 0.
        distance = squares.clamp_min(1e-12).sqrt()
        apart = functional.relu(options.margin - distance).square()
    return torch.where(similar.flatten().long() != 0, squares, apart).sum() / len(a) / 2


def _accuracy(layer: Node, x: Tensor, label: Tensor) -> tuple[Tensor, ...]:
    """Return the share of labels among the `top_k` scores; a second top has that of each class."""
    options = layer.proto.accuracy_param
    scores, labels = _rows(x, label, options.axis)
    if options.HasField("ignore_label"):
        kept = labels != options.ignore_label
        scores, labels = scores[kept], labels[kept]
    better = (scores >= scores.gather(1, labels[:, None])).sum(1) - 1  # equal scores count
    right = (better < options.top_k).to(x.dtype)
    classes = scores.shape[1]
    each = right.new_zeros(classes).index_add(0, labels, right)
    each = each / torch.bincount(labels, minlength=classes).clamp_min(1)
    return (right.sum() / max(len(labels), 1), each)[: len(layer.tops)]


LAYERS: dict[str, Callable[..., Tensor | tuple[Tensor, ...]]] = {
    "AbsVal": lambda _, x: torch.abs(x),
    "Accuracy": _accuracy,
    "ArgMax": _argmax,
    "BNLL": lambda _, x: functional.softplus(x),
    "BatchNorm": _batch_norm,
    "Bias": _bias,
    "Clip": _clip,
    "Concat": _concat,
    "ContrastiveLoss": _contrastive_loss,
    "Convolution": _convolution,
    "Crop": _crop,
    "Deconvolution": _convolution,
    "Dropout": _dropout,
    "ELU": _elu,
    "Eltwise": _eltwise,
    "Embed": _embed,
    "EuclideanLoss": _euclidean_loss,
    "Exp": _exp,
    "Flatten": _flatten,
    "HingeLoss": _hinge_loss,
    "InnerProduct": _inner_product,
    "LRN": _lrn,
    "LSTM": _lstm,
    "Log": _log,
    "MVN": _mvn,
    "PReLU": _prelu,
    "Parameter": lambda layer: torch.clone(layer.blobs[0]),
    "Pooling": _pooling,
    "Power": _power,
    "ReLU": _relu,
    "Reduction": _reduction,
    "Reshape": _reshape,
    "Scale": _scale,
    "Sigmoid": lambda _, x: torch.sigmoid(x),
    "SigmoidCrossEntropyLoss": _sigmoid_cross_entropy_loss,
    "Silence": lambda *_: (),
    "Slice": _slice,
    "Softmax": lambda layer, x: torch.softmax(x, layer.proto.softmax_param.axis),
    "SoftmaxWithLoss": _softmax_with_loss,
    "Split": lambda layer, x: (x,) * len(layer.tops),
    "TanH": lambda _, x: torch.tanh(x),
    "Tile": _tile,
}
