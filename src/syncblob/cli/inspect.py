"""``syncblob inspect FILE``: what is in a file of weights, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob.cli._checks import check_layers
from syncblob.cli._console import Column, Output, human_bytes, print_json, printable
from syncblob.cli._contents import open_contents
from syncblob.cli._histogram import bars, histogram_of
from syncblob.cli._plots import pictures, save
from syncblob.cli._stats import stats_of

if TYPE_CHECKING:
    import argparse

    from syncblob.blob import Blob
    from syncblob.cli._checks import Trouble
    from syncblob.cli._contents import Contents
    from syncblob.cli._stats import Stats

__all__ = ["DESCRIPTION", "EPILOG", "NAME", "SUMMARY", "add_arguments", "run"]

NAME = "inspect"
SUMMARY = "list the layers and blobs of a file, and check its weights"
DESCRIPTION = """\
List the layers of a file: types, shapes, dtypes and sizes. The weights
themselves are not read, unless an option asks for more. Exit status 1 means
that the file cannot be read, or that --check found trouble.

Files may be .caffemodel, .caffemodel.h5, .binaryproto, .solverstate,
.safetensors, .npz, .h5, .pt and .pth.
"""
EPILOG = """\
A file with another extension is taken for what it turns out to be.

--check looks for NaN and infinities; for dead filters, whose weights are all
smaller than a millionth of the largest of the blob; and for negative variances
in BatchNorm layers.

--json prints one object:
  file, format       the path; "caffemodel", "binaryproto", "solverstate", ...
  file_bytes         size of the file
  version, net       0, 1 or 2, the format of the layers; the name of the net
                     (null where the file has none)
  layers             in file order, each with name, type, bottoms, tops, blobs;
                     a solver state has its history as one layer
  blob               the blob of a .binaryproto, else null
  solver             iter, current_step, learned_net of a .solverstate, else
                     null
  totals             layers, blobs, parameters, bytes (of the weights)
A blob is {shape, dtype, parameters, bytes}. With --stats it also has
  stats              min, mean, max, std of its finite values (null where there
                     are none) and non_finite, the number of NaN and infinities
with --hist
  histogram          start, stop and counts of its finite values (or null)
and with --check the object has
  troubles           each with layer, blob (its number), kind, affected, total,
                     where; empty if there are none
"""


_STATS = ("min", "mean", "max", "std")


class _Wishes(NamedTuple):
    """What the options ask for."""

    stats: bool
    hist: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("file", metavar="FILE", help="a file of weights")
    parser.add_argument(
        "--stats",
        action="store_true",
        help="read the weights, and show minimum, mean, maximum and standard deviation",
    )
    parser.add_argument(
        "--hist", action="store_true", help="show how the values of each blob are distributed"
    )
    parser.add_argument(
        "--check", action="store_true", help="look for trouble; exit with 1 if there is some"
    )
    parser.add_argument(
        "--plot",
        metavar="DIR",
        help="write pictures of filters and histograms to a directory, as PNG files",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with exact sizes")


def run(arguments: argparse.Namespace) -> int:
    """Run the command and return the exit status.

    Raises
    ------
    ModelFileError, OSError, ModuleNotFoundError
        If the file cannot be read.
    """
    output = None if arguments.json else Output()
    contents = open_contents(arguments.file)
    wishes = _Wishes(arguments.stats, arguments.hist)
    troubles = list(check_layers(contents.places)) if arguments.check else None
    plotted = 0 if arguments.plot is None else _plot(contents, Path(arguments.plot))
    if output is None:
        print_json(_as_json(contents, wishes, troubles))
    else:
        _show(output, contents, wishes, troubles)
        if arguments.plot is not None:
            output.line()
            output.line(f"{_counted(plotted, 'picture')} written to {printable(arguments.plot)}")
    return 1 if troubles else 0


def _plot(contents: Contents, directory: Path) -> int:
    """Write the pictures and return how many."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = list(pictures(contents.places))
    for picture in wanted:
        save(picture, directory)
    return len(wanted)


# --- JSON ------------------------------------------------------------------------------------


def _as_json(contents: Contents, wishes: _Wishes, troubles: list[Trouble] | None) -> dict[str, Any]:
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
        "totals": contents.totals,
    }
    if troubles is not None:
        found["troubles"] = [trouble._asdict() for trouble in troubles]
    return found


def _blob_as_json(blob: Blob, wishes: _Wishes) -> dict[str, Any]:
    described: dict[str, Any] = {
        "shape": list(blob.shape),
        "dtype": blob.dtype.name,
        "parameters": blob.size,
        "bytes": blob.nbytes,
    }
    if wishes.stats:
        described["stats"] = stats_of(blob)._asdict()
    if wishes.hist:
        histogram = histogram_of(blob)
        described["histogram"] = None if histogram is None else histogram._asdict()
    return described


# --- for people ------------------------------------------------------------------------------


def _show(
    output: Output, contents: Contents, wishes: _Wishes, troubles: list[Trouble] | None
) -> None:
    facts = _facts_of_file(contents)
    if contents.lone is not None:
        facts += _facts_of_lone_blob(contents.lone, wishes, plain=output.plain)
    output.facts(facts)
    if contents.layers:
        _show_layers(output, contents)
    if contents.lone is None and contents.blobs:
        if wishes.stats:
            _show_stats(output, contents)
        if wishes.hist:
            _show_histograms(output, contents)
    if troubles is not None:
        _show_troubles(output, troubles)
    if contents.lone is None:
        _show_totals(output, contents.totals)


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


def _show_layers(output: Output, contents: Contents) -> None:
    output.heading("Layers")
    rows: list[list[str | tuple[str, str]]] = []
    for layer in contents.layers:
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


def _show_stats(output: Output, contents: Contents) -> None:
    found = [
        (layer.name, index, stats_of(blob))
        for layer in contents.layers
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


def _show_histograms(output: Output, contents: Contents) -> None:
    rows: list[list[str | tuple[str, str]]] = []
    for layer in contents.layers:
        for index, blob in enumerate(layer.blobs):
            repeated = index > 0 and output.terminal
            row: list[str | tuple[str, str]] = [
                "" if repeated else printable(layer.name),
                str(index),
            ]
            rows.append(row + _histogram(blob, plain=output.plain))
    columns = (
        Column("layer", folds=True),
        Column("blob", right=True),
        Column("from", right=True),
        Column("values"),
        Column("to", right=True),
    )
    output.heading("Histograms")
    output.table(columns, rows)


def _histogram(blob: Blob, *, plain: bool) -> list[str | tuple[str, str]]:
    """Say where the values begin, how they are distributed and where they end."""
    histogram = histogram_of(blob)
    if histogram is None:
        return ["-", ("-", "dim"), "-"]
    drawn = (bars(histogram, plain=plain), "cyan")
    return [f"{histogram.start:.3g}", drawn, f"{histogram.stop:.3g}"]


def _show_troubles(output: Output, troubles: list[Trouble]) -> None:
    output.heading("Checks")
    if not troubles:
        output.line(
            ("No trouble found", "green"), ": all values are finite, and no filter is dead."
        )
        return
    columns = (
        Column("layer", folds=True),
        Column("blob", right=True),
        Column("trouble"),
        Column("count", right=True),
        Column("of", right=True),
        Column("which", folds=True),
    )
    rows: list[list[str | tuple[str, str]]] = [
        [
            printable(trouble.layer),
            str(trouble.blob),
            (trouble.kind, "bold red"),
            f"{trouble.affected:,}",
            f"{trouble.total:,}",
            trouble.where,
        ]
        for trouble in troubles
    ]
    output.table(columns, rows)


def _facts_of_lone_blob(blob: Blob, wishes: _Wishes, *, plain: bool) -> list[tuple[str, str]]:
    facts = [
        ("shape", str(blob.shape)),
        ("dtype", blob.dtype.name),
        ("values", f"{blob.size:,}, {human_bytes(blob.nbytes)}"),
    ]
    if wishes.stats:
        found = stats_of(blob)
        facts += zip(_STATS, _numbers(found), strict=True)
        facts.append(("non-finite", f"{found.non_finite:,}"))
    if wishes.hist and (histogram := histogram_of(blob)) is not None:
        drawn = bars(histogram, plain=plain)
        facts.append(("histogram", f"{histogram.start:.3g} [{drawn}] {histogram.stop:.3g}"))
    return facts


def _show_totals(output: Output, totals: dict[str, int]) -> None:
    output.line()
    counted = ", ".join(
        _counted(totals[f"{name}s"], name) for name in ("layer", "blob", "parameter")
    )
    output.line(f"{counted}, {human_bytes(totals['bytes'])} of weights")


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name if count == 1 else f'{name}s'}"


def _numbers(stats: Stats) -> list[str]:
    return ["-" if value is None else f"{value:.3g}" for value in stats[: len(_STATS)]]


def _alarm(stats: Stats) -> str | tuple[str, str]:
    return (f"{stats.non_finite:,}", "bold red") if stats.non_finite else "0"
