"""The sync core: memories with a buffer on each side, kept coherent by region."""

from __future__ import annotations

from syncblob.memory.accesses import acquire as acquire
from syncblob.memory.ledger import FRESH as FRESH
from syncblob.memory.ledger import NO_SHORTCUT as NO_SHORTCUT
from syncblob.memory.ledger import Shortcut as Shortcut
from syncblob.memory.operations import attempt as attempt
from syncblob.memory.operations import has_written as has_written
from syncblob.memory.room import compute as compute
from syncblob.memory.room import from_the_start as from_the_start
from syncblob.memory.room import in_room as in_room
from syncblob.memory.room import short_of as short_of
from syncblob.memory.state_machine import CONST as CONST
from syncblob.memory.state_machine import MUTABLE as MUTABLE
from syncblob.memory.state_machine import OVERWRITE as OVERWRITE
from syncblob.memory.state_machine import Access as Access
from syncblob.memory.state_machine import Head as Head
from syncblob.memory.synced_memory import SyncedMemory as SyncedMemory
