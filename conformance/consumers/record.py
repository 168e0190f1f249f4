"""The record of outcomes: read it, write it, and find what got worse."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["GOOD", "PATH", "RANKS", "Change", "Record", "compare", "kind_of", "load", "save"]

PATH = Path(__file__).with_name("record.json")

# Kinds of outcomes, from worst to best. Those that are good have the results of ndarrays.
GOOD = ("other out", "Blob out, on cpu", "Blob out", "same")
RANKS = ("not with ndarrays", "crash", "lost", "wrong value", "unclear error", "refused", *GOOD)
# What the record leaves out.
_USUAL = ("Blob out", "same")


def kind_of(outcome: str) -> str:
    """Return the kind of an outcome: the part before its details."""
    return outcome.partition(": ")[0]


@dataclass
class Record:
    """Outcomes by library, call and device.

    Attributes
    ----------
    versions
        The versions of the libraries.
    calls
        The numbers of their calls.
    outcomes
        All outcomes of a run. A record has only those that are not as usual.
    """

    versions: dict[str, str] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)

    def add(self, library: str, call: str, device: str, outcome: str) -> None:
        """Add the outcome of a call."""
        calls = self.outcomes.setdefault(library, {})
        calls.setdefault(call, {})[device] = outcome
        self.calls[library] = len(calls)

    def updated(self, newer: Record) -> Record:
        """Return this record, with libraries replaced by those of a newer one."""
        outcomes = {
            library: {call: found for call, found in calls.items() if _unusual(found)}
            for library, calls in newer.outcomes.items()
        }
        return Record(
            self.versions | newer.versions, self.calls | newer.calls, self.outcomes | outcomes
        )

    def table(self) -> str:
        """Return the outcomes that are not as usual as text, one per line."""
        lines = []
        for library, calls in sorted(self.outcomes.items()):
            lines.append(f"\n{library} {self.versions[library]}")
            for call, by_device in calls.items():
                found = _together(by_device)
                if isinstance(found, str):
                    lines += [f"  {call:<70} {found}"] * (found not in _USUAL)
                else:
                    lines += [f"  {call:<70} {key}: {found[key]}" for key in found]
        return "\n".join(lines)

    def kinds(self, device: str) -> dict[str, Counter[str]]:
        """Return the counts of the kinds of outcomes of each library on a device."""
        return {
            library: Counter(kind_of(x[device]) for x in calls.values() if _was_tried(x, device))
            for library, calls in sorted(self.outcomes.items())
        }

    def totals(self, device: str) -> str:
        """Return the counts of outcomes as text, one line for each library, and the share."""
        by_library = self.kinds(device)
        total: Counter[str] = sum(by_library.values(), Counter())
        lines = ["", device]
        for library, kinds in [*by_library.items(), ("all", total)]:
            counts = ", ".join(f"{kinds[kind]} {kind}" for kind in RANKS[::-1] if kinds[kind])
            share = sum(kinds[kind] for kind in GOOD) / (kinds.total() or 1)
            lines.append(f"  {library:<32} {kinds.total():5} calls {share:7.1%}: {counts}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Change:
    """A difference between the record and a run."""

    call: str
    before: str
    after: str
    worse: bool

    def __str__(self) -> str:
        """Describe the change in one line."""
        return f"{'WORSE' if self.worse else 'changed'}: {self.call}: {self.before} -> {self.after}"


def compare(recorded: Record, found: Record) -> list[Change]:
    """Return the differences in the libraries that were tried.

    A call got worse if its kind of outcome did. What is not recorded was as usual. A library got
    worse if it has fewer calls.
    """
    changes = []
    for library, calls in found.outcomes.items():
        where = f"{library} {found.versions[library]}"
        before = recorded.outcomes.get(library, {})
        for call, by_device in calls.items():
            devices: dict[tuple[str, str], list[str]] = {}
            for device, outcome in sorted(by_device.items()):
                if not _was_tried(by_device, device):
                    continue
                was = before.get(call, {}).get(device, "same")
                was, now = ("as usual" if x in _USUAL else x for x in (was, outcome))
                devices.setdefault((was, now), []).append(device)
            for (was, now), names in devices.items():
                if was != now:
                    worse = _rank(now) < _rank(was)
                    changes.append(
                        Change(f"{where} {call}, {' and '.join(names)}", was, now, worse)
                    )
        were = recorded.calls.get(library, 0)
        if len(calls) < were:
            changes.append(Change(where, f"{were} calls", f"{len(calls)} calls", worse=True))
    return changes


def _rank(outcome: str) -> int:
    kind = kind_of(outcome)
    return RANKS.index(kind) if kind in RANKS else len(RANKS)


def _was_tried(by_device: dict[str, str], device: str) -> bool:
    return kind_of(by_device.get(device, "not tried")) != "not tried"


def _unusual(by_device: dict[str, str]) -> bool:
    return any(outcome not in _USUAL for outcome in by_device.values())


def _together(by_device: dict[str, str]) -> str | dict[str, str]:
    """Return a single outcome if it is the same on all devices."""
    outcomes = set(by_device.values())
    return outcomes.pop() if len(outcomes) == 1 else by_device


def load(path: Path = PATH) -> Record:
    """Read the record. It is empty if there is no file."""
    if not path.exists():
        return Record()
    content = json.loads(path.read_text(encoding="utf-8"))
    found = Record(content["versions"], content["calls"])
    for library, calls in content["outcomes"].items():
        found.outcomes[library] = {
            call: outcome
            if isinstance(outcome, dict)
            else dict.fromkeys(content["devices"], outcome)
            for call, outcome in calls.items()
        }
    return found


def save(found: Record, path: Path = PATH) -> None:
    """Write the record, sorted, with a single outcome if it is the same on all devices."""
    outcomes = {
        library: {call: _together(by_device) for call, by_device in calls.items()}
        for library, calls in found.outcomes.items()
    }
    content = {
        "devices": ["cpu", "simulated"],
        "versions": found.versions,
        "calls": found.calls,
        "outcomes": outcomes,
    }
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
