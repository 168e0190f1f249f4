"""Settings of layers: in one line, for JSON, and as the text of a ``.prototxt``."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from syncblob.caffe.messages.texts import decoded

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from syncblob.caffe import Layer, ModelFile

# Fields that are shown separately.
_SHOWN = ("name", "type", "bottom", "top", "blobs")
# The initialization before training matters least.
_FILLERS = "FillerParameter"


def settings_as_json(layer: Layer) -> dict[str, Any]:
    """Return the settings of a layer by Caffe's names, for JSON."""
    from google.protobuf import json_format  # slow to import

    message = copy.deepcopy(layer.proto)
    for field in _SHOWN:
        message.ClearField(field)
    settings: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    _decode_texts(message, settings)
    return settings


def _decode_texts(message: Message, settings: dict[str, Any]) -> None:
    """Replace strings that are not UTF-8, for which protobuf writes the `repr` of the bytes."""
    for field, value in message.ListFields():
        shown = settings[field.name]
        several = isinstance(shown, list)
        values = value if several else [value]
        if field.message_type is not None:
            for inner, described in zip(values, shown if several else [shown], strict=True):
                _decode_texts(inner, described)
        elif field.type == field.TYPE_STRING:
            texts = [decoded(text) for text in values]
            settings[field.name] = texts if several else texts[0]


def settings_in_words(layer: Layer) -> str:
    """Return the parameters of a layer, such as ``"num_output: 20 kernel_size: 5"``.

    These are all messages whose names end in ``_param``, without fillers.
    """
    from google.protobuf import text_format  # slow to import

    words = []
    for field, value in copy.deepcopy(layer.proto).ListFields():
        if not field.name.endswith("_param"):
            continue
        for inner, _ in value.ListFields():
            if inner.message_type is not None and inner.message_type.name == _FILLERS:
                value.ClearField(inner.name)
        words.append(text_format.MessageToString(value, as_one_line=True))
    return " ".join(filter(None, words))


def definition_of(model: ModelFile) -> str:
    """Return the definition of a net without its weights, as ASCII text.

    Fields unknown to Caffe are omitted.
    """
    from google.protobuf import text_format  # slow to import

    text: str = text_format.MessageToString(model.to_net(), as_utf8=False)
    return text
