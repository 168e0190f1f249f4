"""Consumers of the array API on Blobs: the record, and a check that it is up to date."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import syncblob

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("array_api_extra", "einops", "scipy", "sklearn", "xarray")
MISSING = [module for module in MODULES if importlib.util.find_spec(module) is None]
# The minimum number of calls.
WANTED = {"array-api-extra": 20, "einops": 7, "scikit-learn": 40, "scipy": 60, "xarray": 8}


@pytest.fixture
def record(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from conformance.consumers import record

    return record


def test_the_record_has_enough_calls_and_no_wrong_value(record):
    recorded = record.load()
    for package, count in WANTED.items():
        calls = recorded.outcomes[package].values()
        assert len(calls) >= count
        assert all(set(by_device) == {"cpu", "simulated"} for by_device in calls)
        kinds = {record.kind_of(outcome) for by_device in calls for outcome in by_device.values()}
        assert kinds <= set(record.RANKS) - {"wrong value"}


def test_the_record_is_written_as_it_is_read(record, tmp_path):
    copy = tmp_path / "record.json"
    record.save(record.load(), copy)
    assert copy.read_text("utf-8") == record.PATH.read_text("utf-8")
    assert json.loads(copy.read_text("utf-8"))["versions"].keys() == WANTED.keys()


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        ("Blob out", "Blob out, on cpu", True),
        ("Blob out", "other out: ndarray", True),
        ("other out: ndarray", "error: TypeError: no", True),
        ("error: TypeError: no", "wrong value: differs by up to 1", True),
        ("error: TypeError: no", "error: ValueError: neither", False),
        ("other out: ndarray", "Blob out", False),
    ],
)
def test_what_is_worse_than_recorded(record, before, after, worse):
    was, now = (record.Record({"p": "1"}, {"p": {"f": {"cpu": x}}}) for x in (before, after))
    (change,) = record.compare(was, now)
    assert change.worse is worse


def test_a_wrong_value_is_worse_even_where_it_is_recorded(record):
    same = record.Record({"p": "1"}, {"p": {"f": {"cpu": "wrong value: shape"}}})
    assert [change.worse for change in record.compare(same, same)] == [True]


def test_a_call_that_is_no_longer_made_is_worse(record):
    was = record.Record({"p": "1"}, {"p": {"f": {"cpu": "error: E: x"}}})
    now = record.Record({"p": "1"}, {"p": {}})
    assert [change.worse for change in record.compare(was, now)] == [True]


def test_a_new_call_is_not_worse_unless_its_value_is_wrong(record):
    empty = record.Record()
    for outcome, worse in {"error: E: x": False, "wrong value: shape": True}.items():
        now = record.Record({"p": "1"}, {"p": {"f": {"cpu": outcome}}})
        assert [change.worse for change in record.compare(empty, now)] == [worse]


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
@pytest.mark.long
def test_no_call_got_worse():
    # This needs another process: SciPy and scikit-learn read their settings once.
    source = Path(syncblob.__file__).parents[1]
    paths = [str(source), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "conformance.consumers", "--quiet"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
