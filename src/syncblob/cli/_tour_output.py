"""The output of ``syncblob tour``, for people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob._formatting import human_bytes
from syncblob.cli._console import printable
from syncblob.cli._tour_walk import Place
from syncblob.memory import Head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.blob import Blob
    from syncblob.cli._console import Output
    from syncblob.cli._tour_walk import Step

__all__ = ["as_json", "show_result", "show_step", "totals_of"]

_WIDTH, _INDENT, _MEMORY = 79, 4, 30
_HEAD_AFTER = "head after"

# One colour for each side, one for both, and one for transfers and copies.
_HOST, _ACCELERATOR, _BOTH, _COST, _QUIET = "green", "magenta", "cyan", "yellow", "dim"
_PLACES = {Place.HOST: _HOST, Place.ACCELERATOR: _ACCELERATOR, Place.OWN_COPY: _COST}
_HEADS = {
    Head.UNINITIALIZED: _QUIET,
    Head.HEAD_AT_CPU: _HOST,
    Head.HEAD_AT_GPU: _ACCELERATOR,
    Head.SYNCED: _BOTH,
    Head.SPLIT: _BOTH,
}


def show_step(output: Output, step: Step, *, begins_chapter: bool) -> None:
    """Show one step."""
    if begins_chapter:
        output.line()
        output.line((step.chapter.ljust(_WIDTH - len(_HEAD_AFTER)), "bold"), (_HEAD_AFTER, _QUIET))
    head = step.after.data
    code = step.code.ljust(_WIDTH - _INDENT - len(head.name))
    number = f"{step.number:2}".ljust(_INDENT)
    output.line((number, _QUIET), (code, "bold"), (head.name, _HEADS[head]))
    if step.refused is not None:
        output.line(" " * _INDENT, (f"refused: {step.refused}", _QUIET))
    else:
        memory, style = _memory(step)
        moved, cost = "nothing moved", _QUIET
        if step.transfers:
            directions = dict.fromkeys(transfer.direction for transfer in step.transfers)
            nbytes = sum(transfer.nbytes for transfer in step.transfers)
            moved, cost = f"{', '.join(directions)} {human_bytes(nbytes)}", _COST
        output.line(" " * _INDENT, (memory.ljust(_MEMORY), style), (moved, cost), f": {step.why}")
    for problem in step.problems:
        output.line(" " * _INDENT, (f"WRONG: {printable(problem)}", "bold red"))


def _memory(step: Step) -> tuple[str, str]:
    """Return where the array of a step is, with its address for comparison."""
    if step.taken:
        (taken,) = step.taken
        return f"{taken.memory} {taken.address:#x}", _PLACES[taken.memory]
    if step.before.aliased:
        for place in step.after.aliased:
            return f"alias on the {place}", _PLACES[place]
        return "no alias", _QUIET
    return f"gradient {step.after.diff.name}", _HEADS[step.after.diff]


def totals_of(steps: Sequence[Step], blob: Blob) -> dict[str, int]:
    """Sum the bytes moved and copied, and those that a copy at each hand-over would have moved."""
    moved = [transfer.nbytes for step in steps for transfer in step.transfers]
    hand_overs = sum(bool(step.taken) for step in steps)
    return {
        "transfers": len(moved),
        "moved_bytes": sum(moved),
        "copied_bytes": sum(
            one.bytes for step in steps for one in step.taken if one.memory is Place.OWN_COPY
        ),
        "hand_overs": hand_overs,
        "copying_each_time_bytes": hand_overs * blob.nbytes,
    }


def show_result(output: Output, totals: dict[str, int], problems: Sequence[str]) -> None:
    """Show the totals and the verdict."""
    output.line()
    moved, copied, copying = (
        human_bytes(totals[f"{name}_bytes"]) for name in ("moved", "copied", "copying_each_time")
    )
    hand_overs = totals["hand_overs"]
    output.facts(
        (
            ("moved", f"{moved} in {totals['transfers']} transfers"),
            ("copied", f"{copied}, where that was asked for"),
            ("instead of", f"{copying}, had each of the {hand_overs} hand-overs been a copy"),
        )
    )
    output.line()
    for problem in problems:
        output.line((f"WRONG: {printable(problem)}", "bold red"))
    if not problems:
        output.line(("All checks passed", "bold green"), ": addresses, transfers, heads, contents.")
        output.line("What gpu_data() and its kind return is good until the other side is used.")
        output.line(
            "A writable alias is good while it lives; the other side then copies each time."
        )


def as_json(step: Step) -> dict[str, Any]:
    """Return a step for JSON."""
    return {
        "step": step.number,
        "chapter": step.chapter,
        "title": step.title,
        "code": step.code,
        "arrays": [taken._asdict() for taken in step.taken],
        "moved": [
            {
                "direction": transfer.direction,
                "bytes": transfer.nbytes,
                "seconds": transfer.seconds,
                "access": transfer.reason,
            }
            for transfer in step.transfers
        ],
        "why": step.why,
        "head_before": step.before.data.name,
        "head": step.after.data.name,
        "diff_head": step.after.diff.name,
        "aliased": step.after.aliased,
        "refused": step.refused,
        "problems": step.problems,
    }
