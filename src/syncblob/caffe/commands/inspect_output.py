"""The output of ``syncblob inspect``: a dictionary for JSON, and its text for people."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from google.protobuf import text_format

from syncblob.caffe.commands.console import Cell, Output, listed, printable
from syncblob.caffe.commands.stats import stats_of
from syncblob.caffe.messages.texts import decoded
from syncblob.formats import Blob, counted, human_bytes

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from syncblob.caffe import Layer
    from syncblob.caffe.commands.contents import Contents

_STATS = ("min", "mean", "max", "std")
_NONE: Cell = ("-", "dim")
# At most this many layers are listed.
_NAMED = 8
# Fields that are shown separately.
_SHOWN = ("name", "type", "bottom", "top", "blobs")


def as_json(contents: Contents, *, stats: bool, settings: bool) -> dict[str, Any]:
    """Return the contents of a file for JSON."""
    layers = [_layer_as_json(layer, stats=stats, settings=settings) for layer in contents.layers]
    blobs = [blob for layer in layers for blob in layer["blobs"]]
    if contents.is_lone:
        layers = []
    return {
        "format": contents.weights.kind,
        "net": contents.weights.name if contents.is_net else None,
        **contents.facts,
        "layers": layers,
        "blob": blobs[0] if contents.is_lone else None,
        "totals": {
            "layers": len(layers),
            "blobs": len(blobs),
            "parameters": sum(blob["parameters"] for blob in blobs),
            "bytes": sum(blob["bytes"] for blob in blobs),
        },
        "unreadable": contents.weights.unreadable,
        "others": list(contents.weights.others),
    }


def _layer_as_json(layer: Layer, *, stats: bool, settings: bool) -> dict[str, Any]:
    return {
        "name": layer.name,
        "type": layer.type,
        "bottoms": list(layer.bottoms),
        "tops": list(layer.tops),
        "blobs": [_blob_as_json(blob, stats=stats) for blob in layer.blobs],
        **({"settings": _settings_as_json(layer)} if settings else {}),
    }


def _blob_as_json(blob: Blob, *, stats: bool) -> dict[str, Any]:
    return {
        "shape": list(blob.shape),
        "dtype": blob.dtype.name,
        "parameters": blob.size,
        "bytes": blob.nbytes,
        **({"stats": stats_of(blob)} if stats else {}),
    }


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


# --- for people --------------------------------------------------------------------------------


def show(output: Output, contents: Contents, found: Mapping[str, Any]) -> None:
    """Show the contents of a file, and the problems found: the dictionary for JSON."""
    layers = found["layers"]
    blobs = [(layer["name"], *each) for layer in layers for each in enumerate(layer["blobs"])]
    output.facts(_facts(contents, found))
    if layers:
        _show_layers(output, layers, found["shapes"])
        _show_notes(output, contents, found)
    if layers and "settings" in layers[0]:
        _show_settings(output, contents.layers)
    _show_forks(output, found["ignored"])
    if found["unreadable"]:
        count = counted(len(found["unreadable"]), "tensor")
        first = printable(next(iter(found["unreadable"].values())))
        output.line((f"Not shown: the layers of {count} that cannot be read: {first}.", "dim"))
    if blobs and "stats" in blobs[0][2]:
        _show_stats(output, blobs)
    if "troubles" in found:
        _show_troubles(output, found["troubles"], found["unchecked"], filters=contents.is_net)
    is_whole = not found["refused"] and not found["missing"]
    if not contents.is_lone and is_whole and (layers or contents.is_net):
        totals = found["totals"]
        counts = [counted(totals[f"{noun}s"], noun) for noun in ("layer", "blob", "parameter")]
        output.line()
        output.line(f"{', '.join(counts)}, {human_bytes(totals['bytes'])} of weights")


def _facts(contents: Contents, found: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("file", printable(found["file"])),
        ("format", contents.description),
        ("size", human_bytes(found["file_bytes"])),
    ]
    if found["net"]:
        facts.append(("net", printable(found["net"])))
    for name, value in (found["solver"] or {}).items():
        facts.append((name.replace("_", " "), printable(str(value))))
    if (blob := found["blob"]) is not None:
        facts += [
            ("shape", _shape(blob)),
            ("dtype", blob["dtype"]),
            ("values", f"{blob['parameters']:,}, {human_bytes(blob['bytes'])}"),
        ]
        if "stats" in blob:
            facts += zip(_STATS, _numbers(blob), strict=True)
            facts.append(("non-finite", f"{blob['stats']['non_finite']:,}"))
    return facts


def _show_layers(
    output: Output, layers: list[dict[str, Any]], shapes: Mapping[str, tuple[int, ...]] | None
) -> None:
    output.heading("Layers")
    rows: list[dict[str, Cell]] = []
    for layer in layers:
        of_tops = ", ".join(str((shapes or {}).get(name, "?")) for name in layer["tops"])
        row = {
            "layer": printable(layer["name"]),
            "type": printable(layer["type"]) or _NONE,
            "tops": of_tops or _NONE,
        }
        for blob in layer["blobs"] or [None]:
            cells: tuple[Cell, ...] = (_NONE,) * 3
            if blob is not None:
                cells = (_shape(blob), blob["dtype"], human_bytes(blob["bytes"]))
            rows.append(row | dict(zip(("blob", "dtype", "size"), cells, strict=True)))
            if output.terminal:
                # On a terminal the name is shown once; grep needs it in each row.
                row = dict.fromkeys(row, "")
    if not any(layer["type"] for layer in layers):
        rows = _without("type", rows)
    if shapes is None:
        rows = _without("tops", rows)
    output.table(rows, right="size", folds="layer type tops")


def _without(heading: str, rows: list[dict[str, Cell]]) -> list[dict[str, Cell]]:
    return [{name: cell for name, cell in row.items() if name != heading} for row in rows]


def _show_notes(output: Output, contents: Contents, found: Mapping[str, Any]) -> None:
    """Show what is not known of the layers, and what the file has besides."""
    if found["refused"]:
        reason = printable(found["refused"])
        output.line((f"No shapes: {reason}. --phase and --shape say what is missing.", "dim"))
    for name, why in found["missing"].items():
        reason = printable(why.partition(": shapes=")[0])
        output.line((f"Not known: {reason}: --shape {printable(name)}=...", "dim"))
    if found["others"]:
        output.line((f"Not shown: {printable(', '.join(found['others']))}.", "dim"))
    typed = [bool(layer["type"]) for layer in found["layers"]]
    if contents.is_net and not all(typed):
        which = "some layers" if any(typed) else "the layers"
        output.line((f"The file does not say of which types {which} are.", "dim"))


def _show_forks(output: Output, ignored: list[dict[str, Any]]) -> None:
    """Show what a definition has of forks: what was left out, and which rules were applied."""
    left_out = listed((each["name"], each["count"]) for each in ignored if not each["rule"])
    applied = [
        f"{each['name']} ({each['count']:,}): {each['rule']}" for each in ignored if each["rule"]
    ]
    if left_out:
        advice = "" if applied else "; --forks applies the rules of well-known forks"
        output.line(
            ("Left out", "yellow"),
            f", because Caffe does not have it: {printable(left_out)}{advice}.",
        )
    if applied:
        output.line(("By the rules of forks", "yellow"), f": {printable('; '.join(applied))}.")


def _shape(blob: dict[str, Any]) -> str:
    return str(tuple(blob["shape"]))


def _show_settings(output: Output, layers: Iterable[Layer]) -> None:
    rows: list[dict[str, Cell]] = [
        {
            "layer": printable(layer.name),
            "bottoms": printable(", ".join(layer.bottoms)) or _NONE,
            "tops": printable(", ".join(layer.tops)) or _NONE,
            "settings": printable(_in_words(layer.proto)) or _NONE,
        }
        for layer in layers
    ]
    output.heading("Settings")
    output.table(rows, folds="layer bottoms tops settings")


def _in_words(message: Message) -> str:
    """Return the parameters of a layer's type, such as ``"num_output: 20"``, without fillers.

    The initialization before training matters least.
    """
    words = []
    for field, value in message.ListFields():
        if field.name.endswith("_param"):
            settings = copy.deepcopy(value)
            for name in settings.DESCRIPTOR.fields_by_name:
                if name.endswith("filler"):
                    settings.ClearField(name)
            words.append(text_format.MessageToString(settings, as_one_line=True, as_utf8=True))
    return " ".join(words)


def _show_stats(output: Output, blobs: list[tuple[str, int, dict[str, Any]]]) -> None:
    rows: list[dict[str, Cell]] = []
    for name, index, blob in blobs:
        non_finite = f"{blob['stats']['non_finite']:,}"
        rows.append(
            {
                "layer": "" if index > 0 and output.terminal else printable(name),
                "blob": str(index),
                **dict(zip(_STATS, _numbers(blob), strict=True)),
                "non-finite": non_finite if non_finite == "0" else (non_finite, "bold red"),
            }
        )
    if all(row["non-finite"] == "0" for row in rows):
        rows = _without("non-finite", rows)
    output.heading("Statistics")
    output.table(rows, right=" ".join(("blob", *_STATS, "non-finite")), folds="layer")


def _show_troubles(
    output: Output, troubles: list[dict[str, Any]], unchecked: list[str], *, filters: bool
) -> None:
    output.heading("Checks")
    if troubles:
        rows: list[dict[str, Cell]] = [
            {
                **{
                    name: f"{value:,}" if isinstance(value, int) else printable(value)
                    for name, value in trouble.items()
                },
                "kind": (trouble["kind"], "bold red"),
            }
            for trouble in troubles
        ]
        output.table(rows, right="blob affected total", folds="layer where")
    else:
        # Mention filters only if those of all layers have been checked.
        dead = ", and no filter is dead" if filters and not unchecked else ""
        output.line(("No trouble found", "green"), f": all values are finite{dead}.")
    if unchecked:
        names = ", ".join(map(printable, unchecked[:_NAMED]))
        more = ", ..." if len(unchecked) > _NAMED else ""
        output.line(
            ("Not checked", "yellow"),
            f": {counted(len(unchecked), 'layer')} of unknown type or layout "
            f"({names}{more}): for negative variances, for scale factors of 0, and for dead "
            f"filters along other axes than the first.",
        )


def _numbers(blob: dict[str, Any]) -> list[str]:
    values = (blob["stats"][name] for name in _STATS)
    return ["-" if value is None else f"{value:.3g}" for value in values]
