"""Every row of the table in docs/consumers.md, with the real package."""

import giving_table
import pytest
from giving_calls import CALLS
from giving_table import key_of

COMMITTED = giving_table.committed()


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.module}: {call.text}")
def test_the_row_is_as_measured(call):
    if giving_table.missing(call) is not None:
        pytest.skip(f"{call.module} cannot be imported: pip install 'syncblob[consumers-large]'")
    if call.module == "numba":
        import syncblob.integrations._numba  # noqa: F401  # an older installation has no entry point
    assert giving_table.measure(call) == COMMITTED[key_of(call)][3:]


def test_the_rows_are_those_of_the_calls_in_their_order():
    assert [*COMMITTED] == [key_of(call) for call in CALLS]
