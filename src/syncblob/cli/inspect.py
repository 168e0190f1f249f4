"""``syncblob inspect FILE``: what is in a model or a mean file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import syncblob
from syncblob.cli._console import Column, Output, human_bytes, print_json, printable
from syncblob.cli._stats import stats_of
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    import argparse

    from syncblob.blob import Blob
    from syncblob.caffe import ModelFile
    from syncblob.cli._stats import Stats

__all__ = ["DESCRIPTION", "EPILOG", "NAME", "SUMMARY", "add_arguments", "run"]

NAME = "inspect"
SUMMARY = "list the layers and blobs of a model file"
DESCRIPTION = """\
List the layers of a .caffemodel file, or the one blob of a .binaryproto file:
types, shapes, dtypes and sizes. The weights themselves are not read, unless
--stats asks for them.
"""
EPILOG = """\
A file with another extension is taken for what it turns out to be.

--json prints one object:
  file, format       the path; "caffemodel" or "binaryproto"
  file_bytes         size of the file
  version, net       1 or 2, the format of the layers; the name of the net
                     (null for a .binaryproto)
  layers             in file order, each with name, type, bottoms, tops, blobs
                     (none in a .binaryproto)
  blob               the blob of a .binaryproto, else null
  totals             layers, blobs, parameters, bytes (of the weights)
A blob is {shape, dtype, parameters, bytes}. With --stats it also has
  stats              min, mean, max, std of its finite values (null where there
                     are none) and non_finite, the number of NaN and infinities
"""


_STATS = ("min", "mean", "max", "std")


class _Contents(NamedTuple):
    """A file: either a model, or a blob on its own."""

    path: str
    model: ModelFile | None
    lone: Blob | None

    @property
    def blobs(self) -> list[Blob]:
        if self.model is None:
            return [] if self.lone is None else [self.lone]
        return [blob for layer in self.model.layers for blob in layer.blobs]

    @property
    def totals(self) -> dict[str, int]:
        return {
            "layers": 0 if self.model is None else len(self.model.layers),
            "blobs": len(self.blobs),
            "parameters": sum(blob.size for blob in self.blobs),
            "bytes": sum(blob.nbytes for blob in self.blobs),
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("file", metavar="FILE", help="a .caffemodel or .binaryproto file")
    parser.add_argument(
        "--stats",
        action="store_true",
        help="read the weights, and show minimum, mean, maximum and standard deviation",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with exact sizes")


def run(arguments: argparse.Namespace) -> int:
    """Run the command and return the exit status.

    Raises
    ------
    ModelFileError, OSError
        If the file cannot be read.
    """
    if arguments.json:
        print_json(_as_json(_open(arguments.file), stats=arguments.stats))
        return 0
    output = Output()
    contents = _open(arguments.file)
    facts = _facts_of_file(contents)
    if contents.lone is not None:
        facts += _facts_of_lone_blob(contents.lone, stats=arguments.stats)
    output.facts(facts)
    if contents.model is not None:
        if contents.model.layers:
            _show_layers(output, contents.model)
        if arguments.stats and contents.blobs:
            _show_stats(output, contents.model)
        _show_totals(output, contents.totals)
    return 0


def _open(path: str) -> _Contents:
    suffix = Path(path).suffix.lower()
    if suffix == ".caffemodel":
        return _Contents(path, syncblob.open_model(path), None)
    if suffix == ".binaryproto":
        return _Contents(path, None, syncblob.read_blob(path))
    return _recognise(path)


def _recognise(path: str) -> _Contents:
    """Open a file whose name does not say what it is."""
    model, failure = None, None
    try:
        model = syncblob.open_model(path)
    except ModelFileError as error:
        failure = error
    if model is not None and model.layers:
        return _Contents(path, model, None)
    # Nearly any bytes are a net without layers, so the blob gets its chance.
    try:
        return _Contents(path, None, syncblob.read_blob(path))
    except ModelFileError as error:
        if failure is None:
            return _Contents(path, model, None)
        if failure.message == error.message:
            raise
        raise ModelFileError(
            f"neither a model ({failure.message}) nor a blob ({error.message})", path=path
        ) from None


# --- JSON ------------------------------------------------------------------------------------


def _as_json(contents: _Contents, *, stats: bool) -> dict[str, Any]:
    model, lone = contents.model, contents.lone
    return {
        "file": contents.path,
        "format": "binaryproto" if model is None else "caffemodel",
        "file_bytes": Path(contents.path).stat().st_size,
        "version": None if model is None else model.version,
        "net": None if model is None else model.name,
        "layers": []
        if model is None
        else [
            {
                "name": layer.name,
                "type": layer.type,
                "bottoms": list(layer.bottoms),
                "tops": list(layer.tops),
                "blobs": [_blob_as_json(blob, stats=stats) for blob in layer.blobs],
            }
            for layer in model.layers
        ],
        "blob": None if lone is None else _blob_as_json(lone, stats=stats),
        "totals": contents.totals,
    }


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


# --- for people ------------------------------------------------------------------------------


def _facts_of_file(contents: _Contents) -> list[tuple[str, str]]:
    model = contents.model
    kind = "binaryproto, one blob" if model is None else f"caffemodel, V{model.version} layers"
    facts = [
        ("file", printable(contents.path)),
        ("format", kind),
        ("size", human_bytes(Path(contents.path).stat().st_size)),
    ]
    if model is not None and model.name:
        facts.append(("net", printable(model.name)))
    return facts


def _show_layers(output: Output, model: ModelFile) -> None:
    output.heading("Layers")
    rows: list[list[str | tuple[str, str]]] = []
    for layer in model.layers:
        name: str | tuple[str, str] = printable(layer.name)
        kind: str | tuple[str, str] = printable(layer.type)
        if not layer.blobs:
            rows.append([name, kind, ("-", "dim"), ("-", "dim"), ("-", "dim")])
        for blob in layer.blobs:
            rows.append([name, kind, str(blob.shape), blob.dtype.name, human_bytes(blob.nbytes)])
            if output.terminal:
                # Once is enough for the eye; grep wants it on each row.
                name = kind = ""
    columns = (
        Column("layer", folds=True),
        Column("type", folds=True),
        Column("blob"),
        Column("dtype"),
        Column("size", right=True),
    )
    output.table(columns, rows)


def _show_stats(output: Output, model: ModelFile) -> None:
    found = [
        (layer.name, index, stats_of(blob))
        for layer in model.layers
        for index, blob in enumerate(layer.blobs)
    ]
    # A column of zeros would take its place from the names.
    any_non_finite = any(stats.non_finite for _, _, stats in found)
    rows: list[list[str | tuple[str, str]]] = []
    shown = None
    for name, index, stats in found:
        repeated = index > 0 and name == shown and output.terminal
        shown = name
        row: list[str | tuple[str, str]] = ["" if repeated else printable(name), str(index)]
        row += _numbers(stats)
        if any_non_finite:
            row.append(_alarm(stats))
        rows.append(row)
    columns = [Column("layer", folds=True), Column("blob", right=True)]
    columns += [Column(heading, right=True) for heading in _STATS]
    if any_non_finite:
        columns.append(Column("non-finite", right=True))
    output.heading("Statistics")
    output.table(columns, rows)


def _facts_of_lone_blob(blob: Blob, *, stats: bool) -> list[tuple[str, str]]:
    facts = [
        ("shape", str(blob.shape)),
        ("dtype", blob.dtype.name),
        ("values", f"{blob.size:,}, {human_bytes(blob.nbytes)}"),
    ]
    if stats:
        found = stats_of(blob)
        facts += zip(_STATS, _numbers(found), strict=True)
        facts.append(("non-finite", f"{found.non_finite:,}"))
    return facts


def _show_totals(output: Output, totals: dict[str, int]) -> None:
    output.line()
    layers, blobs, parameters = (
        f"{totals[name]:,} {name if totals[name] != 1 else name[:-1]}"
        for name in ("layers", "blobs", "parameters")
    )
    output.line(f"{layers}, {blobs}, {parameters}, {human_bytes(totals['bytes'])} of weights")


def _numbers(stats: Stats) -> list[str]:
    return ["-" if value is None else f"{value:.3g}" for value in stats[: len(_STATS)]]


def _alarm(stats: Stats) -> str | tuple[str, str]:
    return (f"{stats.non_finite:,}", "bold red") if stats.non_finite else "0"
