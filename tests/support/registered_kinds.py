"""Kinds of devices that only a test knows."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from syncblob.devices import selection
from syncblob.devices.base import kinds

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def forgotten_afterwards() -> Iterator[None]:
    """Forget the kinds that are registered inside, and their backends."""
    before = len(kinds)
    try:
        yield
    finally:
        for kind in kinds[before:]:
            del selection._makers[kind]
            for device in [device for device in selection._backends if device.type == kind]:
                del selection._backends[device]
        del kinds[before:]
