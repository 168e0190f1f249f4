"""What ``syncblob tour`` prints for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from syncblob.cli._console import Column, human_bytes, printable
from syncblob.cli._steps import Place
from syncblob.memory import Head

if TYPE_CHECKING:
    from syncblob.cli._console import Cell, Output
    from syncblob.cli._report import Report
    from syncblob.cli._walk import Outcome

__all__ = ["show_introduction", "show_result", "show_step"]

_MOST_ROWS = 12
# Widths of a step's two lines: their sum is that of the table at the end.
_WIDTH = 79
_INDENT = 4
_HEAD_AFTER = "head after"
_MEMORY = 30

# One colour for each side, a third one for both, and one for what costs.
_HOST, _ACCELERATOR, _BOTH, _COST, _QUIET = "green", "magenta", "cyan", "yellow", "dim"
_PLACES = {
    Place.HOST: _HOST,
    Place.ACCELERATOR: _ACCELERATOR,
    Place.OWN_COPY: _COST,
}
_HEADS = {
    Head.UNINITIALIZED: _QUIET,
    Head.HEAD_AT_CPU: _HOST,
    Head.HEAD_AT_GPU: _ACCELERATOR,
    Head.SYNCED: _BOTH,
    Head.SPLIT: _BOTH,
}


def show_introduction(output: Output, report: Report) -> None:
    """Show what there is: the model, the accelerator, the libraries and the layers."""
    stage, model = report.stage, report.model
    size = human_bytes(Path(model.path).stat().st_size)
    name = printable(model.path) if report.own else "a LeNet made for this tour"
    device = str(stage.accelerator)
    if stage.no_cuda is not None:
        device = f"{device}, made of ordinary memory: {printable(stage.no_cuda)}"
    facts = [
        ("model", f"{name}, {size}"),
        ("accelerator", device),
        ("libraries", ", ".join(f"{name} {version}" for name, version in stage.versions)),
    ]
    facts += [("skipped", printable(f"{name}: {why}")) for name, why in stage.skipped]
    output.facts(facts)

    output.heading("Layers with weights")
    rows: list[list[Cell]] = []
    for layer in model.layers:
        for index, blob in enumerate(layer.blobs):
            repeated = index > 0 and output.terminal
            rows.append(
                [
                    "" if repeated else printable(layer.name),
                    "" if repeated else printable(layer.type),
                    str(blob.shape),
                    blob.dtype.name,
                    (blob.head.name, _HEADS[blob.head]),
                ]
            )
    columns = (
        Column("layer", folds=True),
        Column("type", folds=True, spare=2),
        Column("blob"),
        Column("dtype", spare=1),
        Column("head"),
    )
    output.table(columns, rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        more = len(rows) - _MOST_ROWS
        output.line((f"... and {more} more; syncblob inspect lists them", _QUIET))

    heads = [blob.head for layer in model.layers for blob in layer.blobs]
    read = sum(head is not Head.UNINITIALIZED for head in heads)
    output.line()
    output.line(
        f"The head is where the newest contents are. {read} of {len(heads)} Blobs have been read."
    )
    output.line(f"Operations run on {stage.accelerator}, wherever the newest contents are.")
    blob = report.star.blob
    output.line()
    output.line(
        ("blob = ", "bold"),
        (printable(report.star.expression), "bold"),
        f"  # {human_bytes(blob.nbytes)}",
    )


def show_step(output: Output, report: Report, outcome: Outcome) -> None:
    """Show one step as soon as it has been taken."""
    step = outcome.step
    previous = report.outcomes[-1].step.chapter if report.outcomes else None
    if step.chapter != previous:
        output.line()
        output.line((step.chapter.ljust(_WIDTH - len(_HEAD_AFTER)), "bold"), (_HEAD_AFTER, _QUIET))
    head = outcome.after.data
    code = step.code.ljust(_WIDTH - _INDENT - len(head.name))
    number = f"{outcome.number:2}".ljust(_INDENT)
    output.line((number, _QUIET), (code, "bold"), (head.name, _HEADS[head]))
    if outcome.refused is not None:
        output.line(" " * _INDENT, (f"refused: {outcome.refused}", _QUIET))
    elif outcome.why:
        memory, style = _memory(outcome)
        output.line(
            " " * _INDENT,
            (memory.ljust(_MEMORY), style),
            _moved(outcome, "nothing moved"),
            f": {outcome.why}",
        )
    for problem in outcome.problems:
        output.line(" " * _INDENT, (f"WRONG: {printable(problem)}", "bold red"))


def show_result(output: Output, report: Report) -> None:
    """Show the table, the totals and the verdict."""
    output.heading("What was shared, what moved and why")
    columns = (
        Column("", right=True),
        Column("step"),
        Column("shared", spare=2),
        Column("moved", spare=1),
        Column("why", spare=3),
    )
    rows: list[list[Cell]] = []
    for outcome in report.outcomes:
        places = {taken.place for taken in outcome.taken}
        shared: Cell = ("-", _QUIET)
        if len(places) == 1:
            place = places.pop()
            text = f"no, {place.value}" if place is Place.OWN_COPY else place.value
            shared = (text, _PLACES[place])
        rows.append(
            [
                (str(outcome.number), _QUIET),
                outcome.step.title,
                shared,
                _moved(outcome, "-"),
                "refused" if outcome.refused else outcome.why,
            ]
        )
    output.table(columns, rows)

    output.line()
    moved, copied, copying = map(
        human_bytes, (report.moved_nbytes, report.copied_nbytes, report.copying_nbytes)
    )
    output.facts(
        (
            ("moved", f"{moved} in {len(report.transfers)} transfers"),
            ("copied", f"{copied}, where that was asked for"),
            (
                "instead of",
                f"{copying}, had each of the {report.hand_overs} hand-overs been a copy",
            ),
        )
    )
    output.line()
    if report.problems:
        for problem in report.problems:
            output.line((f"WRONG: {printable(problem)}", "bold red"))
        return
    output.line(("All checks passed", "bold green"), ": addresses, transfers, heads, contents.")
    output.line("What gpu_data() and its kind return is good until the other side is used.")
    output.line("A writable alias is good while it lives; the other side then copies each time.")


def _memory(outcome: Outcome) -> tuple[str, str]:
    """Say where the arrays of a step lie, with the address for the reader to compare."""
    if outcome.before.aliased and not outcome.taken:
        for place in outcome.after.aliased:
            return f"alias on the {place.value}", _PLACES[place]
        return "no alias", _QUIET
    if not outcome.taken:
        return f"gradient {outcome.after.diff.name}", _HEADS[outcome.after.diff]
    found = dict.fromkeys((taken.place, taken.address) for taken in outcome.taken)
    where = ", ".join(f"{place.value} {address:#x}" for place, address in found)
    return where, _PLACES[outcome.taken[0].place]


def _moved(outcome: Outcome, nothing: str) -> tuple[str, str]:
    if not outcome.transfers:
        return nothing, _QUIET
    directions = dict.fromkeys(transfer.direction for transfer in outcome.transfers)
    nbytes = sum(transfer.nbytes for transfer in outcome.transfers)
    return f"{', '.join(directions)} {human_bytes(nbytes)}", _COST
