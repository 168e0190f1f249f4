"""Every row of the table "What to give whom" in docs/consumers.md, with the real package."""

from __future__ import annotations

import giving_table
import pytest
from giving_calls import CALLS

COMMITTED = giving_table.committed()


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.module}: {call.text}")
def test_the_row_is_as_measured(call):
    if not giving_table.is_installed(call):
        pytest.skip(f"{call.module} is not installed: pip install 'syncblob[consumers-large]'")
    if call.module == "numba":
        import syncblob.integrations._numba  # noqa: F401  # an older installation has no entry point
    measured = giving_table.measure(call)
    recorded = COMMITTED[giving_table.key_of(call)]
    assert measured._replace(version=recorded.version) == recorded


def test_the_rows_are_those_of_the_calls_in_their_order():
    assert [*COMMITTED] == [giving_table.key_of(call) for call in CALLS]
