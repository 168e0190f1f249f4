"""What a tour found: its outcomes, their totals and what was wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import syncblob

if TYPE_CHECKING:
    from types import ModuleType

    from syncblob.blob import Blob
    from syncblob.caffe import ModelFile
    from syncblob.cli._steps import Library
    from syncblob.cli._walk import Outcome
    from syncblob.devices import Device
    from syncblob.transfer_log import TransferLog
    from syncblob.transfers import Transfer

__all__ = ["Report", "Skipped", "Stage", "Star"]


class Skipped(NamedTuple):
    """A library that takes no part, and why."""

    library: str
    why: str


class Stage(NamedTuple):
    """Where a tour takes place, and with what.

    Attributes
    ----------
    accelerator
        The real one, or the simulated one.
    no_cuda
        Why it is not the real one; None if it is.
    libraries
        What there is besides NumPy.
    versions
        For the reader: names and versions, NumPy's among them.
    skipped
        What there is not.
    """

    accelerator: Device
    no_cuda: str | None
    libraries: dict[Library, ModuleType]
    versions: tuple[tuple[str, str], ...]
    skipped: tuple[Skipped, ...]


class Star(NamedTuple):
    """The Blob that is taken through the libraries, and how to get at it in the model."""

    layer: str
    number: int
    expression: str
    blob: Blob


class Report:
    """A tour under way, and then its result.

    Parameters
    ----------
    model
        The model.
    own
        Whether it is the user's, not the one made for the tour.
    stage, star
        Where, and what.
    """

    def __init__(self, model: ModelFile, stage: Stage, star: Star, *, own: bool) -> None:
        self.model = model
        self.own = own
        self.stage = stage
        self.star = star
        self.outcomes: list[Outcome] = []
        self._totals_problems: list[str] = []
        self._counted_before = self._counted()

    @property
    def transfers(self) -> list[Transfer]:
        """Everything that moved."""
        return [transfer for outcome in self.outcomes for transfer in outcome.transfers]

    @property
    def moved_nbytes(self) -> int:
        """Bytes that moved between host and accelerator."""
        return sum(transfer.nbytes for transfer in self.transfers)

    @property
    def copied_nbytes(self) -> int:
        """Bytes of private copies, which a step asked for."""
        return sum(outcome.copied_nbytes for outcome in self.outcomes)

    @property
    def hand_overs(self) -> int:
        """How often a library got the contents."""
        return sum(bool(outcome.taken) for outcome in self.outcomes)

    @property
    def copying_nbytes(self) -> int:
        """Bytes that would have moved had each hand-over been a copy."""
        return self.hand_overs * self.star.blob.nbytes

    @property
    def problems(self) -> list[str]:
        """Everything that was not as it should be."""
        found = [
            f"step {outcome.number}: {problem}"
            for outcome in self.outcomes
            for problem in outcome.problems
        ]
        return found + self._totals_problems

    def check_totals(self, log: TransferLog) -> None:
        """Compare the steps with a journal of the whole walk, and with what the device counted.

        That also proves that looking at the Blob between the steps moved nothing.
        """
        steps, whole = _sum(self.transfers), _sum(log)
        if steps != whole:
            self._totals_problems.append(
                f"the steps moved {steps}, the journal of the whole walk has {whole}"
            )
        if self._counted_before is None:
            return
        counted = self._counted()
        moved = tuple(
            after - before
            for after, before in zip(counted or (), self._counted_before, strict=True)
        )
        if moved != whole:
            self._totals_problems.append(f"the device counted {moved}, the journal has {whole}")

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON knows it."""
        blob = self.star.blob
        return {
            "accelerator": str(self.stage.accelerator),
            "simulated": self.stage.no_cuda is not None,
            "versions": dict(self.stage.versions),
            "skipped": [skipped._asdict() for skipped in self.stage.skipped],
            "model": self.model.path if self.own else None,
            "blob": {
                "layer": self.star.layer,
                "index": self.star.number,
                "shape": list(blob.shape),
                "dtype": blob.dtype.name,
                "bytes": blob.nbytes,
            },
            "steps": [_outcome_as_json(outcome) for outcome in self.outcomes],
            "totals": {
                "transfers": len(self.transfers),
                "moved_bytes": self.moved_nbytes,
                "copied_bytes": self.copied_nbytes,
                "hand_overs": self.hand_overs,
                "copying_each_time_bytes": self.copying_nbytes,
            },
            "problems": self.problems,
            "ok": not self.problems,
        }

    def _counted(self) -> tuple[int, int, int, int] | None:
        """Return what a simulated device has counted so far; real ones do not count."""
        device = self.stage.accelerator
        if device.type != "simulated":
            return None
        backend = syncblob.simulated(device.index)
        return (
            backend.uploads,
            backend.uploaded_bytes,
            backend.downloads,
            backend.downloaded_bytes,
        )


def _sum(transfers: Any) -> tuple[int, int, int, int]:
    """Count uploads, their bytes, downloads, their bytes."""
    up = [transfer.nbytes for transfer in transfers if transfer.direction == "upload"]
    down = [transfer.nbytes for transfer in transfers if transfer.direction == "download"]
    return len(up), sum(up), len(down), sum(down)


def _outcome_as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "step": outcome.number,
        "chapter": outcome.step.chapter,
        "title": outcome.step.title,
        "code": outcome.step.code,
        "arrays": [
            {
                "name": taken.name,
                "address": taken.address,
                "bytes": taken.nbytes,
                "memory": taken.place.value,
            }
            for taken in outcome.taken
        ],
        "moved": [
            {
                "direction": transfer.direction,
                "bytes": transfer.nbytes,
                "seconds": transfer.seconds,
                "access": transfer.reason,
            }
            for transfer in outcome.transfers
        ],
        "why": outcome.why,
        "head_before": outcome.before.data.name,
        "head": outcome.after.data.name,
        "diff_head": outcome.after.diff.name,
        "aliased": [place.value for place in outcome.after.aliased],
        "refused": outcome.refused,
        "problems": outcome.problems,
    }
