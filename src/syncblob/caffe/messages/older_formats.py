"""Caffe's older layer formats: the current names of their types, and the upgrade of nets.

There are three formats. V2 is the current one; V1 identifies types of layers by numbers; V0, the
first one, nests its layers in V1 layers. `upgrade_net` does what Caffe does, in this order
(``UpgradeNetAsNeeded`` in Caffe's ``util/upgrade_proto.cpp``):

1. V0 has the settings of all types of layers side by side in one message. If any layer has such a
   message, the net is V0, and everything else is lost: V2 layers, the shapes of inputs, and the
   name, type and blobs of V1 layers. Padding, in V0 a separate layer before a convolution or a
   pooling, becomes one of their settings.
2. The image transformation moves from the settings of three types of data layers to
   transform_param.
3. V1 type numbers become names, and V1's parallel lists become ParamSpecs.
4. The inputs of the net become a layer of type Input, if their shapes are known.
5. The learning rates of a BatchNorm layer with three ParamSpecs are set to zero.

New messages are made from the classes of the upgraded message, which may be another module's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from syncblob.caffe.messages.fields import LEGACY_AXES
from syncblob.caffe.messages.texts import add_texts, put_texts

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from syncblob.caffe._pb.caffe_pb2 import (
        LayerParameter,
        NetParameter,
        V0LayerParameter,
        V1LayerParameter,
    )

V1_LAYER_TYPES: Final = dict(
    enumerate(
        [
            "",
            *"""
            Accuracy BNLL Concat Convolution Data Dropout EuclideanLoss Flatten HDF5Data HDF5Output
            Im2col ImageData InfogainLoss InnerProduct LRN MultinomialLogisticLoss Pooling ReLU
            Sigmoid Softmax SoftmaxWithLoss Split TanH WindowData Eltwise Power
            SigmoidCrossEntropyLoss HingeLoss MemoryData ArgMax Threshold DummyData Slice MVN AbsVal
            Silence ContrastiveLoss Exp Deconvolution
            """.split(),  # noqa: SIM905  # a table of names reads best as words
        ]
    )
)
"""The types of V1 layers, by number."""

V1_TYPE_NUMBERS: Final = {name: number for number, name in V1_LAYER_TYPES.items()}

V0_LAYER_TYPES: Final = dict(
    pair.split("=")
    for pair in """
    accuracy=Accuracy bnll=BNLL concat=Concat conv=Convolution data=Data dropout=Dropout
    euclidean_loss=EuclideanLoss flatten=Flatten hdf5_data=HDF5Data hdf5_output=HDF5Output
    im2col=Im2col images=ImageData infogain_loss=InfogainLoss innerproduct=InnerProduct lrn=LRN
    multinomial_logistic_loss=MultinomialLogisticLoss pool=Pooling relu=ReLU sigmoid=Sigmoid
    softmax=Softmax softmax_loss=SoftmaxWithLoss split=Split tanh=TanH window_data=WindowData
    """.split()  # noqa: SIM905  # a table of names reads best as words
)
"""The current types of V0 layers, by their V0 names."""

_V0_SETTINGS: Final = {
    "conv": """convolution_param num_output biasterm=bias_term weight_filler bias_filler pad
        kernelsize=kernel_size group stride""",
    "innerproduct": "inner_product_param num_output biasterm=bias_term weight_filler bias_filler",
    "pool": "pooling_param pad kernelsize=kernel_size stride pool",
    "dropout": "dropout_param dropout_ratio",
    "lrn": "lrn_param local_size alpha beta k",
    "data": "data_param source batchsize=batch_size rand_skip",
    "hdf5_data": "hdf5_data_param source batchsize=batch_size",
    "images": """image_data_param source batchsize=batch_size rand_skip shuffle_images=shuffle
        new_height new_width""",
    "window_data": """window_data_param source batchsize=batch_size
        det_fg_threshold=fg_threshold det_bg_threshold=bg_threshold det_fg_fraction=fg_fraction
        det_context_pad=context_pad det_crop_mode=crop_mode""",
    "infogain_loss": "infogain_loss_param source",
    "concat": "concat_param concat_dim",
}
"""The message for the V0 settings of a type of layer, then these, with new names that differ.

As in Caffe, a setting that the type does not have is dropped.
"""


def _names(text: str) -> dict[str, str]:
    """Return the new names of fields, each after its old one and "=" if they differ."""
    return {old: new or old for old, _, new in (pair.partition("=") for pair in text.split())}


_TRANSFORM: Final = _names("scale meanfile=mean_file cropsize=crop_size mirror")
"""The V0 settings of transform_param, which every type of layer has."""

_DATA_LAYERS: Final = {
    V1_TYPE_NUMBERS["Data"]: "data_param",
    V1_TYPE_NUMBERS["ImageData"]: "image_data_param",
    V1_TYPE_NUMBERS["WindowData"]: "window_data_param",
}

_SPECS: Final = {
    "param": "name",
    "blob_share_mode": "share_mode",
    "blobs_lr": "lr_mult",
    "weight_decay": "decay_mult",
}
"""V1's lists with one entry for each blob, and the fields of ParamSpec that replace them."""

_BATCH_NORM_BLOBS = 3


def upgrade_net(net: NetParameter) -> NetParameter:
    """Return a net of any format in the current one, upgraded as Caffe does.

    The argument does not change.

    Raises
    ------
    ValueError
        If Caffe refuses it: V1 and V2 layers in one net, an unknown V0 type, padding that no layer
        can take over, or inputs with too few dimensions.
    """
    upgraded = upgrade_layers(net)
    if upgraded.input:
        _make_input_layer(upgraded)
    for layer in upgraded.layer:
        if layer.type == "BatchNorm" and len(layer.param) == _BATCH_NORM_BLOBS:
            for spec in layer.param:
                spec.lr_mult = spec.decay_mult = 0
    return upgraded


def upgrade_layers(net: NetParameter) -> NetParameter:
    """Return a net of any format with its layers in the current one: steps 1 to 3 of the upgrade.

    Raises the errors of `upgrade_net`.
    """
    upgraded = type(net)()
    upgraded.CopyFrom(net)
    if any(map(is_v0, upgraded.layers)):
        upgraded = _without_v0(upgraded)
    for layer in upgraded.layers:
        _move_transformation(layer)
    if upgraded.layers and upgraded.layer:
        raise ValueError(
            "the net has layers of two formats, 'layers' and 'layer'; Caffe refuses it too. Write "
            "all of them as 'layer', the current format"
        )
    for layer in upgraded.layers:
        _fill_from_v1(upgraded.layer.add(), layer)
    upgraded.ClearField("layers")
    return upgraded


def is_v0(layer: V1LayerParameter) -> bool:
    """Tell whether a layer is one of the first format, which makes the whole net one."""
    return layer.HasField("layer")


def _is_padding(layer: V1LayerParameter) -> bool:
    """Tell whether a layer of the first format becomes a setting of the one after it."""
    return layer.layer.type == "padding"


# --- V0 -------------------------------------------------------------------------------------------


def _without_v0(net: NetParameter) -> NetParameter:
    """Return a V0 net as V1."""
    upgraded = type(net)()
    _copy(net, upgraded, _names("name force_backward input input_dim"))
    for old in _fold_padding(net.layers):
        new = upgraded.layers.add()
        _copy(old, new, _names("bottom top"))
        if is_v0(old):
            _fill_from_v0(new, old.layer)
    return upgraded


def _fold_padding(layers: Iterable[V1LayerParameter]) -> Iterator[V1LayerParameter]:
    """Yield the layers other than padding, changed to have its bottoms and settings."""
    # For each blob name, the last layer so far that has it as a top.
    makers: dict[str, V1LayerParameter] = {}
    for layer in layers:
        bottoms = list(layer.bottom)
        for number, bottom in enumerate(bottoms):
            padding = makers.get(bottom)
            if padding is not None and _is_padding(padding):
                _require_foldable(layer, padding)
                layer.layer.pad = padding.layer.pad
                bottoms[number] = padding.bottom[0]
        makers.update(dict.fromkeys(layer.top, layer))
        put_texts(layer, "bottom", bottoms)
        if not _is_padding(layer):
            yield layer


def _require_foldable(layer: V1LayerParameter, padding: V1LayerParameter) -> None:
    name, kind = layer.layer.name, layer.layer.type
    if kind not in {"conv", "pool"}:
        raise ValueError(
            f"layer {name!r}: expected a layer of type 'conv' or 'pool' after a padding layer, got "
            f"{kind!r}"
        )
    counts = len(layer.bottom), len(padding.bottom), len(padding.top)
    if counts != (1, 1, 1):
        raise ValueError(
            f"layer {name!r}: expected one bottom of the {kind!r} layer, one bottom and one top of "
            f"the padding layer in front of it, got {counts[0]}, {counts[1]} and {counts[2]}"
        )


def _fill_from_v0(new: V1LayerParameter, old: V0LayerParameter) -> None:
    kind = old.type
    _copy(old, new, _names("name blobs blobs_lr weight_decay"))
    if kind == "hdf5_output":
        _copy(old, new, _names("hdf5_output_param"))
    if old.HasField("type"):
        if kind not in V0_LAYER_TYPES:
            raise ValueError(
                f"layer {old.name!r}: expected one of the types of Caffe's first format, got "
                f"{kind!r}"
            )
        number: Any = V1_TYPE_NUMBERS[V0_LAYER_TYPES[kind]]  # the stubs want their own enumeration
        new.type = number
    _copy(old, new.transform_param, _TRANSFORM)
    if kind in _V0_SETTINGS:
        place, _, names = _V0_SETTINGS[kind].partition(" ")
        _copy(old, getattr(new, place), _names(names))


# --- V1 -------------------------------------------------------------------------------------------


def _move_transformation(layer: V1LayerParameter) -> None:
    """Move the settings of the image transformation to transform_param."""
    settings = _DATA_LAYERS.get(layer.type)
    if settings is None:
        return
    for name in _TRANSFORM.values():
        _copy(getattr(layer, settings), layer.transform_param, {name: name})
        getattr(layer, settings).ClearField(name)


def _fill_from_v1(new: LayerParameter, old: V1LayerParameter) -> None:
    for field, value in old.ListFields():
        if field.name == "type":
            new.type = V1_LAYER_TYPES[value]
        elif field.name in _SPECS:
            while len(new.param) < len(value):
                new.param.add()
            for spec, setting in zip(new.param, value, strict=False):
                _set(spec, _SPECS[field.name], setting)
        else:
            _set(new, field.name, value)


def _make_input_layer(net: NetParameter) -> None:
    """Turn the inputs into a layer. Without shapes, as in old model files, drop them."""
    shapes = [list(shape.dim) for shape in net.input_shape]
    if not shapes:
        dims = net.input_dim
        shapes = [list(dims[i : i + LEGACY_AXES]) for i in range(0, len(dims), LEGACY_AXES)]
    if shapes:
        layer = type(net)().layer.add(name="input", type="Input")
        add_texts(layer, "top", net.input)
        for number, name in enumerate(net.input):
            if number >= len(shapes) or (not net.input_shape and len(shapes[number]) < LEGACY_AXES):
                raise ValueError(
                    f"expected a shape for each input of the net, got none for {name!r}"
                )
            layer.input_param.shape.add(dim=shapes[number])
        net.layer.insert(0, layer)
    for field in ("input", "input_dim", "input_shape"):
        net.ClearField(field)


def _copy(source: Message, target: Message, names: dict[str, str]) -> None:
    """Copy the fields that are present, of these old names, to the new ones."""
    for field, value in source.ListFields():
        if field.name in names:
            _set(target, names[field.name], value)


def _set(message: Message, name: str, value: Any) -> None:
    """Set a field of any kind, or add one value or several to a repeated field."""
    field, place = message.DESCRIPTOR.fields_by_name[name], getattr(message, name)
    is_list = hasattr(value, "extend")
    if field.type == field.TYPE_STRING:
        add_texts(message, name, value if is_list else [value])
    elif hasattr(place, "extend"):
        place.extend(value if is_list else [value])
    elif hasattr(place, "CopyFrom"):
        place.CopyFrom(value)
    else:
        setattr(message, name, value)
