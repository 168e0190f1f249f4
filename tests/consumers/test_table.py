"""Every row of the table in docs/consumers.md, with the real package."""

import consumer_document
import consumer_table
import pytest
from consumer_document import key_of
from consumer_table import CALLS

COMMITTED = consumer_table.TABLE.committed()
INSTALL = {"torch": "is not installed: pip install 'syncblob[torch]'"}
OTHERS = "is not installed: pip install 'syncblob[consumers,ecosystem]'"


# A worker imports torch.
ROWS = [
    pytest.param(call, marks=[pytest.mark.long] * ("num_workers" in call.text)) for call in CALLS
]


@pytest.mark.parametrize("call", ROWS, ids=lambda call: f"{call.module}: {call.text}")
def test_the_row_is_as_measured(call):
    missing = consumer_table.missing(call)
    if missing is not None:
        pytest.skip(f"{missing} {INSTALL.get(missing, OTHERS)}")
    assert consumer_table.measure(call).measured == COMMITTED[key_of(call)].measured


def test_the_rows_are_those_of_the_calls_in_their_order():
    assert [*COMMITTED] == [key_of(call) for call in CALLS]


def test_writing_the_rows_anew_changes_nothing(monkeypatch, tmp_path):
    before = consumer_document.DOCUMENT.read_text("utf-8")
    copy = tmp_path / "consumers.md"
    copy.write_text(before, "utf-8")
    monkeypatch.setattr(consumer_document, "DOCUMENT", copy)
    consumer_table.TABLE.write([*COMMITTED.values()])
    assert copy.read_text("utf-8") == before
