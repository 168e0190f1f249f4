"""Nets of Caffe's older formats as nets of the current one, by the rules of Caffe itself.

In this order (``UpgradeNetAsNeeded`` in Caffe's ``util/upgrade_proto.cpp``):

1. The first format (V0) has the settings of every type of layer side by side in a message within
   the layer. If any layer has it, the net is of this format, and what else the net has is lost:
   its layers of the current format, the shapes of its inputs, and name, type and blobs of layers
   of the second format. Padding layers are folded away.
2. How images are transformed moves from the settings of three types of data layers to
   transform_param.
3. The second format (V1) numbers the types of layers, and has lists in place of ParamSpec.
4. The inputs of the net become a layer of type Input, if their shapes are known.
5. A BatchNorm layer with three ParamSpecs is not trained by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from syncblob.caffe._fields import LEGACY_AXES
from syncblob.caffe._older_layer_types import V0_LAYER_TYPES, V1_LAYER_TYPES, V1_TYPE_NUMBERS
from syncblob.caffe._padding import Connection, PaddingError, fold_padding
from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetParameter, V1LayerParameter

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from syncblob.caffe._pb.caffe_pb2 import V0LayerParameter

__all__ = ["upgrade_net"]

_V0_SETTINGS: Final = {
    "num_output": {"conv": "convolution", "innerproduct": "inner_product"},
    "biasterm": {"conv": "convolution.bias_term", "innerproduct": "inner_product.bias_term"},
    "weight_filler": {"conv": "convolution", "innerproduct": "inner_product"},
    "bias_filler": {"conv": "convolution", "innerproduct": "inner_product"},
    "pad": {"conv": "convolution", "pool": "pooling"},
    "kernelsize": {"conv": "convolution.kernel_size", "pool": "pooling.kernel_size"},
    "group": {"conv": "convolution"},
    "stride": {"conv": "convolution", "pool": "pooling"},
    "pool": {"pool": "pooling"},
    "dropout_ratio": {"dropout": "dropout"},
    "local_size": {"lrn": "lrn"},
    "alpha": {"lrn": "lrn"},
    "beta": {"lrn": "lrn"},
    "k": {"lrn": "lrn"},
    "source": {
        "data": "data",
        "hdf5_data": "hdf5_data",
        "images": "image_data",
        "window_data": "window_data",
        "infogain_loss": "infogain_loss",
    },
    "batchsize": {
        "data": "data.batch_size",
        "hdf5_data": "hdf5_data.batch_size",
        "images": "image_data.batch_size",
        "window_data": "window_data.batch_size",
    },
    "rand_skip": {"data": "data", "images": "image_data"},
    "shuffle_images": {"images": "image_data.shuffle"},
    "new_height": {"images": "image_data"},
    "new_width": {"images": "image_data"},
    "concat_dim": {"concat": "concat"},
    "det_fg_threshold": {"window_data": "window_data.fg_threshold"},
    "det_bg_threshold": {"window_data": "window_data.bg_threshold"},
    "det_fg_fraction": {"window_data": "window_data.fg_fraction"},
    "det_context_pad": {"window_data": "window_data.context_pad"},
    "det_crop_mode": {"window_data": "window_data.crop_mode"},
}
"""A setting of the first format, by type of layer: the message, and the name where it changed.

A setting that the type does not have is dropped, as by Caffe.
"""

_V0_TRANSFORM: Final = {
    "scale": "scale",
    "meanfile": "mean_file",
    "cropsize": "crop_size",
    "mirror": "mirror",
}
"""Settings of the first format that transform_param has for every type of layer."""

# Plain numbers, which the stubs of the messages do not take for their enumerations.
_V1_NUMBERS: Final[dict[str, Any]] = {**V1_TYPE_NUMBERS}

_DATA_LAYERS: Final = {
    V1LayerParameter.DATA: "data_param",
    V1LayerParameter.IMAGE_DATA: "image_data_param",
    V1LayerParameter.WINDOW_DATA: "window_data_param",
}

_SPECS: Final = {
    "param": "name",
    "blob_share_mode": "share_mode",
    "blobs_lr": "lr_mult",
    "weight_decay": "decay_mult",
}
"""Lists of the second format, one entry for each blob, and the fields of ParamSpec for them."""

_REPEATED: Final = frozenset({"bottom", "top", "include", "exclude", "blobs", "loss_weight"})

_BATCH_NORM_BLOBS = 3


def upgrade_net(net: NetParameter) -> NetParameter:
    """Return a net in the current format, upgraded as Caffe does it.

    Parameters
    ----------
    net
        A net of any format. It is not changed.

    Raises
    ------
    ValueError
        If Caffe refuses it: layers of the second and of the current format in one net, an unknown
        type in the first format, padding that no layer can take over, or inputs with too few
        dimensions.
    """
    upgraded = NetParameter()
    upgraded.CopyFrom(net)
    if any(layer.HasField("layer") for layer in upgraded.layers):
        upgraded = _without_v0(upgraded)
    for layer in upgraded.layers:
        _move_transformation(layer)
    if upgraded.layers:
        if upgraded.layer:
            raise ValueError(
                "the net has layers of two formats, 'layers' and 'layer'; Caffe refuses it too"
            )
        upgraded.layer.extend(_from_v1(layer) for layer in upgraded.layers)
        upgraded.ClearField("layers")
    if upgraded.input:
        _make_input_layer(upgraded)
    for current in upgraded.layer:
        if current.type == "BatchNorm" and len(current.param) == _BATCH_NORM_BLOBS:
            for spec in current.param:
                spec.lr_mult = spec.decay_mult = 0
    return upgraded


# --- the first format -----------------------------------------------------------------------------


def _without_v0(net: NetParameter) -> NetParameter:
    """Return a net of the first format in the second."""
    layers = net.layers
    try:
        folded = fold_padding(
            [
                Connection(layer.layer.type, tuple(layer.bottom), tuple(layer.top))
                for layer in layers
            ]
        )
    except PaddingError as error:
        name = layers[error.position].layer.name
        raise ValueError(f"layer {name!r}: {error}") from error
    upgraded = NetParameter(input=net.input, input_dim=net.input_dim)
    for name in ("name", "force_backward"):
        _copy_field(net, name, upgraded, name)
    for position, bottoms, padding in folded:
        old = layers[position]
        if padding is not None:
            old.layer.pad = layers[padding].layer.pad
        new = upgraded.layers.add(bottom=bottoms, top=old.top)
        if old.HasField("layer"):
            _fill_from_v0(new, old.layer)
    return upgraded


def _fill_from_v0(new: V1LayerParameter, old: V0LayerParameter) -> None:
    kind = old.type
    _copy_field(old, "name", new, "name")
    if old.HasField("type"):
        if kind not in V0_LAYER_TYPES:
            raise ValueError(
                f"layer {old.name!r}: expected one of the types of Caffe's first format, got "
                f"{kind!r}"
            )
        new.type = _V1_NUMBERS[V0_LAYER_TYPES[kind]]
    for name in ("blobs", "blobs_lr", "weight_decay"):
        getattr(new, name).extend(getattr(old, name))
    for name, places in _V0_SETTINGS.items():
        if kind in places and old.HasField(name):
            place, _, new_name = places[kind].partition(".")
            _copy_field(old, name, getattr(new, place + "_param"), new_name or name)
    for name, new_name in _V0_TRANSFORM.items():
        if old.HasField(name):
            _copy_field(old, name, new.transform_param, new_name)
    if kind == "hdf5_output":
        _copy_field(old, "hdf5_output_param", new, "hdf5_output_param")


# --- the second format ----------------------------------------------------------------------------


def _move_transformation(layer: V1LayerParameter) -> None:
    """Move how images are transformed to where it is in the current format."""
    settings = _DATA_LAYERS.get(layer.type)
    if settings is None:
        return
    for name in _V0_TRANSFORM.values():
        if getattr(layer, settings).HasField(name):
            _copy_field(getattr(layer, settings), name, layer.transform_param, name)
            getattr(layer, settings).ClearField(name)


def _from_v1(old: V1LayerParameter) -> LayerParameter:
    new = LayerParameter()
    for field, value in old.ListFields():
        name = field.name
        if name == "type":
            new.type = V1_LAYER_TYPES[value]
        elif name in _SPECS:
            while len(new.param) < len(value):
                new.param.add()
            for spec, setting in zip(new.param, value, strict=False):
                setattr(spec, _SPECS[name], setting)
        elif name in _REPEATED:
            getattr(new, name).extend(value)
        else:
            _copy_field(old, name, new, name)
    return new


def _make_input_layer(net: NetParameter) -> None:
    """Make a layer of the inputs; without shapes, as in old model files, they are dropped."""
    shapes = [list(shape.dim) for shape in net.input_shape]
    if not shapes:
        dims = net.input_dim
        shapes = [list(dims[i : i + LEGACY_AXES]) for i in range(0, len(dims), LEGACY_AXES)]
    if shapes:
        layer = LayerParameter(name="input", type="Input", top=net.input)
        for number, name in enumerate(net.input):
            if number >= len(shapes) or (not net.input_shape and len(shapes[number]) < LEGACY_AXES):
                raise ValueError(
                    f"expected a shape for each input of the net, got none for {name!r}"
                )
            layer.input_param.shape.add(dim=shapes[number])
        layers = [layer, *net.layer]
        net.ClearField("layer")
        net.layer.extend(layers)
    for field in ("input", "input_dim", "input_shape"):
        net.ClearField(field)


def _copy_field(source: Message, name: str, target: Message, new_name: str) -> None:
    """Copy a field, if it is there, to one that may have another name or be repeated."""
    if not source.HasField(name):
        return
    value = getattr(source, name)
    place = getattr(target, new_name)
    if hasattr(place, "append"):
        place.append(value)
    elif hasattr(place, "CopyFrom"):
        place.CopyFrom(value)
    else:
        setattr(target, new_name, value)
