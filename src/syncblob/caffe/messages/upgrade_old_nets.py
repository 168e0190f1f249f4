"""Caffe's previous layer format: the current names of its types, and the upgrade of nets.

V2 is the current format; V1 identifies types of layers by numbers. V0, the first one, nests its
layers in V1 layers, and is refused. `upgrade_net` does what Caffe does (``UpgradeNetAsNeeded`` in
``util/upgrade_proto.cpp``): 1. the image transformation moves from the settings of data layers to
transform_param; 2. V1 type numbers become names, and parallel lists ParamSpecs; 3. the inputs of
the net become a layer of type Input, if their shapes are known; 4. the learning rates of a
BatchNorm layer with three ParamSpecs are set to zero. New messages are made from the classes of the
upgraded message, which may be another module's.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import Message

from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetParameter, V1LayerParameter
from syncblob.caffe.messages.fields import LEGACY_AXES
from syncblob.caffe.messages.string_fields import put_texts

_V1_NAMES = """
Accuracy BNLL Concat Convolution Data Dropout EuclideanLoss Flatten HDF5Data HDF5Output Im2col
ImageData InfogainLoss InnerProduct LRN MultinomialLogisticLoss Pooling ReLU Sigmoid Softmax
SoftmaxWithLoss Split TanH WindowData Eltwise Power SigmoidCrossEntropyLoss HingeLoss MemoryData
ArgMax Threshold DummyData Slice MVN AbsVal Silence ContrastiveLoss Exp Deconvolution
"""
V1_LAYER_TYPES: Final = dict(enumerate(["", *_V1_NAMES.split()]))
"""The types of V1 layers, by number."""

_TRANSFORM: Final = ("scale", "mean_file", "crop_size", "mirror")

DATA_LAYERS: Final = {
    "Data": "data_param",
    "ImageData": "image_data_param",
    "WindowData": "window_data_param",
}
"""The types of layers that read images from files, and the fields of their settings."""

_SPECS: Final = {
    "param": "name",
    "blob_share_mode": "share_mode",
    "blobs_lr": "lr_mult",
    "weight_decay": "decay_mult",
}
"""V1's lists with one entry for each blob, and the fields of ParamSpec that replace them."""

_BATCH_NORM_BLOBS = 3


def upgrade_net(net: NetParameter) -> NetParameter:
    """Return a net of V1 or V2 in the current format, upgraded as Caffe does, in a new message."""
    upgraded = upgrade_layers(net)
    if upgraded.input:
        _make_input_layer(upgraded)
    for layer in upgraded.layer:
        if layer.type == "BatchNorm" and len(layer.param) == _BATCH_NORM_BLOBS:
            for spec in layer.param:
                spec.lr_mult = spec.decay_mult = 0
    return upgraded


def upgrade_layers(net: NetParameter) -> NetParameter:
    """Return a net of V1 or V2 with its layers in the current format: steps 1 and 2."""
    upgraded = type(net)()
    upgraded.CopyFrom(net)
    if any(layer.HasField("layer") for layer in upgraded.layers):
        raise ValueError(
            "the layers have the format V0, which is older than Caffe's first release; Caffe's "
            "tools upgrade_net_proto_binary and upgrade_net_proto_text convert such files"
        )
    if upgraded.layers and upgraded.layer:
        raise ValueError(
            "the net has layers of two formats, 'layers' and 'layer'; Caffe refuses it too. Write "
            "all of them as 'layer', the current format"
        )
    for layer in upgraded.layers:
        _move_transformation(layer)
        _fill_from_v1(upgraded.layer.add(), layer)
    upgraded.ClearField("layers")
    return upgraded


def _move_transformation(layer: V1LayerParameter) -> None:
    settings = DATA_LAYERS.get(V1_LAYER_TYPES[layer.type])
    if settings is None:
        return
    old, new = getattr(layer, settings), layer.transform_param
    for field, value in old.ListFields():
        if field.name in _TRANSFORM:
            _set(new, field.name, value)
            old.ClearField(field.name)


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
        put_texts(layer, "top", net.input)
        for number, name in enumerate(net.input):
            if number >= len(shapes) or (not net.input_shape and len(shapes[number]) < LEGACY_AXES):
                raise ValueError(
                    f"expected a shape for each input of the net, got none for {name!r}"
                )
            layer.input_param.shape.add(dim=shapes[number])
        net.layer.insert(0, layer)
    for field in ("input", "input_dim", "input_shape"):
        net.ClearField(field)


def _set(message: Message, name: str, value: Any) -> None:
    """Set a field, or add values to a repeated one."""
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.type == field.TYPE_STRING:
        put_texts(message, name, value if hasattr(value, "extend") else [value])
    else:
        message.MergeFrom(type(message)(**{name: value}))
