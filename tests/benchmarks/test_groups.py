"""Every group runs once, with small sizes, and gives rows that can be printed and saved."""

import json
import math

import numpy as np
import pytest
import tiers

import syncblob
from benchmarks import ordinary
from benchmarks.__main__ import GROUPS, main
from benchmarks.calls import as_blob, function, traced
from benchmarks.results import Results
from benchmarks.tables import as_markdown
from benchmarks.timing import Timer

SHORT = {"interop": "time, and rivals", "transfers": "bytes"}


@pytest.fixture(scope="module", params=tiers.representatives(sorted(GROUPS), SHORT))
def measured(request):
    name = request.param
    return name, GROUPS[name](Timer(brief=True))


def test_a_group_finds_something_and_no_two_rows_say_the_same(measured):
    _, found = measured
    assert found.rows
    assert all(math.isfinite(row.value) for row in found.rows)
    assert all((row.rival == "") == (row.rival_value is None) for row in found.rows)
    names = [(row.section, row.ours, row.rival, row.cell) for row in found.rows]
    assert len(set(names)) == len(names)


def test_a_group_can_be_printed_and_kept(measured, tmp_path):
    name, found = measured
    text = as_markdown(found.rows)
    assert all(f"`{row.ours}`" in text for row in found.rows)
    path = tmp_path / "results.json"
    results = Results.of_this_machine({name: found})
    results.write(path)
    again = Results.read(path)
    assert as_markdown(again.groups[name].rows) == text
    assert (again.groups[name].notes, again.machine) == (found.notes, results.machine)


@pytest.mark.parametrize("device", ordinary.DEVICES.values())
def test_ordinary_calls_give_for_blobs_what_they_give_for_ndarrays(device):
    torch = pytest.importorskip("torch")

    def outcome(text, names):
        """Return the results of a call, and the arrays that it may have written."""
        result = function(text, names)()
        results = result if isinstance(result, (tuple, list)) else (result,)
        written = names["x"], names["z"]
        return [np.asarray(each) for each in (*results, *written) if each is not None]

    for text in (*ordinary.CALLS, *ordinary.OTHER_CALLS):
        blobs = ordinary.operands(lambda x: as_blob(x, device), torch, namespace=syncblob)
        expected = outcome(text, ordinary.operands(np.copy, torch))
        for found, wanted in zip(outcome(text, blobs), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=text)


# --- the command line -----------------------------------------------------------------------------


def test_the_command_line_prints_and_writes(tmp_path, capsys):
    path = tmp_path / "new" / "results.json"
    main(["transfers", "interop", "--brief", "--json", str(path)])
    assert "`ndarray[:]`" in capsys.readouterr().out
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert list(kept["groups"]) == ["transfers", "interop"]
    assert kept["machine"]["cores"] >= 1
    assert kept["versions"]["numpy"] == np.__version__


def test_an_unknown_group_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["interop", "intreop"])
    assert "intreop" in capsys.readouterr().err


def test_memory_that_is_taken_is_seen():
    kept, peak = traced(lambda: np.ones(1 << 20, np.uint8).sum() and np.ones(1 << 16, np.uint8))
    assert 1 << 16 <= kept < 1 << 17
    assert 1 << 20 <= peak < 1 << 21
