"""Every group runs once, with small sizes, and gives rows that can be printed and saved."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tiers

from benchmarks.__main__ import main
from benchmarks.groups import GROUPS
from benchmarks.memory import BlobNet, PairNet, data_bytes
from benchmarks.own_process import can_measure_memory, growth, in_own_process
from benchmarks.results import Results
from benchmarks.tables import as_markdown, as_text
from benchmarks.timing import Timer

if TYPE_CHECKING:
    from benchmarks.rows import Measured


SHORT = {"array_api": "time, and rivals", "transfers": "bytes", "states": "a matrix"}


@pytest.fixture(scope="module", params=tiers.representatives(sorted(GROUPS), SHORT))
def measured(request: pytest.FixtureRequest) -> tuple[str, Measured]:
    name: str = request.param
    return name, GROUPS[name](Timer(brief=True))


def test_a_group_finds_something(measured):
    _, found = measured
    assert found.rows
    assert all(math.isfinite(row.value) for row in found.rows)
    assert all((row.rival == "") == (row.rival_value is None) for row in found.rows)


def test_no_two_rows_say_the_same(measured):
    _, found = measured
    names = [(row.section, row.ours, row.rival, row.cell) for row in found.rows]
    assert len(set(names)) == len(names)


def test_a_group_can_be_printed(measured):
    name, found = measured
    text, markdown = as_text(name, found), as_markdown(found.rows)
    for row in found.rows:
        assert row.ours in text
        assert row.rival in text
        assert f"`{row.ours}`" in markdown


def test_a_group_can_be_kept(measured, tmp_path):
    name, found = measured
    path = tmp_path / "results.json"
    results = Results.of_this_machine({name: found})
    results.write(path)
    assert Results.read(path) == results


# --- the command line -----------------------------------------------------------------------------


def test_the_command_line_prints_and_writes(tmp_path, capsys):
    path = tmp_path / "new" / "results.json"
    main(["aliases", "interop", "--brief", "--json", str(path)])
    printed = capsys.readouterr().out
    assert "ndarray[:]" in printed
    assert "not tracked" in printed
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert list(kept["groups"]) == ["aliases", "interop"]
    assert kept["machine"]["cores"] >= 1
    assert kept["versions"]["numpy"] == np.__version__


def test_an_unknown_group_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["interop", "intreop"])
    assert "got intreop" in capsys.readouterr().err


# --- memory ---------------------------------------------------------------------------------------


def test_a_net_that_runs_forwards_makes_no_diff():
    net = BlobNet(2, 16, 4)
    net.forward()
    for blob in [*net.weights, *net.activations]:
        assert "not created" in str(blob.explain())


def test_nets_compute_the_same():
    ours, theirs = BlobNet(2, 16, 4), PairNet(2, 16, 4)
    ours.forward()
    theirs.forward()
    assert np.array_equal(ours.activations[-1], theirs.activations[-1][0])
    kept = sum(blob.nbytes for blob in [*ours.weights, *ours.activations])
    assert kept == data_bytes(2, 16, 4)


@pytest.mark.skipif(not can_measure_memory(), reason="memory is measured on Linux only")
def test_growth_sees_what_is_taken():
    # More than an allocator can reuse from freed memory.
    found = growth(lambda: np.ones(1 << 26, np.uint8))
    assert found.peak >= found.resident > 1 << 25


def test_a_function_runs_in_its_own_process():
    assert in_own_process(data_bytes, 1, 10, 2) == 4 * (100 + 2 * 2 * 10)
