"""The record of outcomes: read it, write it, and find what got worse."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["PATH", "RANKS", "Change", "Record", "compare", "load", "save"]

PATH = Path(__file__).with_name("record.json")

# Kinds of outcomes, from worst to best.
RANKS = ("wrong value", "error", "other out", "Blob out, on cpu", "Blob out")


def kind_of(outcome: str) -> str:
    """Return the kind of an outcome: the part before its details."""
    return outcome.partition(": ")[0]


@dataclass
class Record:
    """Outcomes by package, call and device, with the versions of the packages."""

    versions: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)

    def add(self, package: str, call: str, device: str, outcome: str) -> None:
        """Add the outcome of a call."""
        self.outcomes.setdefault(package, {}).setdefault(call, {})[device] = outcome

    def updated(self, newer: Record) -> Record:
        """Return this record, with packages replaced by those of a newer one."""
        return Record(self.versions | newer.versions, self.outcomes | newer.outcomes)

    def table(self) -> str:
        """Return all outcomes as text, one per line."""
        lines = []
        for package, calls in sorted(self.outcomes.items()):
            lines.append(f"\n{package} {self.versions[package]}")
            for call, by_device in sorted(calls.items()):
                same = _together(by_device)
                if isinstance(same, str):
                    lines.append(f"  {call:<58} {same}")
                else:
                    lines += [f"  {call:<58} {key}: {same[key]}" for key in same]
        return "\n".join(lines)

    def totals(self) -> str:
        """Return the counts of outcomes as text, one line for each package and device."""
        lines = [""]
        for package, calls in sorted(self.outcomes.items()):
            devices = sorted({device for by_device in calls.values() for device in by_device})
            for device in devices:
                kinds = Counter(kind_of(by_device[device]) for by_device in calls.values())
                counts = ", ".join(f"{kinds[kind]} {kind}" for kind in RANKS[::-1] if kinds[kind])
                lines.append(f"{package}, {device}: {len(calls)} calls: {counts}")
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
    """Return the differences in the packages that were tried.

    A call got worse if its kind of outcome did, or if it is no longer made. A wrong value always
    counts as worse, whatever is recorded.
    """
    changes = []
    for package, calls in found.outcomes.items():
        before = recorded.outcomes.get(package, {})
        for call in sorted(before.keys() | calls.keys()):
            devices: dict[tuple[str, str], list[str]] = {}
            for device in sorted(before.get(call, {}).keys() | calls.get(call, {}).keys()):
                was = before.get(call, {}).get(device, "not recorded")
                now = calls.get(call, {}).get(device, "not tried")
                devices.setdefault((was, now), []).append(device)
            for (was, now), names in devices.items():
                worse = _rank(now) == 0 or _rank(now) < _rank(was)
                if was != now or worse:
                    where = f"{package} {found.versions[package]} {call}, {' and '.join(names)}"
                    changes.append(Change(where, was, now, worse))
    return changes


def _rank(outcome: str) -> int:
    kind = kind_of(outcome)
    return RANKS.index(kind) if kind in RANKS else -1


def _together(by_device: dict[str, str]) -> str | dict[str, str]:
    """Return a single outcome if it is the same on all devices."""
    outcomes = set(by_device.values())
    return outcomes.pop() if len(outcomes) == 1 else by_device


def load(path: Path = PATH) -> Record:
    """Read the record. It is empty if there is no file."""
    if not path.exists():
        return Record()
    content = json.loads(path.read_text(encoding="utf-8"))
    found = Record(versions=content["versions"])
    for package, calls in content["outcomes"].items():
        for call, outcome in calls.items():
            for device in content["devices"]:
                text = outcome[device] if isinstance(outcome, dict) else outcome
                found.add(package, call, device, text)
    return found


def save(found: Record, path: Path = PATH) -> None:
    """Write the record, sorted, with a single outcome if it is the same on all devices."""
    outcomes = {
        package: {call: _together(by_device) for call, by_device in calls.items()}
        for package, calls in found.outcomes.items()
    }
    devices = sorted(
        {
            device
            for calls in found.outcomes.values()
            for by_device in calls.values()
            for device in by_device
        }
    )
    content = {"devices": devices, "outcomes": outcomes, "versions": found.versions}
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
