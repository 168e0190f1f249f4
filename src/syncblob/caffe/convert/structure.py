"""The description of the layers: a text that formats of plain tensors store beside the tensors.

The text is JSON: the name of the net and, in base64, the rest of its NetParameter message; for each
layer its name, type, bottoms, tops, the names of its tensors, which of them have the dimensions of
older formats, and, in base64, the rest of its LayerParameter message.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from syncblob.caffe.convert.naming import group_names
from syncblob.caffe.convert.weights import LayerWeights, Weights, as_tensors
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from syncblob.caffe.convert.weights import Entry

# The key of the text in all formats.
STRUCTURE = "syncblob"

_VERSION = 1


class Described(NamedTuple):
    """A layer as described in the text, without values, and the names of its tensors."""

    layer: LayerWeights
    tensors: tuple[str, ...]

    def with_blobs(self, blobs: Iterable[Entry]) -> LayerWeights:
        """Return the layer with its values, or errors in place of some.

        Raises
        ------
        ValueError
            If the number of Blobs is not that of the names in the text.
        """
        return replace(self.layer, tensors=as_tensors(dict(zip(self.tensors, blobs, strict=True))))


def describe(weights: Weights) -> str:
    """Return the description of weights."""
    layers = [
        {
            "name": layer.name,
            "type": layer.type,
            "bottoms": layer.bottoms,
            "tops": layer.tops,
            "tensors": list(layer.tensors),
            "definition": b64encode(layer.definition).decode("ascii"),
            "legacy": sorted(layer.legacy),
        }
        for layer in weights.layers
    ]
    settings = b64encode(weights.settings).decode("ascii")
    described = {"version": _VERSION, "net": weights.name, "settings": settings, "layers": layers}
    return json.dumps(described)


def read_description(text: str, *, path: str) -> tuple[str, bytes, list[Described]]:
    """Parse the text of `describe`: return the name of the net, its settings and its layers.

    Raises
    ------
    ModelFileError
        If the text is anything else. `path` is the file that contains it.
    """
    try:
        described = json.loads(text)
        if described["version"] != _VERSION:
            raise ValueError(f"expected version {_VERSION}, got {described['version']!r}")  # noqa: TRY301  # caught below, as the others
        settings = b64decode(_text(described.get("settings", "")), validate=True)
        layers = [
            Described(
                LayerWeights(
                    _text(layer["name"]),
                    _text(layer["type"]),
                    tuple(map(_text, layer["bottoms"])),
                    tuple(map(_text, layer["tops"])),
                    {},
                    b64decode(_text(layer["definition"]), validate=True),
                    frozenset(map(_text, layer.get("legacy", ()))),
                ),
                tuple(map(_text, layer["tensors"])),
            )
            for layer in described["layers"]
        ]
        return _text(described["net"]), settings, layers
    # Deep nesting raises RecursionError; other JSON raises TypeError or KeyError.
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(f"{type(error).__name__}: {error}", path=path) from None


def assemble(
    path: str,
    kind: str,
    tensors: dict[str, Entry],
    text: str | None,
    *,
    close: Callable[[], object],
) -> Weights:
    """Group tensors into layers, by the text or else by the naming convention.

    Parameters
    ----------
    path, kind, close
        As for `Weights`.
    tensors
        The tensors of the file, or errors in place of those that a Blob cannot hold.
    text
        The result of `describe` when the file was written; None for files of other programs.

    Raises
    ------
    ModelFileError
        If the text is damaged, or describes other tensors. If a Blob can hold none of the tensors.
    """
    errors = [entry for entry in tensors.values() if isinstance(entry, ModelFileError)]
    if errors and len(errors) == len(tensors):
        raise errors[0]
    if text is None:
        grouped = tuple(
            LayerWeights(name, layer_type, (), (), as_tensors({key: tensors[key] for key in names}))
            for name, layer_type, names in group_names(tensors)
        )
        return Weights(path, kind, name="", layers=grouped, close=close)
    net, settings, described = read_description(text, path=path)
    mentioned = [name for layer in described for name in layer.tensors]
    if sorted(mentioned) != sorted(tensors):
        different = sorted(set(mentioned) ^ set(tensors)) or "one tensor twice"
        raise damaged(f"it is about other tensors: {different}", path=path)
    layers = tuple(
        layer.with_blobs([tensors[name] for name in layer.tensors]) for layer in described
    )
    return Weights(path, kind, name=net, layers=layers, settings=settings, close=close)


def damaged(reason: str, *, path: str) -> ModelFileError:
    """Return the error for a text that does not match its file."""
    return ModelFileError(
        f"its description of the layers ({STRUCTURE!r}) does not fit ({reason}); without it, "
        f"layers are made of the names of the tensors",
        path=path,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return value
