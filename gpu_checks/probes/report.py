"""The report of a probe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PROBES", "NeedsError", "Report", "probe"]


class NeedsError(Exception):
    """A probe cannot run here. The message says what it needs."""


class Report:
    """Collects the observations of a probe, and gives its verdict.

    Attributes
    ----------
    wrong, right
        The checks that failed and that passed.
    doubts
        Reasons why passed checks may prove nothing, for example because the defect could not be
        provoked.
    notes
        Other observations.
    """

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.right: list[str] = []
        self.doubts: list[str] = []
        self.notes: dict[str, Any] = {}

    def fault(self, what: str, seen: object) -> None:
        """Record a failed check, and the observation."""
        self.wrong.append(f"{what}: {seen}")

    def check(self, what: str, good: bool, seen: object = "") -> None:
        """Record a check, and the observation if it failed."""
        (self.right if good else self.wrong).append(
            what if good or seen == "" else f"{what}: {seen}"
        )

    def equal(self, what: str, seen: object, expected: object) -> None:
        """Check that two values are equal."""
        self.check(what, bool(seen == expected), f"expected {expected!r}, got {seen!r}")

    def attempt(self, what: str, function: Callable[[], Any]) -> Any:
        """Call a function. An exception is a failed check."""
        try:
            result = function()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is noted
            self.fault(what, _text(error))
            return None
        self.right.append(what)
        return result

    def refused(
        self, what: str, function: Callable[[], Any], kinds: type[Exception] = RuntimeError
    ) -> None:
        """Call a function that must raise one of syncblob's errors and not CUDA's."""
        try:
            function()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is noted
            good = isinstance(error, kinds) and type(error).__name__ != "CUDARuntimeError"
            self.check(what, good, _text(error))
        else:
            self.fault(what, "it was not refused")

    def doubt(self, why: str) -> None:
        """Record that the probe may prove nothing."""
        self.doubts.append(why)

    @property
    def verdict(self) -> str:
        """The verdict, in a word or two."""
        if self.wrong:
            return "wrong"
        return "not provoked" if self.doubts else "right"

    @property
    def line(self) -> str:
        """The verdict and the reasons for it, in one line."""
        number = len(self.right)
        reasons = self.wrong or self.doubts or [f"{number} check{'s' * (number != 1)}"]
        return f"{self.verdict}: {'; '.join(reasons)}"[:600].replace("\n", " ")


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]


# By name: the question and the function, in the order in which they run.
PROBES: dict[str, tuple[str, Callable[[Report], None]]] = {}


def probe(question: str) -> Callable[[Callable[[Report], None]], Callable[[Report], None]]:
    """Add a function to the table of probes, under its name."""

    def enter(function: Callable[[Report], None]) -> Callable[[Report], None]:
        PROBES[function.__name__] = (question, function)
        return function

    return enter
