"""The functions that a call calls, by the interpreter's profile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import FrameType


def calls_made(
    function: Callable[[], object], events: Collection[str] = ("call",)
) -> list[tuple[str, str]]:
    """Return the file and the name of each function that a function calls.

    With ``"c_call"`` among the events, those in C too, each with the file and the name of its
    caller.
    """
    found: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event in events:
            found.append((frame.f_code.co_filename, frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return found
