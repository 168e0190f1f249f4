"""The output of ``syncblob inspect --json``."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from syncblob.caffe.commands.stats import stats_of
from syncblob.caffe.messages.texts import decoded

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from syncblob.caffe import Layer
    from syncblob.caffe.commands.checks import Checked
    from syncblob.caffe.commands.contents import Contents
    from syncblob.formats import Blob

# Fields that are shown separately.
_SHOWN = ("name", "type", "bottom", "top", "blobs")


def as_json(
    contents: Contents, checked: Checked | None, *, stats: bool, settings: bool
) -> dict[str, Any]:
    """Return the contents of a file, and the problems found, for JSON."""
    lone = contents.lone
    found: dict[str, Any] = {
        "file": contents.path,
        "format": contents.kind,
        "file_bytes": contents.file_bytes,
        "version": contents.version,
        "net": contents.net,
        "layers": [
            {
                "name": layer.name,
                "type": layer.type,
                "bottoms": list(layer.bottoms),
                "tops": list(layer.tops),
                "blobs": [_blob_as_json(blob, stats=stats) for blob in layer.blobs],
            }
            for layer in contents.layers
        ],
        "blob": None if lone is None else _blob_as_json(lone, stats=stats),
        "solver": contents.solver,
        "shapes": contents.shapes,
        "missing": dict(contents.missing),
        "ignored": [
            dict(zip(("name", "count", "rule"), each, strict=True)) for each in contents.ignored
        ],
        "totals": contents.totals,
        "unreadable": dict(contents.unreadable),
    }
    if settings:
        layers = contents.as_model().layers
        for described, layer in zip(found["layers"], layers, strict=True):
            described["settings"] = _settings_as_json(layer)
    if checked is not None:
        found["troubles"] = [trouble._asdict() for trouble in checked.troubles]
        found["unchecked"] = checked.unchecked
    return found


def _blob_as_json(blob: Blob, *, stats: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "shape": list(blob.shape),
        "dtype": blob.dtype.name,
        "parameters": blob.size,
        "bytes": blob.nbytes,
    }
    if stats:
        described["stats"] = stats_of(blob)._asdict()
    return described


def _settings_as_json(layer: Layer) -> dict[str, Any]:
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
