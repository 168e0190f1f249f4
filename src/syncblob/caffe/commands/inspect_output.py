"""The output of ``syncblob inspect`` for people."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from syncblob.caffe.commands.console import counted, listed, printable
from syncblob.caffe.commands.stats import stats_of
from syncblob.caffe.convert import Weights
from syncblob.formats import human_bytes

if TYPE_CHECKING:
    from syncblob.caffe import Layer
    from syncblob.caffe.commands.checks import Checked
    from syncblob.caffe.commands.console import Cell, Output
    from syncblob.caffe.commands.contents import Contents, LayerLike
    from syncblob.caffe.commands.stats import Stats
    from syncblob.formats import Blob

_STATS = ("min", "mean", "max", "std")
_NONE: Cell = ("-", "dim")
# The initialization before training matters least.
_FILLERS = "FillerParameter"
# At most this many layers are listed.
_NAMED = 8


def show(
    output: Output, contents: Contents, checked: Checked | None, *, stats: bool, settings: bool
) -> None:
    """Show the contents of a file, and the problems found."""
    facts = _facts_of_file(contents)
    if contents.lone is not None:
        facts += _facts_of_lone_blob(contents.lone, stats=stats)
    output.facts(facts)
    if contents.layers:
        _show_layers(output, contents)
        if settings:
            _show_settings(output, contents)
    _show_ignored(output, contents)
    if contents.unreadable:
        count = counted(len(contents.unreadable), "tensor")
        first = printable(next(iter(contents.unreadable.values())))
        output.line((f"Not shown: the layers of {count} that cannot be read: {first}.", "dim"))
    if stats and contents.lone is None and contents.blobs:
        _show_stats(output, contents)
    if checked is not None:
        _show_troubles(output, checked)
    is_whole = not contents.no_shapes and not contents.missing
    if contents.lone is None and is_whole and (contents.layers or contents.is_net):
        totals = contents.totals
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


def _show_layers(output: Output, contents: Contents) -> None:
    output.heading("Layers")
    typed = [bool(layer.type) for layer in contents.layers]
    rows: list[list[Cell]] = []
    for layer in contents.layers:
        name: Cell = printable(layer.name)
        kind: Cell = printable(layer.type) if layer.type else _NONE
        tops = _shapes_of_tops(layer, contents)
        if not layer.blobs:
            rows.append([name, kind, tops, _NONE, _NONE, _NONE])
        for blob in layer.blobs:
            size = human_bytes(blob.nbytes)
            rows.append([name, kind, tops, str(blob.shape), blob.dtype.name, size])
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


def _shapes_of_tops(layer: LayerLike, contents: Contents) -> Cell:
    if contents.shapes is None or not layer.tops:
        return _NONE
    return ", ".join(str(contents.shapes.get(name, "?")) for name in layer.tops)


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


def _show_stats(output: Output, contents: Contents) -> None:
    found = [
        (layer.name, index, stats_of(blob))
        for layer in contents.layers
        for index, blob in enumerate(layer.blobs)
    ]
    # Omit a column of zeros.
    any_non_finite = any(stats.non_finite for _, _, stats in found)
    rows: list[list[Cell]] = []
    shown = None
    for name, index, stats in found:
        repeated = index > 0 and name == shown and output.terminal
        shown = name
        row: list[Cell] = ["" if repeated else printable(name), str(index)]
        row += _numbers(stats)
        if any_non_finite:
            count = f"{stats.non_finite:,}"
            row.append((count, "bold red") if stats.non_finite else count)
        rows.append(row)
    numbers = " ".join(("blob", *_STATS, *["non-finite"] * any_non_finite))
    output.heading("Statistics")
    output.table(f"layer {numbers}", rows, right=numbers, folds="layer")


def _show_troubles(output: Output, checked: Checked) -> None:
    output.heading("Checks")
    if checked.troubles:
        rows: list[list[Cell]] = [
            [
                printable(trouble.layer),
                str(trouble.blob),
                (trouble.kind, "bold red"),
                f"{trouble.affected:,}",
                f"{trouble.total:,}",
                trouble.where,
            ]
            for trouble in checked.troubles
        ]
        output.table(
            "layer blob trouble count of which", rows, right="blob count of", folds="layer which"
        )
    else:
        # Mention filters only if those of all layers have been checked.
        filters = ", and no filter is dead" if checked.filters and not checked.unchecked else ""
        output.line(("No trouble found", "green"), f": all values are finite{filters}.")
    if checked.unchecked:
        names = ", ".join(map(printable, checked.unchecked[:_NAMED]))
        more = ", ..." if len(checked.unchecked) > _NAMED else ""
        output.line(
            ("Not checked", "yellow"),
            f": {counted(len(checked.unchecked), 'layer')} of unknown type or layout "
            f"({names}{more}): for negative variances, for scale factors of 0, and for dead "
            f"filters along other axes than the first.",
        )


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


def _numbers(stats: Stats) -> list[str]:
    return ["-" if value is None else f"{value:.3g}" for value in stats[: len(_STATS)]]
