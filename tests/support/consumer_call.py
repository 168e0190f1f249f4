"""The calls of the table in docs/consumers.md, and their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from syncblob import Blob

CALLS = []


class Call(NamedTuple):
    """A call that takes a Blob.

    `module`: the required package.
    `text`: the call, as the table shows it.
    `function`: makes the call, given a Blob and a folder for files, and returns `Taken`.
    `expected`: the result for an ndarray with the contents of the Blob.
    `shape`, `dtype`: those of the Blob.
    `made`: makes the Blob instead of the test, given shape, dtype and device.
    """

    module: str
    text: str
    function: Callable[..., Taken]
    expected: Callable[..., Any] = lambda contents: contents
    shape: tuple[int, ...] = (2, 3)
    dtype: str = "float32"
    made: Callable[..., Blob] = Blob


class Taken(NamedTuple):
    """The result of a consumer for a Blob.

    `held`: an object that must live until everything is measured.
    `value`: the value to compare; a function if getting it has side effects.
    `address`: the address of the memory that it keeps; None if it keeps none.
    `again`: reads the value again, for consumers that do not give addresses.
    """

    held: Any
    value: Any
    address: int | None = None
    again: Callable[[], Any] | None = None


def taking(module, text, **others):
    """Add a function to the table. The other keywords are those of `Call`."""

    def register(function):
        CALLS.append(Call(module, text, function, **others))
        return function

    return register
