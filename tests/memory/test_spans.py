"""The map of a memory against a list with the holders of each byte, and the plans of accesses."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import NamedTuple

import pytest
import tiers
from hypothesis import given, settings
from hypothesis import strategies as st

from syncblob import Head
from syncblob.devices import Side
from syncblob.memory.state_machine import Access, Run, Spans, plan_access

NOBODY, HOST, DEVICE, BOTH = range(4)
EXAMPLES = settings(max_examples=60)


def listings(most=7):
    """Draw the holders of each byte; neighbours are often equal."""
    parts = st.tuples(st.integers(1, 9), st.integers(0, most))
    return st.lists(parts, min_size=1, max_size=12).map(
        lambda parts: [holders for length, holders in parts for _ in range(length)]
    )


def spans_of(listing):
    """Make the map of a list from the definition: sorted, with different neighbours."""
    groups = [(holders, len(list(group))) for holders, group in groupby(listing)]
    ends = [sum(length for _, length in groups[: index + 1]) for index in range(len(groups))]
    return Spans(tuple(ends), tuple(holders for holders, _ in groups))


def listing_of(spans):
    return [run.holders for run in spans.runs(0, spans.nbytes) for _ in range(run.nbytes)]


def runs_of(listing, start=0):
    """Cut a list into runs with different neighbours."""
    runs = []
    for holders, group in groupby(listing):
        stop = start + len(list(group))
        runs.append(Run(start, stop, holders))
        start = stop
    return runs


def ranges(nbytes):
    return st.tuples(st.integers(0, nbytes), st.integers(0, nbytes)).map(sorted)


@st.composite
def listings_with_a_range(draw, most=7):
    listing = draw(listings(most))
    return (listing, *draw(ranges(len(listing))))


def all_of(listing):
    common = -1
    for holders in listing:
        common &= holders
    return common


def any_of(listing):
    found = 0
    for holders in listing:
        found |= holders
    return found


def asked(listing, start, stop):
    """Return the bytes that `common` and `any` consider: for an empty range, a byte beside it."""
    return listing[start:stop] or [listing[min(start, len(listing) - 1)]]


def require_canonical(spans):
    assert len(spans.ends) == len(spans.holders) > 0
    assert all(low < high for low, high in pairwise((0, *spans.ends))) or spans.nbytes == 0
    assert all(left != right for left, right in pairwise(spans.holders))


# --- the map -------------------------------------------------------------------------------------


@EXAMPLES
@given(listings())
def test_a_map_is_the_list_of_its_bytes(listing):
    spans = spans_of(listing)
    require_canonical(spans)
    assert spans.nbytes == len(listing)
    assert spans.uniform == (listing[0] if len(set(listing)) == 1 else None)
    assert listing_of(spans) == listing
    end = len(listing)
    assert spans.common(end, end) == spans.any(end, end) == listing[-1]


@pytest.mark.parametrize("holders", range(8))
@pytest.mark.parametrize("nbytes", [0, 1, 1 << 40])
def test_a_whole_map_has_one_span(nbytes, holders):
    spans = Spans.whole(nbytes, holders)
    assert (spans.ends, spans.holders) == ((nbytes,), (holders,))
    assert (spans.nbytes, spans.uniform) == (nbytes, holders)
    for start, stop in ((0, 0), (0, nbytes), (nbytes, nbytes)):
        assert spans.common(start, stop) == spans.any(start, stop) == holders
    assert list(spans.runs(0, nbytes)) == ([Run(0, nbytes, holders)] if nbytes else [])


@EXAMPLES
@given(listings_with_a_range())
def test_who_holds_all_and_who_holds_some_of_a_range(drawn):
    listing, start, stop = drawn
    spans = spans_of(listing)
    assert spans.common(start, stop) == all_of(asked(listing, start, stop))
    assert spans.any(start, stop) == any_of(asked(listing, start, stop))


@EXAMPLES
@given(listings_with_a_range())
def test_the_runs_of_a_range_are_cut_off_at_its_ends(drawn):
    listing, start, stop = drawn
    assert list(spans_of(listing).runs(start, stop)) == runs_of(listing[start:stop], start)
    assert list(spans_of(listing).runs(stop, start)) == [] or start == stop


@EXAMPLES
@given(listings_with_a_range(), st.data())
def test_other_holders_in_a_range(drawn, data):
    listing, start, stop = drawn
    cuts = sorted({start, stop, *data.draw(st.lists(st.integers(start, stop), max_size=4))})
    runs = [Run(low, high, data.draw(st.integers(0, 7))) for low, high in pairwise(cuts)]
    new = [run.holders for run in runs for _ in range(run.nbytes)]
    spans = spans_of(listing)
    after = spans.replaced(iter(runs))
    require_canonical(after)
    assert after == spans_of([*listing[:start], *new, *listing[stop:]])
    assert spans == spans_of(listing), "a map never changes"


@EXAMPLES
@given(listings())
def test_without_runs_nothing_changes(listing):
    spans = spans_of(listing)
    assert spans.replaced([]) is spans
    assert spans.left_to(1, 1, DEVICE, DEVICE) is spans


def test_of_no_bytes_one_side_is_left():
    left = Spans.whole(0, HOST | DEVICE).left_to(0, 0, DEVICE, DEVICE)
    assert (left.ends, left.holders) == ((0,), (DEVICE,))
    assert Spans.whole(0, HOST).left_to(0, 0, DEVICE, DEVICE).holders == (HOST,)


@pytest.mark.parametrize("holders", range(4))
def test_a_map_of_no_bytes_has_holders_too(holders):
    spans = Spans.whole(0, NOBODY).replaced([Run(0, 0, holders)])
    assert spans == Spans.whole(0, holders)
    assert (spans.uniform, spans.lacking(0, 0, HOST)) == (holders, [])
    assert spans.replaced([]) is spans


@given(listings(), listings())
def test_maps_are_equal_where_all_bytes_are(one, other):
    left, right = spans_of(one), spans_of(other)
    assert (left == right) == (one == other)
    assert left == spans_of(list(one))
    assert hash(left) == hash(spans_of(list(one)))
    assert left != one


def test_finding_a_place_in_a_long_map_takes_no_walk():
    """Only the spans of the range are read."""

    class Counting(tuple):
        __slots__ = ()
        looked = 0

        def __getitem__(self, index):
            Counting.looked += 1
            return super().__getitem__(index)

    count = 100_000
    spans = Spans(Counting(range(8, 8 * count + 8, 8)), Counting([1, 2] * (count // 2)))
    assert spans.common(400_000, 400_008) in {1, 2}
    assert list(spans.runs(400_004, 400_012)) == [
        Run(400_004, 400_008, 1),
        Run(400_008, 400_012, 2),
    ]
    assert spans.lacking(400_000, 400_016, 1) == [Run(400_008, 400_016, 2)]
    assert Counting.looked < 100


# --- heads ---------------------------------------------------------------------------------------


@EXAMPLES
@given(listings_with_a_range(most=BOTH))
def test_the_head_of_a_range_is_that_of_the_sides_that_hold_all_of_it(drawn):
    listing, start, stop = drawn
    bytes_ = asked(listing, start, stop)
    expected = Head(all_of(bytes_)) if all_of(bytes_) else Head.SPLIT
    if not any_of(bytes_):
        expected = Head.UNINITIALIZED
    assert spans_of(listing).head(start, stop) is expected


def test_without_a_range_the_head_is_that_of_everything():
    assert Spans((1, 9), (HOST, DEVICE)).head() is Head.SPLIT
    assert Spans((8, 9), (HOST, DEVICE)).head() is Head.SPLIT


def test_heads_are_caffes_numbers_and_one_more():
    assert [(head.name, int(head)) for head in Head] == [
        ("UNINITIALIZED", 0),
        ("HEAD_AT_CPU", 1),
        ("HEAD_AT_GPU", 2),
        ("SYNCED", 3),
        ("SPLIT", 4),
        ("ELSEWHERE", 5),
    ]
    assert str(Head.SPLIT) == "SPLIT"


# --- the plan of an access -----------------------------------------------------------------------


class Writer(NamedTuple):
    """A lease or an exposure: it may write into a range."""

    start: int
    stop: int


def may_write(writers, byte):
    return any(writer.start <= byte < writer.stop for writer in writers)


def expected_plan(listing, side, access, start, stop, here, there):  # noqa: PLR0913, PLR0917  # as plan_access
    """Return for each byte whether it is copied, and its holders afterwards."""
    holder = 1 << side
    moves, after = [], []
    for byte in range(start, stop):
        before = listing[byte]
        lacks = not before & holder
        moves.append(lacks and access is not Access.OVERWRITE)
        if access is not Access.CONST or (lacks and not before):
            after.append(holder)
        elif not lacks or may_write(there, byte):
            after.append(before)
        else:
            after.append(holder if may_write(here, byte) else BOTH)
    return moves, after


@st.composite
def accesses(draw):
    listing, start, stop = draw(listings_with_a_range(most=BOTH))
    writers = st.lists(ranges(len(listing)).map(lambda pair: Writer(*pair)), max_size=3)
    return (
        listing,
        draw(st.sampled_from(Side)),
        draw(st.sampled_from(Access)),
        start,
        stop,
        draw(writers),
        draw(writers),
    )


@tiers.drawn(accesses(), short=100, long=800)
def test_the_table_is_applied_to_each_byte_of_the_range(drawn):
    listing, side, access, start, stop, here, there = drawn
    spans = spans_of(listing)
    sides = ((here, 1 << side), (there, 2 >> side))
    writers = [Run(*each, holders) for some, holders in sides for each in some]
    pieces, runs = plan_access(spans, side, access, start, stop, writers=writers)
    moves, after = expected_plan(*drawn)
    # Exactly the missing bytes, each in one piece that has the byte's holders.
    moved = [(byte, piece.holders) for piece in pieces for byte in range(*piece[:2])]
    lacking = [byte for byte, moves_it in enumerate(moves, start) if moves_it]
    assert moved == [(byte, listing[byte]) for byte in lacking]
    # As few copies as possible.
    for left, right in pairwise(pieces):
        assert left.stop < right.start or left.holders != right.holders
    if start < stop:
        assert (runs[0].start, runs[-1].stop) == (start, stop)
        assert all(left.stop == right.start for left, right in pairwise(runs))
        changed = spans.replaced(runs)
        assert listing_of(changed) == [*listing[:start], *after, *listing[stop:]]
        assert changed.common(start, stop) & 1 << side or any(
            may_write(there, byte) for byte in range(start, stop)
        )


steps_of = st.lists(
    st.tuples(
        st.sampled_from(Side), st.sampled_from(Access), st.integers(0, 100), st.integers(0, 100)
    ),
    max_size=12,
)


@settings(max_examples=150)
@given(listings(most=BOTH), steps_of)
def test_what_somebody_may_write_is_never_believed_on_both_sides(listing, steps):
    """For any accesses, while a writer on the host exists."""
    writer = Writer(2, 9)
    listing = [HOST if may_write([writer], byte) else held for byte, held in enumerate(listing)]
    spans = spans_of(listing)
    for side, access, one, other in steps:
        start, stop = sorted((min(one, len(listing)), min(other, len(listing))))
        _, runs = plan_access(spans, side, access, start, stop, writers=[Run(*writer, HOST)])
        spans = spans.replaced(runs if start < stop else [])
        for byte in range(*writer):
            if byte < len(listing):
                assert listing_of(spans)[byte] in {HOST, DEVICE}


# --- maps that would be too long -----------------------------------------------------------------


@EXAMPLES
@given(st.integers(0, 40), st.lists(st.tuples(st.integers(0, 45), st.integers(0, 45)), max_size=6))
def test_a_map_of_what_ranges_cover(nbytes, covered):
    spans = Spans.covering(nbytes, [Run(*each, 1) for each in covered])
    require_canonical(spans)
    assert listing_of(spans) == [
        int(any(start <= byte < stop for start, stop in covered)) for byte in range(nbytes)
    ]
    assert spans.nbytes == nbytes
