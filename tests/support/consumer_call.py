"""What a call of the table in docs/consumers.md is, and what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob import Blob

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = []


class Call(NamedTuple):
    """A call that takes a Blob.

    Attributes
    ----------
    module
        The package that has to be there.
    text
        The call, as the table shows it.
    function
        Makes it, given a Blob and a folder for files, and says what was `Taken`.
    expected
        What comes of an ndarray with the contents of the Blob.
    shape, dtype
        Of the Blob.
    made
        Makes the Blob in place of the test; given shape, dtype and device.
    """

    module: str
    text: str
    function: Callable[..., Taken]
    expected: Callable[..., Any] = lambda contents: contents
    shape: tuple[int, ...] = (2, 3)
    dtype: str = "float32"
    made: Callable[..., Blob] = Blob


class Taken(NamedTuple):
    """What a consumer made of a Blob.

    Attributes
    ----------
    held
        What has to live until everything is measured.
    value
        What comes of it, to be compared; may be a function, where asking for it has effects.
    address
        Where the memory that it keeps begins, None where it keeps none.
    again
        Reads it once more, where the consumer does not tell addresses.
    """

    held: Any
    value: Any
    address: int | None = None
    again: Callable[[], Any] | None = None


def taking(module, text, **others):
    """Put a function into the table; other keywords are those of `Call`."""

    def register(function):
        CALLS.append(Call(module, text, function, **others))
        return function

    return register
