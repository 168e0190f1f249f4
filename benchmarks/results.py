"""Files of results: measurements, machine, versions and date."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine, versions
from benchmarks.rows import Measured, Row

# One file for each kind of machine.
FOLDER = Path(__file__).parent / "results"


@dataclass
class Results:
    """The results of one run.

    `groups`: the measurements, by group.
    `machine`, `versions`, `when`: the machine, the versions of the packages, and the date, in UTC.
    """

    groups: dict[str, Measured]
    machine: dict[str, Any]
    versions: dict[str, str]
    when: str

    @classmethod
    def of_this_machine(cls, groups: dict[str, Measured]) -> Results:
        """Return results with this machine, its versions and the current date."""
        today = datetime.now(tz=UTC).date().isoformat()
        return cls(groups, describe_machine(), versions(), today)

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read a file that `write` wrote."""
        kept = json.loads(path.read_text(encoding="utf-8"))
        for name, group in kept["groups"].items():
            rows = [
                Row.from_dict({"section": section, "ours": ours, **row})
                for section, lines in group["sections"].items()
                for ours, found in lines.items()
                for row in found
            ]
            kept["groups"][name] = Measured(rows, group["notes"])
        return cls(**kept)

    def write(self, path: Path) -> None:
        """Write everything as JSON, a line of a table on a line. Replaces the file."""
        groups: dict[str, Any] = {}
        for name, group in self.groups.items():
            sections: dict[str, dict[str, list[Any]]] = {}
            for row in group.rows:
                kept = {key: x for key, x in asdict(row).items() if x not in (None, "")}
                lines = sections.setdefault(kept.pop("section"), {})
                lines.setdefault(kept.pop("ours"), []).append(kept)
            groups[name] = {"notes": group.notes, "sections": sections}
        text = json.dumps({**asdict(self), "groups": groups}).replace('}], "', '}],\n"')
        path.parent.mkdir(parents=True, exist_ok=True)
        # Replaced as a whole: a run may be killed at any time.
        new = path.with_suffix(".new")
        new.write_text(text + "\n", encoding="utf-8")
        new.replace(path)

    def describe(self) -> str:
        """Describe the machine and the versions in one line."""
        machine = self.machine
        words = [str(machine["processor"]), f"{machine['cores']} cores", machine["system"]]
        if "gpu" in machine:
            words.append(f"{machine['gpu']}, driver {machine['gpu_driver']}")
        packages = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{', '.join(words)}; {packages}"


def merged(parts: Sequence[Results]) -> Results:
    """Return the results of several runs on one machine as those of one run.

    `parts`: At least one. If two have the same group, the later one counts.
    ValueError: if they are from different machines or versions.
    """
    first, *others = parts
    for other in others:
        if (other.machine, other.versions) != (first.machine, first.versions):
            raise ValueError(
                f"expected results of one machine, got {first.describe()} and {other.describe()}"
            )
    groups = {name: group for part in parts for name, group in part.groups.items()}
    return Results(groups, first.machine, first.versions, max(part.when for part in parts))
