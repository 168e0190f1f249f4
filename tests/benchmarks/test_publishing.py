"""Rows, tables, files of results, and the page that shows their figures."""

import json

import pytest

from benchmarks import __main__ as benchmarks_command
from benchmarks.__main__ import GROUPS
from benchmarks.publish import PAGES, filled, main, pages, published, shown, taken
from benchmarks.results import Results, merged
from benchmarks.rows import CUT_OFF, Goal, Measured, Row
from benchmarks.timing import Timer

SECONDS = Row("calls", "ours()", 2e-6, "theirs()", 4e-6, goal=Goal(0.6))
AGAIN = Row("calls", "ours()", 2e-6, "others()", 1e-6, goal=Goal(1.5))
ACCESSOR = Row("accessors", "get()", 0.5e-6, "[:]", 0.2e-6, goal=Goal(0.4e-6, "difference"))
SPEED = Row("upload of 1 KiB, more is better", "push", 9e9, "copy", 1e10, "B/s")
ALONE = Row("memory", "open", 5e6, unit="B", goal=Goal(4e6, "value"))
FOUND = Results(
    {
        "interop": Measured([SECONDS, AGAIN, ACCESSOR]),
        "transfers": Measured([SPEED], ["there is no CUDA device"]),
        "files": Measured([ALONE]),
    },
    {"processor": "a processor", "cores": 2, "system": "a system"},
    {"python": "3.14", "numpy": "2.9"},
    "2030-01-02",
)


# --- the page -------------------------------------------------------------------------------------

PLACES = """Before.

<!-- figures: cpu interop: accessors -->
old figures
<!-- end of figures -->

Between.

<!-- figures: cpu transfers -->
<!-- end of figures -->

<!-- figures: cpu machine -->
<!-- end of figures -->

<!-- figures: cuda transfers -->
<!-- end of figures -->
"""


def test_places_are_filled():
    page = filled(PLACES, {"cpu": FOUND})
    assert "old figures" not in page
    assert "`get()`" in page
    assert "`ours()`" not in page
    assert "*There is no CUDA device.*" in page
    assert "Measured on 2030-01-02: a processor, 2 cores, a system; python 3.14" in page
    assert page.count("Not measured yet") == 1
    assert page.startswith("Before.\n")
    assert "\nBetween.\n" in page


@pytest.mark.parametrize("place", ["cpu nothing", "cpu interop: nothing"])
def test_a_place_that_cannot_be_filled_is_an_error(place):
    page = f"<!-- figures: {place} -->\n<!-- end of figures -->"
    with pytest.raises(LookupError, match="nothing"):
        filled(page, {"cpu": FOUND})


def test_the_figures_of_the_documentation_are_those_of_the_results():
    assert filled(pages(), published()) == pages()


def test_results_that_are_kept_are_of_all_groups_that_the_page_shows():
    found = published()
    assert set(found["cpu"].groups) == set(GROUPS) == shown(pages(), "cpu")
    for results in found.values():
        assert set(results.groups) <= set(GROUPS)


# --- results from another machine -----------------------------------------------------------------

GPU = {"processor": "a processor", "cores": 8, "system": "a system", "gpu": "a GPU"}


def brought(tmp_path, name, groups, machine=GPU, when="2030-01-02"):
    """Write results as on a machine with a GPU."""
    path = tmp_path / name
    measured = {group: Measured([SPEED]) for group in groups}
    Results(measured, {"gpu_driver": "1", **machine}, {"numpy": "2.9"}, when).write(path)
    return path


def test_results_of_several_runs_are_taken_together(tmp_path):
    first = brought(tmp_path, "1.json", ["transfers"])
    second = brought(tmp_path, "2.json", ["interop"], when="2030-01-03")
    kind, results = taken([first, second], PLACES.replace("cpu", "cuda"))
    assert (kind, results.when) == ("cuda", "2030-01-03")
    assert set(results.groups) == {"transfers", "interop"}


def test_each_row_is_written_when_it_is_made(tmp_path, monkeypatch):
    path, seen = tmp_path / "results.json", []

    def measure(_):
        for value in (1.0, 2.0):
            row = Row("some", "ours", value)
            seen.append(json.loads(path.read_text())["groups"]["interop"])
        return Measured([row])

    monkeypatch.setitem(GROUPS, "interop", measure)
    benchmarks_command.run(["interop"], Timer(brief=True), path)
    assert [[row["value"] for row in group["rows"]] for group in seen] == [[1.0], [1.0, 2.0]]
    assert all(group["notes"] == [CUT_OFF] for group in seen)
    complete = Results.read(path).groups["interop"]
    assert ([row.value for row in complete.rows], complete.notes) == ([2.0], [])


def test_results_of_two_machines_are_not_merged(tmp_path):
    paths = [
        brought(tmp_path, "1.json", ["transfers"]),
        brought(tmp_path, "2.json", ["interop"], GPU | {"gpu": "another GPU"}),
    ]
    with pytest.raises(ValueError, match="one machine"):
        merged([Results.read(path) for path in paths])


def test_what_is_missing_is_marked_as_not_measured(tmp_path, capsys):
    path = brought(tmp_path, "1.json", ["interop"])
    page = PLACES.replace("cpu", "cuda")
    kind, results = taken([path], page)
    assert "not measured, and marked so: transfers" in capsys.readouterr().out
    results.groups["interop"].notes.append(CUT_OFF)
    text = filled(page.replace("interop: accessors", "interop: late"), {kind: results})
    assert text.count("*Not measured in this run.*") >= 2


def test_results_of_the_model_are_refused(tmp_path, capsys):
    path = brought(tmp_path, "1.json", ["transfers"], GPU | {"model": True})
    with pytest.raises(ValueError, match="no measurements"):
        taken([path], PLACES)
    with pytest.raises(SystemExit):
        main(["--take", str(path)])
    assert PAGES[0].name not in capsys.readouterr().out
    assert "cuda" not in published() or published()["cuda"].machine.get("model") is None
