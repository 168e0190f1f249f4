"""Settings of well-known forks of Caffe in definitions, and enum values that Caffe does not have.

protobuf parses a definition as a message of a *twin* of Caffe's messages. Its strings are bytes,
because they may have any encoding. If asked, it also has the fields of forks, or further values of
enums.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from syncblob.caffe._pb.caffe_pb2 import ForkLayer, NetParameter, PoolingParameter

_FIRST_NUMBER = 10_000
"""Caffe's messages have smaller numbers of fields and of enum values."""
_FORK_FIELDS = {
    "PoolingParameter": ("ceil_mode", "pad_type"),  # of synopsys-caffe
    "ConvolutionParameter": ("hole", "hole_h", "hole_w", "pad_type"),  # the first three of DeepLab
}


@lru_cache(maxsize=4)
def twin(name: str, *, forks: bool, values: tuple[tuple[str, str], ...] = ()) -> type[Message]:
    """Return the class of the twin of a message, given its full name."""
    file = FileDescriptorProto.FromString(NetParameter.DESCRIPTOR.file.serialized_pb)
    messages = {message.name: message for message in file.message_type}
    for message in file.message_type:
        for field in message.field:
            if field.type == field.TYPE_STRING:
                field.type = field.TYPE_BYTES
    if forks:
        settings = messages[ForkLayer.DESCRIPTOR.name].field
        for number, field in enumerate(settings, _FIRST_NUMBER):
            if field.name == "pad_type":
                continue
            messages["LayerParameter"].field.add().MergeFrom(field)
            messages["LayerParameter"].field[-1].number = number
        for kind, names in _FORK_FIELDS.items():
            for number, field_name in enumerate(names, _FIRST_NUMBER):
                type_ = field.TYPE_BOOL if field_name == "ceil_mode" else field.TYPE_UINT32
                messages[kind].field.add(
                    name=field_name, number=number, type=type_, label=field.LABEL_OPTIONAL
                )
    enums = {f"{file.package}.{enum.name}": enum for enum in file.enum_type} | {
        f"{file.package}.{message.name}.{enum.name}": enum
        for message in file.message_type
        for enum in message.enum_type
    }
    for free, (enum_name, value) in enumerate(values, _FIRST_NUMBER):
        known = value.isdecimal()
        number = int(value) if known else free
        enums[enum_name].value.add(name=f"_{value}" if known else value, number=number)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


def translate(net: Any) -> list[bytes]:
    """Replace the fields of forks in a twin of a NetParameter by Caffe's own."""
    if any(_translate(layer) for layer in net.layers):
        raise ValueError("expected no pad_type in layers {}; write the layer as layer {}")
    return [_translate(layer) for layer in net.layer]


def _translate(layer: Any) -> bytes:
    kept = ForkLayer()
    for field, value in layer.ListFields():
        if field.number >= _FIRST_NUMBER:
            getattr(kept, field.name).MergeFromString(value.SerializeToString())
            layer.ClearField(field.name)
        elif field.message_type is not None and field.message_type.name in _FORK_FIELDS:
            names = _FORK_FIELDS[field.message_type.name]
            found = {name: getattr(value, name) for name in names if value.HasField(name)}
            for name in found:
                value.ClearField(name)
            if "pad_type" in found:
                kept.pad_type = found["pad_type"]
            if "ceil_mode" in found and not value.HasField("round_mode"):
                modes = PoolingParameter.FLOOR, PoolingParameter.CEIL
                value.round_mode = modes[found["ceil_mode"]]
            holes = [found[name] for name in names if name.startswith("hole") and name in found]
            if ("hole_h" in found) != ("hole_w" in found):
                raise ValueError("expected hole_h and hole_w, got only one of them")
            if holes and not value.dilation:
                value.dilation.extend(holes)
    return kept.SerializeToString()
