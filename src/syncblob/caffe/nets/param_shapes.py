"""The blobs that the settings of a layer call for: their number, shapes and fillers.

Some dimensions depend on the bottoms of the layer; they are None if the bottoms are not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from syncblob.caffe._pb.caffe_pb2 import FillerParameter, LayerParameter
from syncblob.caffe.messages.fields import shapes_agree
from syncblob.caffe.nets.top_shapes import (
    Partial,
    Shape,
    axis_of,
    fork_settings,
    of_caffe_windows,
    of_spatial_axes,
    type_of,
)

_Bottoms = Sequence[Shape] | None


class ExpectedBlob(NamedTuple):
    """The shape of a blob that the settings imply, and Caffe's filler for a new one."""

    dims: Partial
    repeats: bool = False
    """Whether more dimensions may follow that are equal to the last one, or it may be absent."""
    filler: FillerParameter | float | None = None
    """The filler, or the constant that Caffe uses without one; None if it leaves zeros."""
    legacy: bool = False
    """Whether it is that of a blob with num, channels, height and width."""

    def fits(self, shape: tuple[int, ...], *, legacy: bool) -> bool:
        """Compare a shape with this one.

        Of a `legacy` blob, with num, channels, height and width, Caffe aligns the axes on the right
        and takes absent ones as 1.
        """
        dims = self.dims
        if self.repeats:
            dims += dims[-1:] * (len(shape) - len(dims))
            dims = dims[: max(2, len(shape))]  # without spatial axes there is no kernel
        return shapes_agree(dims, shape, our_legacy=legacy or self.legacy, their_legacy=legacy)

    def __str__(self) -> str:
        """Return it as a shape, with ``?`` for unknown dimensions."""
        dims = ["?" if dim is None else str(dim) for dim in self.dims] + ["..."] * self.repeats
        return f"({', '.join(dims)}{',' * (len(dims) == 1)})"


def expected_blobs(
    layer: LayerParameter, bottoms: Sequence[Shape] | None = None
) -> list[ExpectedBlob] | None:
    """Return the blobs that a layer has after training; None if its type is unknown.

    All dimensions are known if the shapes of its bottoms are, which `top_shapes` must accept.
    """
    if describe := _WITH.get(layer.type):
        return describe(layer, bottoms)
    return None if type_of(layer) is None else []


def _convolution(layer: LayerParameter, bottoms: _Bottoms) -> list[ExpectedBlob]:
    settings = layer.convolution_param
    outputs, group = settings.num_output, max(1, settings.group)
    kernel: Partial
    if bottoms:
        axis = axis_of(settings.axis, bottoms[0])
        inputs = bottoms[0][axis]
        kernel = tuple(of_spatial_axes(settings, "kernel_size", len(bottoms[0]) - axis - 1))
        repeats = False
    else:
        inputs = None
        sides = settings.HasField("kernel_h") or settings.HasField("kernel_w")
        kernel = (settings.kernel_h, settings.kernel_w) if sides else (*settings.kernel_size,)
        # A single size applies to all axes of the input. A layer made by hand may have no size.
        repeats = not sides and len(kernel) <= 1
    first, second = (inputs, outputs) if layer.type == "Deconvolution" else (outputs, inputs)
    dims = (first, None if second is None else second // group, *kernel)
    return _weight_and_bias(settings, dims, outputs, repeats=repeats)


def _inner_product(layer: LayerParameter, bottoms: _Bottoms) -> list[ExpectedBlob]:
    settings = layer.inner_product_param
    inputs = math.prod(bottoms[0][axis_of(settings.axis, bottoms[0]) :]) if bottoms else None
    dims = (settings.num_output, inputs)
    return _weight_and_bias(
        settings, dims[::-1] if settings.transpose else dims, settings.num_output
    )


def _embed(layer: LayerParameter, _bottoms: _Bottoms) -> list[ExpectedBlob]:
    settings = layer.embed_param
    dims = (settings.input_dim, settings.num_output)
    return _weight_and_bias(settings, dims, settings.num_output)


def _recurrent(layer: LayerParameter, bottoms: _Bottoms) -> list[ExpectedBlob]:
    """Return the blobs of the unrolled net, in the order in which its layers own them."""
    settings = layer.recurrent_param
    lstm = layer.type == "LSTM"
    size = settings.num_output
    gates = 4 * size if lstm else size
    # The bottoms are the sequence, its continuation marks, perhaps a static input, and then the
    # exposed states, of which an LSTM has two.
    static = len(layer.bottom) > 2 + settings.expose_hidden * (1 + lstm)
    inputs = [math.prod(bottoms[0][2:]) if bottoms else None]
    if static:
        inputs.append(math.prod(bottoms[2][1:]) if bottoms else None)
    weight = partial(ExpectedBlob, filler=settings.weight_filler)
    bias = partial(ExpectedBlob, filler=settings.bias_filler)
    of_inputs = [weight((gates, count)) for count in inputs]
    of_output = [] if lstm else [weight((size, size)), bias((size,))]
    return [of_inputs[0], bias((gates,)), *of_inputs[1:], weight((gates, size)), *of_output]


def _batch_norm(_layer: LayerParameter, bottoms: _Bottoms) -> list[ExpectedBlob]:
    # Mean and variance of each channel, and the divisor of both.
    each = ExpectedBlob((bottoms[0][1] if bottoms else None,))
    return [each, each, ExpectedBlob((1,))]


def _scale(layer: LayerParameter, bottoms: _Bottoms) -> list[ExpectedBlob] | None:
    settings = layer.scale_param
    # A second input replaces the factors.
    given = bottoms[1] if bottoms and len(bottoms) > 1 else None
    dims = _broadcast(settings, bottoms, None if given is None else len(given))
    if dims is None:
        return None
    factors = ExpectedBlob(dims, filler=_own(settings, "filler", 1.0))
    offsets = ExpectedBlob(dims, filler=settings.bias_filler)
    return [factors] * (len(layer.bottom) == 1) + [offsets] * settings.bias_term


def _add_bias(layer: LayerParameter, bottoms: _Bottoms) -> list[ExpectedBlob] | None:
    if len(layer.bottom) > 1:
        return []
    dims = _broadcast(layer.bias_param, bottoms)
    return None if dims is None else [ExpectedBlob(dims, filler=layer.bias_param.filler)]


def _broadcast(settings: Any, bottoms: _Bottoms, num_axes: int | None = None) -> Partial | None:
    count = settings.num_axes if num_axes is None else num_axes
    if bottoms:
        first = axis_of(settings.axis, bottoms[0]) if count else 0
        return bottoms[0][first:] if count < 0 else bottoms[0][first : first + count]
    return None if count < 0 else (None,) * count


def _depthwise(layer: LayerParameter, bottoms: _Bottoms) -> list[ExpectedBlob]:
    # farmingyard/caffe-mobilenet, conv_dw_layer.cpp.
    settings = layer.convolution_param
    channels = bottoms[0][1] if bottoms else None
    kernel = tuple(of_spatial_axes(settings, "kernel_size", 2))
    return _weight_and_bias(settings, (channels, 1, *kernel), channels)


def _normalize(layer: LayerParameter, bottoms: _Bottoms) -> list[ExpectedBlob] | None:
    # weiliu89/caffe, branch ssd: normalize_layer.cpp.
    if of_caffe_windows(layer):
        return []
    fork = fork_settings(layer)
    if not fork.HasField("norm_param"):
        return None  # perhaps it was left out
    return _factors(fork.norm_param, "scale_filler", 1.0, bottoms)


def _bn(layer: LayerParameter, bottoms: _Bottoms) -> list[ExpectedBlob] | None:
    """Return slope and bias; and mean and variance, but not in SegNet. TSN has (1, channels)."""
    # hszhao/PSPNet, yjxiong/caffe and alexgkendall/caffe-segnet: bn_layer.cpp.
    if not fork_settings(layer).HasField("bn_param"):
        return None  # perhaps it was left out
    settings = fork_settings(layer).bn_param
    each = partial(ExpectedBlob, (1, bottoms[0][1] if bottoms else None, 1, 1), repeats=True)
    if any(map(settings.HasField, ("scale_filler", "shift_filler", "bn_mode"))):
        return [each(filler=settings.scale_filler), each(filler=settings.shift_filler)]
    variance = 1.0 if settings.frozen else None
    fillers = settings.slope_filler, settings.bias_filler, None, variance
    return [each(filler=filler) for filler in fillers]


def _factors(settings: Any, name: str, default: float, bottoms: _Bottoms) -> list[ExpectedBlob]:
    """Return the factors of the channels, or the one that all of them share."""
    each: Partial = (bottoms[0][1] if bottoms else None,)
    dims = () if settings.channel_shared else each
    return [ExpectedBlob(dims, filler=_own(settings, name, default))]


def _weight_and_bias(
    settings: Any, dims: Partial, outputs: int | None, *, repeats: bool = False
) -> list[ExpectedBlob]:
    bias = ExpectedBlob((outputs,), filler=settings.bias_filler)
    return [ExpectedBlob(dims, repeats, settings.weight_filler), *[bias] * settings.bias_term]


def _own(settings: Any, name: str, default: float) -> FillerParameter | float:
    """Return a filler, or the default value if the settings have none."""
    filler: FillerParameter = getattr(settings, name)
    return filler if settings.HasField(name) else default


_WITH: dict[str, Callable[[LayerParameter, _Bottoms], list[ExpectedBlob] | None]] = {
    "BN": _bn,
    "BatchNorm": _batch_norm,
    "Bias": _add_bias,
    "Convolution": _convolution,
    "ConvolutionDepthwise": _depthwise,
    "Deconvolution": _convolution,
    "DepthwiseConvolution": _convolution,
    "Embed": _embed,
    "InnerProduct": _inner_product,
    "LSTM": _recurrent,
    "Normalize": _normalize,
    "PReLU": lambda layer, bottoms: _factors(layer.prelu_param, "filler", 0.25, bottoms),
    "Parameter": lambda layer, _: [ExpectedBlob(tuple(layer.parameter_param.shape.dim))],
    "RNN": _recurrent,
    "Scale": _scale,
}
