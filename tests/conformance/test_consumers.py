"""Consumers on Blobs: the record, a check that it is up to date, and the harness itself."""

from __future__ import annotations

import ast
import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import giving_table
import numpy as np
import pytest

import syncblob
from syncblob import Blob
from syncblob.devices import Side

ROOT = Path(__file__).resolve().parents[2]
DEVICES = ("cpu", "simulated")


@pytest.fixture(autouse=True)
def _conformance(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture
def record():
    from conformance.consumers import record

    return record


@pytest.fixture
def running():
    from conformance.consumers import running

    return running


@pytest.fixture
def table():
    from conformance.consumers import table

    return table


# --- the record -----------------------------------------------------------------------------------


def unusual(record):
    """Yield the library, call and outcomes by device of what the record has."""
    for library, calls in record.load().items():
        for call, outcomes in calls.items():
            yield library.partition("/")[2].partition(" ")[0], call, outcomes


def test_the_record_has_the_calls_of_the_tables(record, table):
    recorded = {name.partition(" ")[0]: calls for name, calls in record.load().items()}
    every = {f"{name}/{library}" for name in table.names() for library in table.libraries_of(name)}
    assert recorded.keys() == every
    for name, calls in recorded.items():
        # As `ast.unparse` writes them.
        source = ast.unparse(ast.parse((table.FOLDER / f"{name.partition('/')[0]}.py").read_text()))
        assert [call for call in calls if call not in source] == []


def test_what_goes_wrong_is_named_by_the_table_of_consumers(record):
    rows = [
        (plain(consumer), words(text))
        for (consumer, text), row in giving_table.TABLE.committed().items()
        if re.search("silently|AttributeError", row.measured[0])
    ]
    for library, call, outcomes in unusual(record):
        for outcome in outcomes.values():
            if re.match(
                "crash|lost|wrong value|not with ndarrays|.*error: AttributeError", outcome
            ):
                assert any(
                    words(call) & named
                    for consumer, named in rows
                    if plain(library) in consumer or (consumer, library) == ("python", "numpy")
                ), f"docs/consumers.md names no call like {library}: {call}: {outcome}"


def plain(name):
    return re.sub(r"\W", "", name.partition("-python")[0].lower())


def words(call):
    """Return the words of a call, without its modules."""
    return {*re.findall(r"\b\w{4,}\b(?!\.)", call.lower())}


def test_the_record_is_written_as_it_is_read(record, tmp_path):
    copy = tmp_path / "record.json"
    record.save({}, record.load(), copy)
    assert copy.read_text("utf-8") == record.PATH.read_text("utf-8")
    # A run replaces its libraries, whatever their version.
    record.save(record.load(copy), {"storage/zarr 99": {"f": {"cpu": "same"}}}, copy)
    assert {x: y for x, y in record.load(copy).items() if "zarr" in x} == {"storage/zarr 99": {}}
    assert len(record.load(copy)) == len(record.load())


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        ("same", "refused: TypeError: no", True),
        ("refused: TypeError: no", "unclear error: TypeError: no", True),
        ("unclear error: TypeError: no", "wrong value: differs by up to 1", True),
        ("wrong value: differs by up to 1", "lost: x", True),
        ("same", "crash", True),
        ("refused: TypeError: no", "refused: ValueError: neither", False),
        ("lost: x", "same", False),
    ],
)
def test_what_is_worse_than_recorded(record, before, after, worse):
    recorded, now = ({f"t/p {i}": {"f": {"cpu": x}}} for i, x in enumerate((before, after)))
    (change,) = record.compare(recorded, now).items()
    assert change[1] is worse
    assert record.compare(recorded, recorded) == {}


def test_what_needs_a_missing_package_does_not_count(record):
    now = {"t/p 1": {"f": {"cpu": "not tried: No module named 'x'"}, "g": {"cpu": "same"}}}
    assert record.compare({}, now) == {}
    assert "1 calls" in record.totals(now, "cpu")


@pytest.mark.long
def test_no_call_got_worse():
    # This needs other processes: SciPy and scikit-learn read their settings once.
    source = Path(syncblob.__file__).parents[1]
    paths = [str(source), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "conformance.consumers"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- the harness ----------------------------------------------------------------------------------


def outcome_of(running, text, device="simulated", **names):
    """Make a call on an array and return its outcome."""
    from conformance.consumers.table import Call, Library

    array = np.arange(6.0).reshape(2, 3)
    call = Call(text, compile(text, "test", "eval"), {"x": array})
    return running.outcome_of(call, Library("test", "1", {"np": np, **names}), device)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32", "complex128"])
@pytest.mark.parametrize("device", DEVICES)
def test_the_other_side_of_an_input_holds_rubbish(running, dtype, device):
    array = (np.arange(6) % 2).reshape(2, 3).astype(dtype)
    blob = running.blob_with_rubbish(array, device)
    right, wrong = [Side.HOST, Side.ACCELERATOR][:: 1 if device == "cpu" else -1]
    assert blob.device == syncblob.Device(device)
    assert blob.memory.buffer(right).tobytes() == array.tobytes()
    assert not np.any(blob.memory.buffer(wrong).view(dtype) == array.ravel())
    np.testing.assert_array_equal(np.asarray(blob), array)


def raises(error):
    def function(x):
        if isinstance(x, Blob):
            raise error

    return function


def write_const(x):
    """Write through a read-only array, as some C functions do."""
    array = np.asarray(x)
    ctypes.c_double.from_address(array.__array_interface__["data"][0]).value = 7


@pytest.mark.parametrize(
    ("text", "names", "kind"),
    [
        ("x.sum()", {}, "same"),
        ("x.__setitem__(0, 7)", {}, "same"),
        ("np.asarray(x) + 1", {}, "same"),
        ("f(x)", {"f": lambda x: 0 if isinstance(x, Blob) else 1}, "wrong value"),
        (
            "f(x)",
            {"f": lambda x: np.float32(x.sum()) if isinstance(x, Blob) else x.sum()},
            "wrong value",
        ),
        ("f(x)", {"f": lambda x: x.fill(1) if isinstance(x, Blob) else None}, "wrong value"),
        ("f(x)", {"f": lambda x: np.array(x) if isinstance(x, Blob) else x.sort()}, "wrong value"),
        ("f(x)", {"f": lambda x: None if isinstance(x, Blob) else x.fill(1)}, "lost"),
        ("f(x)", {"f": write_const}, "lost"),
        ("f(x)", {"f": raises(TypeError("expected an ndarray, got Blob"))}, "refused"),
        ("f(x)", {"f": raises(TypeError("invalid"))}, "unclear error"),
        (
            "f(x)",
            {"f": raises(AttributeError("'Blob' object has no attribute 'a'"))},
            "unclear error",
        ),
        ("x.nothing", {}, "not with ndarrays"),
        ("__import__('not_installed', x)", {}, "not tried"),
    ],
)
def test_the_outcome_of_a_call(record, running, text, names, kind):
    assert record.kind_of(outcome_of(running, text, **names)) == kind


def test_a_table_has_calls_and_what_prepares_them(tmp_path, monkeypatch):
    from conformance.consumers import table

    monkeypatch.setattr(table, "FOLDER", tmp_path)
    (tmp_path / "some.py").write_text(
        "import numpy as np\nX = np.arange(3)\n\n\ndef numpy():\n    Y = np.sort(X)\n    Y.sum()\n"
        "    np.seterr()\n    X[0] = 1\n    Y += 1\n\n\ndef not_installed():\n    X.sum()\n"
    )
    (library,) = table.load("some", [])
    assert [call.name for call in library.calls] == ["Y.sum()", "X[0] = 1", "Y += 1"]
    assert (library.name, library.version) == ("numpy", np.__version__)
    assert table.libraries_of("some") == ["numpy", "not-installed"]
    assert list(table.load("some", ["not-installed"])) == []


def test_a_call_that_ends_the_process_is_a_crash_and_the_others_go_on(monkeypatch):
    from conformance.consumers import __main__ as main

    written = iter(
        [
            (-11, [["l", "f", "cpu", "1"], ["l", "f", "cpu", "1", "same"], ["l", "g", "cpu", "1"]]),
            (0, [["l", "h", "cpu", "1"], ["l", "h", "cpu", "1", "refused: E: x"]]),
        ]
    )

    def run(command, **_):
        code, lines = next(written)
        with Path(command[4]).open("a") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(main.subprocess, "run", run)
    found = main.try_consumers(["t"], [])
    assert found["t/l 1"] == {
        "f": {"cpu": "same"},
        "g": {"cpu": "crash"},
        "h": {"cpu": "refused: E: x"},
    }


def test_a_run_leaves_out_the_calls_that_its_file_has(running, monkeypatch, tmp_path):
    from conformance.consumers import table

    monkeypatch.setattr(table, "FOLDER", tmp_path)
    (tmp_path / "some.py").write_text(
        "import numpy as np\nX = np.arange(3)\n\n\ndef numpy():\n    X.sum()\n    X.max()\n"
    )
    path = tmp_path / "outcomes"
    path.write_text('["numpy", "X.sum()", "cpu", "1"]\n')
    running.run("some", path, [])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line[1:3] for line in lines if line[4:] == ["same"]] == [
        ["X.max()", "cpu"],
        ["X.sum()", "simulated"],
        ["X.max()", "simulated"],
    ]
