"""The sync core: memories with a buffer on each side, kept coherent by region."""

from __future__ import annotations

from syncblob.memory.history import Transition
from syncblob.memory.shortcut import FRESH, NO_SHORTCUT, Shortcut
from syncblob.memory.state import CONST, MUTABLE, OVERWRITE, Access, Head
from syncblob.memory.synced_memory import SyncedMemory

__all__ = [
    "CONST",
    "FRESH",
    "MUTABLE",
    "NO_SHORTCUT",
    "OVERWRITE",
    "Access",
    "Head",
    "Shortcut",
    "SyncedMemory",
    "Transition",
]
