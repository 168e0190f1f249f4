"""The output of ``syncblob inspect --json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob.caffe.commands.layer_settings import settings_as_json
from syncblob.caffe.commands.stats import stats_of

if TYPE_CHECKING:
    from syncblob.caffe.commands.checks import Checked
    from syncblob.caffe.commands.contents import Contents
    from syncblob.formats import Blob


class Wishes(NamedTuple):
    """What to show in addition to the list of layers."""

    stats: bool
    settings: bool


def as_json(contents: Contents, wishes: Wishes, checked: Checked | None) -> dict[str, Any]:
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
                "blobs": [_blob_as_json(blob, wishes) for blob in layer.blobs],
            }
            for layer in contents.layers
        ],
        "blob": None if lone is None else _blob_as_json(lone, wishes),
        "solver": contents.solver,
        "shapes": contents.shapes,
        "missing": dict(contents.missing),
        "ignored": [
            dict(zip(("name", "count", "rule"), each, strict=True)) for each in contents.ignored
        ],
        "totals": contents.totals,
        "unreadable": dict(contents.unreadable),
    }
    if wishes.settings:
        layers = contents.as_model().layers
        for described, layer in zip(found["layers"], layers, strict=True):
            described["settings"] = settings_as_json(layer)
    if checked is not None:
        found["troubles"] = [trouble._asdict() for trouble in checked.troubles]
        found["unchecked"] = checked.unchecked
    return found


def _blob_as_json(blob: Blob, wishes: Wishes) -> dict[str, Any]:
    described: dict[str, Any] = {
        "shape": list(blob.shape),
        "dtype": blob.dtype.name,
        "parameters": blob.size,
        "bytes": blob.nbytes,
    }
    if wishes.stats:
        described["stats"] = stats_of(blob)._asdict()
    return described
