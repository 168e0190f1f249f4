"""What a probe finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PROBES", "NeedsError", "Report", "probe"]


class NeedsError(Exception):
    """A probe cannot be made here; the message says what it needs."""


class Report:
    """Collects what a probe has seen, and its verdict.

    Attributes
    ----------
    wrong, right
        What was not as it should be, and what was.
    doubts
        Why what was right may prove nothing: it could not be provoked, for example.
    notes
        Whatever else is worth to be known.
    """

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.right: list[str] = []
        self.doubts: list[str] = []
        self.notes: dict[str, Any] = {}

    def fault(self, what: str, seen: object) -> None:
        """Note what was seen where something is not as it should be."""
        self.wrong.append(f"{what}: {seen}")

    def check(self, what: str, good: bool, seen: object = "") -> None:
        """Note whether something is as it should be, and what was seen where it is not."""
        (self.right if good else self.wrong).append(
            what if good or seen == "" else f"{what}: {seen}"
        )

    def equal(self, what: str, seen: object, expected: object) -> None:
        """Note whether two things are equal."""
        self.check(what, bool(seen == expected), f"expected {expected!r}, got {seen!r}")

    def attempt(self, what: str, function: Callable[[], Any]) -> Any:
        """Call a function; what it raises is wrong."""
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
        """Call a function that must raise an error of ours, and not CUDA's."""
        try:
            function()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is noted
            good = isinstance(error, kinds) and type(error).__name__ != "CUDARuntimeError"
            self.check(what, good, _text(error))
        else:
            self.fault(what, "it was not refused")

    def doubt(self, why: str) -> None:
        """Note that the probe may prove nothing."""
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


# By name: the question, and who answers it. The order is that in which they are asked.
PROBES: dict[str, tuple[str, Callable[[Report], None]]] = {}


def probe(question: str) -> Callable[[Callable[[Report], None]], Callable[[Report], None]]:
    """Enter a function into the table of probes, by its name."""

    def enter(function: Callable[[Report], None]) -> Callable[[Report], None]:
        PROBES[function.__name__] = (question, function)
        return function

    return enter
