"""Messages of whichever module was generated from Caffe's definitions, as messages of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["own_copy"]

M = TypeVar("M", bound="Message")


def own_copy(kind: type[M], message: Any, advice: str) -> M:
    """Return a copy of a message, of the class that this package has for it.

    Parameters
    ----------
    kind
        The class.
    message
        A message of that name, from any generated module.
    advice
        Where one is had from, for the error.

    Raises
    ------
    TypeError
        If it is no such message.
    """
    wanted = kind.DESCRIPTOR.name
    descriptor = getattr(message, "DESCRIPTOR", None)
    if descriptor is None or descriptor.name != wanted:
        found = type(message).__name__ if descriptor is None else descriptor.name
        raise TypeError(f"expected a {wanted} message, got {found}; {advice}")
    return kind.FromString(message.SerializeToString())
