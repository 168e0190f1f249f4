"""Living arrays: which of them overlap a range, whoever adds or drops some meanwhile."""

import gc
import threading
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_threads import in_threads

from syncblob.devices import Side
from syncblob.memory import loans
from syncblob.memory.loans import BORROW, Loan, Loans

FEW = loans._FEW
NBYTES = 1 << 12


class Target:
    """Something that can be referred to."""


class Kept:
    """Living arrays, and a list of them to compare with."""

    def __init__(self):
        self.living = Loans()
        self.targets = {}

    def add(self, start, stop):
        target = Target()
        loan = self.living.lend(target, BORROW, Side.HOST, start, stop)
        self.targets[loan] = target
        return loan

    def drop(self, reference):
        del self.targets[reference]

    def found(self, start, stop):
        found = self.living.over(start, stop)
        assert len(set(found)) == len(found)
        return set(found)

    def expected(self, start, stop):
        return {each for each in self.targets if each.start < stop and start < each.stop}


ranges = st.tuples(st.integers(0, NBYTES), st.integers(0, 200) | st.integers(0, NBYTES)).map(
    lambda pair: (pair[0], sum(pair))
)
steps = st.lists(
    st.tuples(st.just("add"), st.lists(ranges, max_size=2 * FEW))
    | st.tuples(st.just("drop"), st.floats(0, 1))
    | st.tuples(st.just("search"), ranges),
    max_size=12,
)


@settings(max_examples=100)
@given(steps)
def test_what_is_found_is_what_overlaps(steps):
    kept = Kept()
    for step, given_ in steps:
        if step == "add":
            for start, stop in given_:
                kept.add(start, stop)
        elif step == "drop":
            for reference in list(kept.targets)[: int(given_ * len(kept.targets))]:
                kept.drop(reference)
        else:
            assert kept.found(*given_) == kept.expected(*given_)
    assert len(kept.living.live) == len(kept.targets)
    for place in range(0, NBYTES, 511):
        for stop in (place, place + 1, place + 700):
            assert kept.found(place, stop) == kept.expected(place, stop)


@pytest.mark.parametrize("count", [FEW, FEW + 1, 40 * FEW])
def test_only_what_is_near_a_range_is_compared(count):
    kept = Kept()
    for place in range(count):
        kept.add(8 * place, 8 * place + 8)
    kept.found(0, 8 * count)
    near = kept.living.index and kept.living.index.near(80, 88)
    if count <= FEW:
        assert near is None, "an index would take longer"
    else:
        assert kept.expected(80, 88) < set(near)
        assert len(near) <= 4


def test_the_dead_are_not_found():
    kept = Kept()
    references = [kept.add(place, place + 1) for place in range(4 * FEW)]
    kept.found(0, 1)
    index = kept.living.index
    for reference in references[:FEW]:
        kept.drop(reference)
    assert kept.found(0, NBYTES) == set(references[FEW:])
    assert kept.living.index is index


def test_dead_references_do_not_pile_up():
    kept = Kept()
    lasting = [kept.add(place, place + 1) for place in range(2 * FEW)]
    kept.found(0, 1)
    for _ in range(100 * FEW):
        kept.drop(kept.add(0, 8))
        index = kept.living.index
        assert index is None or index.count <= 2 * (2 * FEW + 1) + FEW + 1
    assert kept.found(0, 1) == {lasting[0]}
    for reference in lasting[FEW:]:
        kept.drop(reference)
    del lasting, reference
    gc.collect()
    assert kept.found(0, NBYTES) == set(kept.targets)


def test_an_index_of_the_dead_is_replaced():
    kept = Kept()
    for place in range(10 * FEW):
        kept.add(place, place + 1)
    kept.found(0, 1)
    before = kept.living.index
    for reference in list(kept.targets)[2 * FEW :]:
        kept.drop(reference)
    assert kept.found(0, NBYTES) == set(kept.targets)
    assert kept.living.index is not before
    assert kept.living.index.count == 2 * FEW


@pytest.mark.parametrize("what", ["add", "search"])
def test_who_comes_while_an_index_is_filled_misses_nothing(what):
    kept, done = Kept(), []

    class Live(set):
        def __iter__(self):
            each = list(super().__iter__())
            if not done:
                done.append(True)
                if what == "add":
                    kept.add(0, 1)
                else:
                    assert kept.found(0, 1) == kept.expected(0, 1)
            return iter(each)

    for place in range(2 * FEW):
        kept.add(place, place + 1)
    kept.living.live = Live(kept.living.live)
    kept.found(0, 1)
    assert done
    assert kept.found(0, 1) == kept.expected(0, 1)


def test_a_search_in_the_middle_of_a_search_finds_everything():
    kept = Kept()
    for place in range(2 * FEW):
        kept.add(place, place + 1)
    found = []

    class Searching(Loan):
        """Its range is asked for in the middle of a search."""

        def __getattr__(self, name):
            self.start, self.stop = 3, 5
            found.append(kept.found(3, 5))
            return {"start": 3, "stop": 5}[name]

    target = Target()
    reference = Searching(target, kept.living.live.discard)
    kept.targets[reference] = target
    kept.living.live.add(reference)
    assert kept.found(4, 5) == {reference, *kept.expected(4, 5)}
    assert found == [kept.expected(3, 5)]


def test_threads_add_while_others_search():
    """Who has added a reference finds it, and nobody else's search fails."""
    loans = Loans()
    lock = threading.Lock()

    def use(number):
        kept = []
        for step in range(150):
            array = np.zeros(1, np.uint8)
            kept.append(array)
            place = 1000 * number + step
            loans.lend(array, "DLPack", Side.HOST, place, place + 1)
            with lock:
                found = loans.writers(place, place + 1)
            assert [lease() for lease in found] == [array]
            if step % 3 == 0:
                del kept[: len(kept) // 2]
            del array, found

    in_threads(*(partial(use, number) for number in range(4)))
    assert not loans.live
