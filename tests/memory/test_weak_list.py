"""Lists and tables of weak references."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from syncblob._weak_list import WeakList, WeakTable

BOTH = pytest.mark.parametrize("kind", [WeakList, WeakTable])


class Thing:
    pass


@BOTH
def test_living_objects_in_order_and_once(kind):
    known, things = kind(), [Thing() for _ in range(5)]
    for thing in (*things, things[0]):
        known.add(thing)
    assert known.living() == things
    del thing, things[1:3]
    gc.collect()
    assert (known.living(), len(known)) == (things, 3)


def test_an_object_with_the_id_of_a_dead_one_is_the_last():
    known, others, last = WeakTable(), [Thing(), Thing()], Thing()
    known[id(last)] = ref(Thing())
    for thing in (*others, last):
        known.add(thing)
    assert known.living() == [*others, last]


@BOTH
def test_dead_references_are_few(kind):
    known = kind()
    for _ in range(3):
        for thing in [Thing() for _ in range(3000)]:
            known.add(thing)
    thing = Thing()
    known.add(thing)
    assert len(known) <= 2 * 3000
