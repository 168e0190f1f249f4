"""The sync core: memories with a buffer on each side, kept coherent by region."""

from __future__ import annotations

from syncblob.memory.state import CONST, MUTABLE, OVERWRITE, Access, Head, Transition
from syncblob.memory.synced_memory import SyncedMemory

__all__ = ["CONST", "MUTABLE", "OVERWRITE", "Access", "Head", "SyncedMemory", "Transition"]
