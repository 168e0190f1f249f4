"""The record of outcomes: read it, write it, and find what got worse."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["PATH", "RANKS", "Outcomes", "compare", "kind_of", "load", "save", "totals"]

PATH = Path(__file__).with_name("record.json")

# Kinds of outcomes, from worst to best. The record leaves the best out.
RANKS = ("not with ndarrays", "crash", "lost", "wrong value", "unclear error", "refused", "same")

# Outcomes by library, such as "images/pillow 13.0", call and device. The record has only those that
# are not as usual.
Outcomes = dict[str, dict[str, dict[str, str]]]


def kind_of(outcome: str) -> str:
    """Return the kind of an outcome: the part before its details."""
    return outcome.partition(": ")[0]


def _plain(library: str) -> str:
    return library.partition(" ")[0]


def totals(found: Outcomes, device: str) -> str:
    """Return the counts of the kinds of outcomes on a device, and the share of the best."""
    every = [kind_of(x[device]) for calls in found.values() for x in calls.values() if device in x]
    tried = [kind for kind in every if kind != "not tried"]
    counts = ", ".join(f"{tried.count(kind)} {kind}" for kind in RANKS[::-1] if kind in tried)
    share = tried.count("same") / (len(tried) or 1)
    return f"{device}: {len(tried)} calls of {len(found)} libraries, {share:.1%} the same: {counts}"


def compare(recorded: Outcomes, found: Outcomes) -> dict[str, bool]:
    """Return the differences in the calls that were tried, each with whether it got worse.

    A call got worse if its kind of outcome did. What is not recorded was as usual.
    """
    before = {_plain(library): calls for library, calls in recorded.items()}
    changes = {}
    for library, calls in found.items():
        for call, by_device in calls.items():
            for device, now in by_device.items():
                was = before.get(_plain(library), {}).get(call, {}).get(device, "same")
                if was != now and kind_of(now) != "not tried":
                    text = f"{library} {call}, {device}: {was} -> {now}"
                    changes[text] = _rank(now) < _rank(was)
    return changes


def _rank(outcome: str) -> int:
    return RANKS.index(kind_of(outcome))


def load(path: Path = PATH) -> Outcomes:
    """Read the record. It is empty if there is no file."""
    content = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return {
        library: {
            call: x if isinstance(x, dict) else dict.fromkeys(("cpu", "simulated"), x)
            for call, x in calls.items()
        }
        for library, calls in content.items()
    }


def save(recorded: Outcomes, found: Outcomes, path: Path = PATH) -> None:
    """Write the record with the libraries of a run, and a single outcome if devices agree."""
    newer = {_plain(library) for library in found}
    merged = {name: calls for name, calls in recorded.items() if _plain(name) not in newer} | found
    content: dict[str, dict[str, str | dict[str, str]]] = {}
    for library, calls in merged.items():
        content[library] = {}
        for call, by_device in calls.items():
            outcomes = {*by_device.values()}
            if outcomes != {"same"}:
                content[library][call] = outcomes.pop() if len(outcomes) == 1 else by_device
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
