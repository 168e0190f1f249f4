"""What to pass to which library, with the real package: the table in docs/consumers.md."""

import giving_table
import pytest
from giving_calls import CALLS
from giving_table import key_of

COMMITTED = giving_table.committed()


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.module}: {call.text}")
def test_a_row_is_as_measured_and_a_call_without_a_row_works(call):
    if giving_table.missing(call) is not None:
        pytest.skip(f"{call.module} cannot be imported: pip install 'syncblob[consumers-large]'")
    if call.module == "numba":
        import syncblob.integrations._numba  # noqa: F401  # an older installation has no entry point
    row = COMMITTED.get(key_of(call), ("works", "`b`"))
    assert giving_table.measure(call) == row[-2:]


def test_the_rows_are_those_of_the_calls_that_do_not_take_a_blob():
    assert [*COMMITTED] == [key_of(call) for call in giving_table.IN_TABLE]
