"""The output of ``syncblob inspect``: a dictionary for JSON, and its text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from syncblob.caffe.commands.console import print_facts, print_line, print_table, printable
from syncblob.caffe.commands.contents import Contents
from syncblob.caffe.commands.stats import stats_of
from syncblob.formats import Blob, counted, human_bytes

_STATS = ("min", "mean", "max", "std")


def as_json(contents: Contents, *, stats: bool) -> dict[str, Any]:
    """Return the contents of a file for JSON."""
    facts = contents._asdict()
    weights = facts.pop("weights")
    layers: list[dict[str, Any]] = [
        {
            "name": layer.name,
            "type": layer.type,
            "bottoms": layer.bottoms,
            "tops": layer.tops,
            "blobs": [_blob_as_json(blob, stats=stats) for blob in layer.blobs],
        }
        for layer in contents.layers
    ]
    blobs = [blob for layer in layers for blob in layer["blobs"]]
    if contents.is_lone:
        layers = []
    return {
        "format": weights.kind,
        "net": weights.name if contents.is_net else None,
        **facts,
        "layers": layers,
        "blob": blobs[0] if contents.is_lone else None,
        "totals": {
            "layers": len(layers),
            "blobs": len(blobs),
            "parameters": sum(blob["parameters"] for blob in blobs),
            "bytes": sum(blob["bytes"] for blob in blobs),
        },
        "unreadable": weights.unreadable,
        "others": weights.others,
    }


def _blob_as_json(blob: Blob, *, stats: bool) -> dict[str, Any]:
    return {
        "shape": blob.shape,
        "dtype": blob.dtype.name,
        "parameters": blob.size,
        "bytes": blob.nbytes,
        **({"stats": stats_of(blob)} if stats else {}),
    }


# --- for people --------------------------------------------------------------------------------


def show(contents: Contents, found: Mapping[str, Any]) -> None:
    """Show the contents of a file from the dictionary for JSON."""
    layers = found["layers"]
    print_facts(_facts(contents, found))
    if layers:
        _show_layers(layers, found["shapes"])
    for note in _notes(contents, found):
        print_line(printable(note))
    blobs = [(layer["name"], *each) for layer in layers for each in enumerate(layer["blobs"])]
    if blobs and "stats" in blobs[0][2]:
        rows = [
            {"layer": printable(name), "blob": str(index), **_numbers(blob["stats"])}
            for name, index, blob in blobs
        ]
        print_table(rows, title="Statistics", right=[*rows[0]][1:])
    if contents.is_net and not found["refused"] and not found["missing"]:
        totals = found["totals"]
        counts = [counted(totals[f"{noun}s"], noun) for noun in ("layer", "blob", "parameter")]
        print_line(f"\n{', '.join(counts)}, {human_bytes(totals['bytes'])} of weights")


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
            ("shape", str(blob["shape"])),
            ("dtype", blob["dtype"]),
            ("values", f"{blob['parameters']:,}, {human_bytes(blob['bytes'])}"),
            *(_numbers(blob["stats"]).items() if "stats" in blob else ()),
        ]
    return facts


def _show_layers(
    layers: list[dict[str, Any]], shapes: Mapping[str, tuple[int, ...]] | None
) -> None:
    rows: list[dict[str, str]] = []
    for layer in layers:
        row = {"layer": printable(layer["name"]), "type": printable(layer["type"]) or "-"}
        if not any(each["type"] for each in layers):
            del row["type"]
        if shapes is not None:
            row["tops"] = ", ".join(str(shapes.get(top, "?")) for top in layer["tops"]) or "-"
        rows += [
            {
                **row,
                "blob": str(blob["shape"]),
                "dtype": blob["dtype"],
                "size": human_bytes(blob["bytes"]),
            }
            for blob in layer["blobs"]
        ] or [{**row, "blob": "-", "dtype": "-", "size": "-"}]
    print_table(rows, title="Layers", right=["size"])


def _notes(contents: Contents, found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is not known of the layers, what the file has besides, and what was left out."""
    if found["refused"]:
        yield f"No shapes: {found['refused']}. --phase and --shape say what is missing."
    for name, why in found["missing"].items():
        yield f"Not known: {why.partition(': shapes=')[0]}: --shape {name}=..."
    if found["others"]:
        yield f"Not shown: {', '.join(found['others'])}."
    typed = [bool(layer["type"]) for layer in found["layers"]]
    if contents.is_net and not all(typed):
        which = "some layers" if any(typed) else "the layers"
        yield f"The file does not say of which types {which} are."
    if found["ignored"]:
        yield (
            f"Left out is what Caffe does not have, first in {found['ignored']}. --forks knows the "
            f"settings of well-known forks."
        )
    if found["unreadable"]:
        count, first = len(found["unreadable"]), next(iter(found["unreadable"].values()))
        yield f"Not shown: the layers of {counted(count, 'tensor')} that cannot be read: {first}."


def _numbers(stats: Mapping[str, float | None]) -> dict[str, str]:
    words = {name: "-" if stats[name] is None else f"{stats[name]:.3g}" for name in _STATS}
    return words | {"non-finite": f"{stats['non_finite']:,}"}
