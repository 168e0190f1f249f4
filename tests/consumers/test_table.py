"""Every row of the table in docs/consumers.md, with the real package."""

from __future__ import annotations

import consumer_table
import pytest
from consumer_calls import CALLS

COMMITTED = consumer_table.committed()
INSTALL = {
    "tensorflow": "is in no extra, because it takes 1.5 GB and an older h5py: "
    "pip install tensorflow-cpu",
    "torch": "is not installed: pip install 'syncblob[torch]'",
}
OTHERS = "is not installed: pip install 'syncblob[consumers,ecosystem]'"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.module}: {call.text}")
def test_the_row_is_as_measured(call, tmp_path):
    missing = consumer_table.missing(call)
    if missing is not None:
        pytest.skip(f"{missing} {INSTALL.get(missing, OTHERS)}")
    measured = consumer_table.measure(call, tmp_path)
    recorded = COMMITTED[consumer_table.key_of(call)]
    assert measured._replace(version=recorded.version) == recorded


def test_the_rows_are_those_of_the_calls_in_their_order():
    assert [*COMMITTED] == [consumer_table.key_of(call) for call in CALLS]


def test_writing_the_rows_anew_changes_nothing(monkeypatch, tmp_path):
    before = consumer_table.DOCUMENT.read_text("utf-8")
    copy = tmp_path / "consumers.md"
    copy.write_text(before, "utf-8")
    monkeypatch.setattr(consumer_table, "DOCUMENT", copy)
    consumer_table.write([*COMMITTED.values()])
    assert copy.read_text("utf-8") == before
