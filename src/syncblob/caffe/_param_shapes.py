"""Which shapes the blobs of a layer have, by what its settings say.

Some dimensions depend on the inputs of the layer, which only a running net knows; they are None.
The blobs of the older formats always have four axes, num, channels, height and width: a bias of 32
values is (1, 1, 1, 32). The settings say which axes of 1 in front a blob has for that reason alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from syncblob.caffe._fields import LEGACY_AXES
from syncblob.caffe.blobproto import padded

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncblob.blob import Blob
    from syncblob.caffe._layer import Layer
    from syncblob.caffe._pb.caffe_pb2 import ConvolutionParameter, LayerParameter

__all__ = ["ExpectedBlob", "expected_blobs", "mark_legacy", "squeezed_blobs"]


class ExpectedBlob(NamedTuple):
    """The shape of a blob, as far as the settings say.

    Parameters
    ----------
    dims
        The dimensions; None for one that is not known.
    repeats
        Whether there may be further dimensions that are equal to the last one.
    """

    dims: tuple[int | None, ...]
    repeats: bool = False

    def fits(self, shape: tuple[int, ...], *, legacy: bool) -> bool:
        """Compare a shape with this one.

        Parameters
        ----------
        shape
            The shape of a blob.
        legacy
            Whether the blob has num, channels, height and width: then Caffe aligns the axes to the
            right and takes those that are absent as 1.
        """
        dims = self.dims
        if self.repeats:
            dims += dims[-1:] * (len(shape) - len(dims))
        if legacy:
            dims = padded(dims)
        return len(dims) == len(shape) and all(
            dim is None or dim == actual for dim, actual in zip(dims, shape, strict=True)
        )

    def __str__(self) -> str:
        """Return it as a shape, with ``?`` for unknown dimensions."""
        dims = ["?" if dim is None else str(dim) for dim in self.dims] + ["..."] * self.repeats
        return f"({', '.join(dims)}{',' * (len(dims) == 1)})"


def expected_blobs(layer: LayerParameter) -> list[ExpectedBlob] | None:
    """Return what blobs a layer has after training; None if that is not known for its type."""
    if layer.type in _WITHOUT:
        return []
    describe = _WITH.get(layer.type)
    return None if describe is None else describe(layer)


def _convolution(layer: LayerParameter) -> list[ExpectedBlob]:
    settings = layer.convolution_param
    weights = (settings.num_output, None)
    return [_kernels(weights, settings), *_bias(settings.num_output, settings.bias_term)]


def _deconvolution(layer: LayerParameter) -> list[ExpectedBlob]:
    settings = layer.convolution_param
    weights = (None, settings.num_output // max(1, settings.group))
    return [_kernels(weights, settings), *_bias(settings.num_output, settings.bias_term)]


def _kernels(channels: tuple[int | None, ...], settings: ConvolutionParameter) -> ExpectedBlob:
    if settings.HasField("kernel_h") or settings.HasField("kernel_w"):
        return ExpectedBlob((*channels, settings.kernel_h, settings.kernel_w))
    # A single size is for all axes of the input; a layer made by hand may have none at all.
    one_for_all = len(settings.kernel_size) <= 1
    return ExpectedBlob((*channels, *settings.kernel_size), repeats=one_for_all)


def _inner_product(layer: LayerParameter) -> list[ExpectedBlob]:
    settings = layer.inner_product_param
    weights = (settings.num_output, None)
    return [
        ExpectedBlob(weights[::-1] if settings.transpose else weights),
        *_bias(settings.num_output, settings.bias_term),
    ]


def _embed(layer: LayerParameter) -> list[ExpectedBlob]:
    settings = layer.embed_param
    return [
        ExpectedBlob((settings.input_dim, settings.num_output)),
        *_bias(settings.num_output, settings.bias_term),
    ]


def _batch_norm(_layer: LayerParameter) -> list[ExpectedBlob]:
    # Mean and variance of each channel, and the divisor of both.
    return [ExpectedBlob((None,)), ExpectedBlob((None,)), ExpectedBlob((1,))]


def _scale(layer: LayerParameter) -> list[ExpectedBlob] | None:
    settings = layer.scale_param
    if settings.num_axes < 0:
        return None
    # A second input replaces the factors.
    number = (len(layer.bottom) == 1) + settings.bias_term
    return [ExpectedBlob((None,) * settings.num_axes)] * number


def _add_bias(layer: LayerParameter) -> list[ExpectedBlob] | None:
    settings = layer.bias_param
    if settings.num_axes < 0:
        return None
    return [ExpectedBlob((None,) * settings.num_axes)] * (len(layer.bottom) == 1)


def _prelu(layer: LayerParameter) -> list[ExpectedBlob]:
    return [ExpectedBlob(() if layer.prelu_param.channel_shared else (None,))]


def _parameter(layer: LayerParameter) -> list[ExpectedBlob]:
    return [ExpectedBlob(tuple(layer.parameter_param.shape.dim))]


def _bias(num_output: int, has_bias: bool) -> list[ExpectedBlob]:
    return [ExpectedBlob((num_output,))] * has_bias


_WITH: dict[str, Callable[[LayerParameter], list[ExpectedBlob] | None]] = {
    "BatchNorm": _batch_norm,
    "Bias": _add_bias,
    "Convolution": _convolution,
    "Deconvolution": _deconvolution,
    "Embed": _embed,
    "InnerProduct": _inner_product,
    "PReLU": _prelu,
    "Parameter": _parameter,
    "Scale": _scale,
}

_WITHOUT = frozenset(
    """
    AbsVal Accuracy ArgMax BNLL BatchReindex Clip Concat ContrastiveLoss Crop Data Dropout DummyData
    ELU Eltwise EuclideanLoss Exp Filter Flatten HDF5Data HDF5Output HingeLoss Im2col ImageData
    InfogainLoss Input LRN Log MVN MemoryData MultinomialLogisticLoss Pooling Power ReLU Reduction
    Reshape SPP Sigmoid SigmoidCrossEntropyLoss Silence Slice Softmax SoftmaxWithLoss Split Swish
    TanH Threshold Tile WindowData
    """.split()  # noqa: SIM905  # a table of names reads best as words
)


# --- without the axes of the older formats --------------------------------------------------------


def squeezed_blobs(layer: Layer) -> list[Blob]:
    """Return the blobs of a layer without axes of 1 in front that its type does not have.

    The four axes of the older formats are meant: a bias of shape (1, 1, 1, 32) becomes a view of
    shape (32,). Where the settings do not say how many axes there are, blobs are left as they are.

    Parameters
    ----------
    layer
        The layer.
    """
    return [
        blob if blob.shape == shape else blob.reshape(shape)
        for blob, shape in zip(layer.blobs, _own_shapes(layer), strict=True)
    ]


def mark_legacy(layer: Layer) -> None:
    """Have the blobs that `squeezed_blobs` would change written with the four old dimensions.

    Caffe takes those for the shape in a running net, and would refuse the same as a new shape.

    Parameters
    ----------
    layer
        The layer, such as one made of arrays from another format.
    """
    entries = layer.blobs._entries
    for number, shape in enumerate(_own_shapes(layer)):
        if entries[number].shape != shape:
            entries[number] = entries[number]._replace(legacy=True)


def _own_shapes(layer: Layer) -> list[tuple[int, ...]]:
    """Return the shapes that the blobs of a layer have in a running net."""
    shapes = [blob.shape for blob in layer.blobs]
    if all(len(shape) != LEGACY_AXES for shape in shapes):
        return shapes
    expected = expected_blobs(layer._definition.message())
    if expected is None or len(expected) != len(shapes):
        return shapes
    return [
        shape[LEGACY_AXES - len(place.dims) :]
        if len(shape) == LEGACY_AXES > len(place.dims)
        and not place.repeats
        and shape == padded(shape[LEGACY_AXES - len(place.dims) :])
        else shape
        for shape, place in zip(shapes, expected, strict=True)
    ]
