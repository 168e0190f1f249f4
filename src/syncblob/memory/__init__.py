"""The sync core: memories with a buffer on each side, kept coherent by region."""

from __future__ import annotations

from syncblob.memory.accesses import claim, claim_shared
from syncblob.memory.history import Transition
from syncblob.memory.ledger import Ledger
from syncblob.memory.shortage import Shortage, at_once, compute, patiently
from syncblob.memory.shortcut import FRESH, NO_SHORTCUT, Shortcut
from syncblob.memory.synced_memory import SyncedMemory
from syncblob.memory.transitions import CONST, MUTABLE, OVERWRITE, Access, Head
from syncblob.memory.window_eviction import evict as evict_windows
from syncblob.memory.windows import Window, laid, layout_of, placed_in

__all__ = [
    "CONST",
    "FRESH",
    "MUTABLE",
    "NO_SHORTCUT",
    "OVERWRITE",
    "Access",
    "Head",
    "Ledger",
    "Shortage",
    "Shortcut",
    "SyncedMemory",
    "Transition",
    "Window",
    "at_once",
    "claim",
    "claim_shared",
    "compute",
    "evict_windows",
    "laid",
    "layout_of",
    "patiently",
    "placed_in",
]
