"""The output of ``syncblob inspect``: a dictionary for JSON, and its text for people."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from syncblob.caffe.commands.console import Cell, Output, counted, listed, printable
from syncblob.caffe.commands.stats import stats_of
from syncblob.caffe.convert import Weights
from syncblob.caffe.messages.texts import decoded
from syncblob.formats import Blob, human_bytes

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from syncblob.caffe import Layer
    from syncblob.caffe.commands.checks import Checked
    from syncblob.caffe.commands.contents import Contents

_STATS = ("min", "mean", "max", "std")
_NONE: Cell = ("-", "dim")
# The initialization before training matters least.
_FILLERS = "FillerParameter"
# At most this many layers are listed.
_NAMED = 8
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


# --- for people --------------------------------------------------------------------------------


def show(output: Output, contents: Contents, found: dict[str, Any], *, settings: bool) -> None:
    """Show the contents of a file, and the problems found, as `as_json` returns them."""
    facts = _facts_of_file(contents)
    if found["blob"] is not None:
        facts += _facts_of_lone_blob(found["blob"])
    output.facts(facts)
    if found["layers"]:
        _show_layers(output, contents, found["layers"])
        if settings:
            _show_settings(output, contents)
    _show_ignored(output, contents)
    if contents.unreadable:
        count = counted(len(contents.unreadable), "tensor")
        first = printable(next(iter(contents.unreadable.values())))
        output.line((f"Not shown: the layers of {count} that cannot be read: {first}.", "dim"))
    blobs = [blob for layer in found["layers"] for blob in layer["blobs"]]
    if any("stats" in blob for blob in blobs):
        _show_stats(output, found["layers"])
    if "troubles" in found:
        _show_troubles(output, found["troubles"], found["unchecked"], filters=contents.is_net)
    is_whole = not contents.no_shapes and not contents.missing
    if contents.lone is None and is_whole and (contents.layers or contents.is_net):
        totals = found["totals"]
        counts = [counted(totals[f"{noun}s"], noun) for noun in ("layer", "blob", "parameter")]
        output.line()
        output.line(f"{', '.join(counts)}, {human_bytes(totals['bytes'])} of weights")


def _facts_of_file(contents: Contents) -> list[tuple[str, str]]:
    facts = [
        ("file", printable(contents.path)),
        ("format", contents.description),
        ("size", human_bytes(contents.file_bytes)),
    ]
    if contents.net:
        facts.append(("net", printable(contents.net)))
    if contents.solver is not None:
        facts += [
            (name.replace("_", " "), printable(str(value)))
            for name, value in contents.solver.items()
        ]
    return facts


def _show_layers(output: Output, contents: Contents, layers: list[dict[str, Any]]) -> None:
    output.heading("Layers")
    typed = [bool(layer["type"]) for layer in layers]
    rows: list[list[Cell]] = []
    for layer in layers:
        name: Cell = printable(layer["name"])
        kind: Cell = printable(layer["type"]) or _NONE
        tops = _shapes_of_tops(layer["tops"], contents)
        if not layer["blobs"]:
            rows.append([name, kind, tops, _NONE, _NONE, _NONE])
        for blob in layer["blobs"]:
            rows.append([name, kind, tops, _shape(blob), blob["dtype"], human_bytes(blob["bytes"])])
            if output.terminal:
                # On a terminal the name is shown once; grep needs it in each row.
                name = kind = tops = ""
    headings = "layer type tops blob dtype size".split()  # noqa: SIM905  # as for the other tables
    left_out = [1] * (not any(typed)) + [2] * (contents.shapes is None)
    for position in reversed(left_out):
        del headings[position]
        rows = [row[:position] + row[position + 1 :] for row in rows]
    output.table(" ".join(headings), rows, right="size", folds="layer type tops")
    if contents.no_shapes:
        reason = printable(contents.no_shapes)
        output.line((f"No shapes: {reason}. --phase and --shape say what is missing.", "dim"))
    for name, why in contents.missing.items():
        reason = printable(why.partition(": shapes=")[0])
        output.line((f"Not known: {reason}: --shape {printable(name)}=...", "dim"))
    if isinstance(contents.source, Weights):
        _show_omitted(output, contents.source)
    if contents.is_net and not all(typed):
        which = "some layers" if any(typed) else "the layers"
        output.line((f"The file does not say of which types {which} are.", "dim"))


def _show_ignored(output: Output, contents: Contents) -> None:
    """Show what a definition has of forks: what was left out, and which rules were applied."""
    left_out = listed((name, count) for name, count, rule in contents.ignored if not rule)
    applied = [
        f"{listed([(name, count)])}: {rule}" for name, count, rule in contents.ignored if rule
    ]
    if left_out:
        advice = "" if applied else "; --forks applies the rules of well-known forks"
        output.line(
            ("Left out", "yellow"),
            f", because Caffe does not have it: {printable(left_out)}{advice}.",
        )
    if applied:
        output.line(("By the rules of forks", "yellow"), f": {printable('; '.join(applied))}.")


def _show_omitted(output: Output, weights: Weights) -> None:
    if weights.others:
        output.line((f"Not shown: {printable(', '.join(weights.others))}.", "dim"))


def _shapes_of_tops(tops: list[str], contents: Contents) -> Cell:
    if contents.shapes is None or not tops:
        return _NONE
    return ", ".join(str(contents.shapes.get(name, "?")) for name in tops)


def _shape(blob: dict[str, Any]) -> str:
    return str(tuple(blob["shape"]))


def _show_settings(output: Output, contents: Contents) -> None:
    rows: list[list[Cell]] = [
        [
            printable(layer.name),
            _joined(layer.bottoms),
            _joined(layer.tops),
            printable(_settings_in_words(layer)) or _NONE,
        ]
        for layer in contents.as_model().layers
    ]
    output.heading("Settings")
    headings = "layer bottoms tops settings"
    output.table(headings, rows, folds=headings)


def _settings_in_words(layer: Layer) -> str:
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


def _joined(names: tuple[str, ...]) -> Cell:
    return printable(", ".join(names)) if names else _NONE


def _show_stats(output: Output, layers: list[dict[str, Any]]) -> None:
    places = [(layer["name"], *each) for layer in layers for each in enumerate(layer["blobs"])]
    # Omit a column of zeros.
    any_non_finite = any(blob["stats"]["non_finite"] for _, _, blob in places)
    rows: list[list[Cell]] = []
    for name, index, blob in places:
        repeated = index > 0 and output.terminal
        row: list[Cell] = ["" if repeated else printable(name), str(index), *_numbers(blob)]
        if any_non_finite:
            count = f"{blob['stats']['non_finite']:,}"
            row.append((count, "bold red") if blob["stats"]["non_finite"] else count)
        rows.append(row)
    numbers = " ".join(("blob", *_STATS, *["non-finite"] * any_non_finite))
    output.heading("Statistics")
    output.table(f"layer {numbers}", rows, right=numbers, folds="layer")


def _show_troubles(
    output: Output, troubles: list[dict[str, Any]], unchecked: list[str], *, filters: bool
) -> None:
    output.heading("Checks")
    if troubles:
        rows: list[list[Cell]] = [
            [
                printable(trouble["layer"]),
                str(trouble["blob"]),
                (trouble["kind"], "bold red"),
                f"{trouble['affected']:,}",
                f"{trouble['total']:,}",
                trouble["where"],
            ]
            for trouble in troubles
        ]
        output.table(
            "layer blob trouble count of which", rows, right="blob count of", folds="layer which"
        )
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


def _facts_of_lone_blob(blob: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("shape", _shape(blob)),
        ("dtype", blob["dtype"]),
        ("values", f"{blob['parameters']:,}, {human_bytes(blob['bytes'])}"),
    ]
    if "stats" in blob:
        facts += zip(_STATS, _numbers(blob), strict=True)
        facts.append(("non-finite", f"{blob['stats']['non_finite']:,}"))
    return facts


def _numbers(blob: dict[str, Any]) -> list[str]:
    values = (blob["stats"][name] for name in _STATS)
    return ["-" if value is None else f"{value:.3g}" for value in values]
