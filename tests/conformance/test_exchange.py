"""The measurement of what other libraries do with a Blob, its results, and their pages."""

import itertools
import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import conformance.exchange.__main__ as driver
from conformance.exchange import page
from conformance.exchange.cells import DTYPES, FORMS, LAYOUTS, STATES, Given, array_in
from conformance.exchange.measure import Adapter, recorded_protocols
from conformance.exchange.results import NEGATIVE, faults, outcome, results_of
from syncblob import Blob
from syncblob._source_lines import _LIBRARIES

LIBRARIES = page.libraries()


# --- what is published ---------------------------------------------------------------------------


def test_the_page_is_made_of_the_results():
    text = page.TABLE.read_text("utf-8")
    assert page.table_page(page.results(), text) == text


def test_the_results_are_those_of_many_libraries_and_small():
    texts = {name: (page.RESULTS / f"{name}.json").read_text("utf-8") for name in LIBRARIES}
    assert {path.stem for path in page.RESULTS.glob("*.json")} == {*LIBRARIES}
    assert len(LIBRARIES) >= 30
    assert sum(map(len, texts.values())) < 300_000
    for name, text in texts.items():
        assert text == page.as_json(json.loads(text)), name


def test_what_an_ndarray_gets_and_a_blob_does_not_has_a_reason():
    assert page.without_reason() == []


def test_a_write_that_an_export_allows_reaches_the_blob_in_each_library():
    for name, each in page.results().items():
        for call, rows in each["given"].items():
            lost = [row for row in rows if "write=is lost" in row[0] and "values=" not in row[0]]
            assert lost == [], f"{name}: {call}"


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_adapter_is_short_and_pins_what_it_requires(name):
    source = (page.ADAPTERS / f"{name}.py").read_text("utf-8")
    about = page.about(name)
    assert len(source.splitlines()) <= 40
    assert all("==" in required for required in about["REQUIRES"])
    assert about["NAME"]
    assert "GROUP" in about


def test_the_libraries_that_ignore_read_only_are_no_code_of_the_user():
    """So that `verified_const` names them."""
    careless = {name for name, x in page.results().items() if "ignores that" in json.dumps(x)}
    assert {"paddle", "taichi", "torch", "warp"} <= careless <= _LIBRARIES


# --- measuring -----------------------------------------------------------------------------------


def adapter(**names):
    """Make an adapter of names in place of a module."""
    made = Adapter("numpy")
    made.module = SimpleNamespace(np=np, **names)
    made.takes = names["TAKES"]
    made.one_axis = []
    made.write = names.get("write")
    return made


def last(measured):
    *_, found = measured
    return found


NUMPY = [
    ("np.asarray(b)", "float32", "C", "device", "writable"),
    ("np.asarray(b)", "bfloat16", "reversed", "host", "const"),
    ("np.array(b)", "bool", "steps", "aliased", "writable"),
    ("np.from_dlpack(b)", "int8", "0-d", "device", "writable"),
    ("np.from_dlpack(b)", "complex128", "at 16 bytes", "aliased", "writable"),
    ("np.from_dlpack(b)", "float64", "broadcast", "synced", "writable"),
    ("np.from_dlpack(b)", "uint16", "reversed", "host", "writable"),
    ("np.from_dlpack(b)", "float16", "size 0", "host", "const"),
]


@pytest.mark.parametrize("cell", NUMPY, ids=" ".join)
def test_numpy_does_what_the_results_say(cell):
    call, *axes = cell
    rows = page.results()["numpy"]["given"][call]
    found = outcome(last(Adapter("numpy").measure(("given", *cell))))
    published = "; ".join(f"{key}={x}" for key, x in page.outcome_at(rows, *axes).items())
    assert found == published


@pytest.mark.long
@pytest.mark.parametrize("name", LIBRARIES)
def test_an_installed_library_does_what_the_results_say(name):
    for required in page.about(name)["REQUIRES"]:
        package, _, wanted = required.partition("==")
        try:
            found = version(package.partition("[")[0])
        except PackageNotFoundError:
            pytest.skip(f"{package} is not installed")
        if not found.startswith(wanted):
            pytest.skip(f"{package} {found} is installed, and {wanted} was measured")
    measured = json.loads(page.as_json(driver.measured(name, Path(sys.executable))))
    published = page.results()[name]
    assert {**measured, "versions": None} == {**published, "versions": None}


class Taken:
    """What a library that is not careful makes of an ndarray: it writes whatever the flags say."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array

    def fill(self):
        flat = self.array.__array_interface__["data"][0]
        np.ctypeslib.ctypes.memset(flat, 1, self.array.nbytes)


def test_a_write_into_const_memory_is_told_from_one_that_reaches_the_blob():
    careless = adapter(TAKES=["Taken(np.asarray(b))"], Taken=Taken, write=Taken.fill)
    found = last(careless.measure(("given", *careless.takes, "int8", "C", "device", "writable")))
    assert found["write"] == "ignores that it is read-only"
    assert (found["memory"], found["by"], found["moves"]) == (
        "shared",
        "`__array__()` const",
        "1 download",
    )
    careless.takes = ["Taken(np.asarray(b.cpu))"]
    found = last(careless.measure(("given", *careless.takes, "int8", "C", "device", "writable")))
    assert (found["write"], found["by"]) == ("reaches the Blob", "`__array__()`")


def test_a_write_that_the_blob_does_not_see_is_lost():
    """A library that writes behind the back of the Blob, into the side that is not the newest."""
    stale = adapter(
        TAKES=["stale(b)"], stale=lambda b: Taken(b.memory.buffer(0).view("i1")), write=Taken.fill
    )
    found = last(stale.measure(("given", "stale(b)", "int8", "C", "synced", "writable")))
    assert found["write"] == "is lost"


def test_other_elements_and_other_dtypes_are_found():
    wrong = adapter(TAKES=["np.asarray(b)[::-1]", "np.asarray(b, 'f8')"])
    found = [
        last(wrong.measure(("given", text, "float32", "C", "host", "const")))
        for text in wrong.takes
    ]
    assert found[0]["values"] == "wrong"
    assert (found[1]["values"], found[1]["dtype"]) == ("right", "float64")


def test_the_protocols_are_recorded_from_outside_only():
    calls = []
    blob = Blob(3, device="simulated")
    with recorded_protocols(calls):
        np.from_dlpack(blob.const, copy=True)
        blob.to_numpy()
        np.asarray(blob.cpu)
        np.add(blob, 1)
        hasattr(blob, "__cuda_array_interface__")
    assert calls == [
        "`__dlpack__(copy=True, max_version=(1, 0))`",
        "`to_numpy`",
        "`__array__()`",
        "`__array_ufunc__`",
    ]
    assert "recorded" not in Blob.__array__.__qualname__


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_given_blob_is_an_ndarray_of_that_layout(layout, state):
    for dtype, form in itertools.product(DTYPES, FORMS):
        blob = Given((3, 4), dtype, layout, state, form).blob
        array = array_in((3, 4), dtype, layout, writable=True)
        assert (blob.shape, blob.strides, blob.dtype) == (array.shape, array.strides, array.dtype)
        assert blob.flags.writeable == (form == "writable" and array.flags.writeable)
        address = {"at 16 bytes": 16}.get(layout, 0)
        if layout in {"C", "at 16 bytes", "at 64 bytes"}:
            assert array.ctypes.data % 64 == np.asarray(blob).ctypes.data % 64 == address
        np.testing.assert_array_equal(np.asarray(blob), array)


# --- what is our fault ---------------------------------------------------------------------------

RIGHT = {
    f"numpy {key} {writable}": value
    for key, value in (("values", "right"), ("memory", "shared"))
    for writable in (True, False)
}
SHARED = {"values": "right", "memory": "shared", **RIGHT}
C = ("given", "take(b)", "int8", "C", "host", "writable")


@pytest.mark.parametrize(
    ("cell", "found", "expected"),
    [
        (C, SHARED, []),
        (C, SHARED | {"memory": "copied"}, ["copied, and an ndarray is shared"]),
        (C, SHARED | {"memory": "copied", "numpy memory False": "copied"}, []),
        (C, SHARED | {"values": "wrong"}, ["other values than an ndarray's"]),
        (C, SHARED | {"dtype": "float64"}, ["another dtype than an ndarray's"]),
        (C, SHARED | {"dtype": "float64", "numpy dtype True": "float64"}, []),
        (C, SHARED | {"shape": "1 axes"}, ["another shape than an ndarray's"]),
        (C, SHARED | {"write": "is lost"}, ["a write is lost"]),
        (C, SHARED | {"write": "ignores that it is read-only"}, []),
        (C, SHARED | {"again": "yes"}, ["transferred twice"]),
        (C, {"raises": "theirs E: x", **RIGHT}, ["refused, and an ndarray is taken"]),
        (C, {"raises": "theirs E: x", **RIGHT, "numpy values False": None}, []),
        (
            ("given", "take(b)", "int8", "reversed", "host", "writable"),
            {"raises": "ours BufferError: x", **RIGHT},
            [NEGATIVE],
        ),
        (
            ("operator", "x + b", "int8", "host"),
            {"raises": "theirs E: x", "numpy values True": "right"},
            ["refused, and an ndarray is taken"],
        ),
    ],
)
def test_our_faults_are_what_an_ndarray_gets_and_a_blob_does_not(cell, found, expected):
    assert faults(cell, found) == expected


# --- processes that end --------------------------------------------------------------------------


def test_a_call_that_ends_the_process_is_named_without_its_cells(monkeypatch):
    """The process is started again behind the cell, and cells like it are left out."""
    layouts = ["C", "steps", "reversed"]
    cells = [("given", "take(b)", "float32", x, "host", "writable") for x in layouts]
    cells += [("given", "copy(b)", "float32", x, "host", "writable") for x in layouts]
    starts = []

    def lines(_name, _python, done, skipped):
        starts.append((done, list(skipped)))
        yield {"cells": len(cells), "versions": {"x": "1"}}
        for index, cell in enumerate(cells[done:], done):
            yield {"begins": index, "cell": list(cell)}
            if cell[1] == "take(b)" and cell[3] == "steps":
                return
            yield {"found": dict(SHARED)}
            if cell[1] == "copy(b)" and cell[3] == "reversed" and not skipped[1:]:
                return
        yield {"ends": True}

    monkeypatch.setattr(driver, "_lines", lines)
    found = driver.measured("numpy", Path("python"))
    steps, halfway = ("take(b)", "steps", 0), ("copy(b)", "reversed", 1)
    assert starts == [(0, []), (2, [steps]), (6, [steps, halfway])]
    assert found["ends the process"] == ["take(b)"]
    # Of that call, only the simplest cell is left; of the other one, all.
    assert found["given"]["take(b)"] == [("memory=shared", "*", "*", "*", "*")]
    assert found["given"]["copy(b)"] == [("memory=shared", "*", "*", "*", "*")]
    assert found["cells"] == 4


def test_a_library_that_cannot_be_imported_is_not_measured(monkeypatch):
    monkeypatch.setattr(driver, "_lines", lambda *_: iter(()))
    with pytest.raises(driver.NotMeasuredError, match="before the first cell"):
        driver.measured("numpy", Path("python"))


def test_results_have_a_short_message_for_each_error():
    cells = {
        (*C[:2], dtype, *C[3:]): {"raises": f"theirs TypeError: no {dtype}"} for dtype in DTYPES
    }
    found = results_of(cells, (), {})
    assert found["messages"] == {"take(b): theirs TypeError": "no bool"}
    assert found["given"] == {"take(b)": [("raises=theirs TypeError", "*", "*", "*", "*")]}
