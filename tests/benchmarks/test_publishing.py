"""Rows, tables, files of results, and the page that shows their figures."""

import json

import pytest

from benchmarks import __main__ as benchmarks_command
from benchmarks.__main__ import GROUPS
from benchmarks.publish import PAGES, filled, main, pages, published, shown, taken
from benchmarks.results import Results
from benchmarks.rows import CUT_OFF, Measured, Row
from benchmarks.timing import Timer

SPEED = Row("a GPU's arrays", "push", 9e9, "copy", 1e10, "B/s")


def test_the_figures_of_the_documentation_are_those_of_the_results():
    assert filled(pages(), published()) == pages()


def test_results_that_are_kept_are_of_all_groups_that_the_page_shows():
    found = published()
    assert set(found["cpu"].groups) == set(GROUPS) == shown(pages(), "cpu")
    for results in found.values():
        assert set(results.groups) <= set(GROUPS)


# --- results from another machine -----------------------------------------------------------------

GPU = {"processor": "a processor", "cores": 8, "system": "a system", "gpu": "a GPU"}


def brought(tmp_path, name, groups, machine=GPU):
    """Write results as on a machine with a GPU."""
    path = tmp_path / name
    measured = {group: Measured([SPEED]) for group in groups}
    Results(measured, {"gpu_driver": "1", **machine}, {"numpy": "2.9"}, "2030-01-02").write(path)
    return path


def test_each_row_is_written_when_it_is_made(tmp_path, monkeypatch):
    path, seen = tmp_path / "results.json", []

    def measure(_):
        for value in (1.0, 2.0):
            row = Row("some", "ours", value)
            seen.append(json.loads(path.read_text())["groups"]["interop"])
        return Measured([row])

    monkeypatch.setitem(GROUPS, "interop", measure)
    benchmarks_command.run(["interop"], Timer(brief=True), path)
    rows = [group["sections"]["some"]["ours"] for group in seen]
    assert [[row["value"] for row in each] for each in rows] == [[1.0], [1.0, 2.0]]
    assert all(group["notes"] == [CUT_OFF] for group in seen)
    complete = Results.read(path).groups["interop"]
    assert ([row.value for row in complete.rows], complete.notes) == ([2.0], [])


def test_results_of_several_runs_on_one_machine_are_taken_together(tmp_path, capsys):
    paths = [brought(tmp_path, f"{group}.json", [group]) for group in ("transfers", "interop")]
    kind, results = taken(paths, pages())
    assert (kind, set(results.groups)) == ("cuda", {"transfers", "interop"})
    assert "not measured, and marked so: pipeline, regions" in capsys.readouterr().out
    assert "*Not measured in this run.*" in filled(pages(), {kind: results})
    other = brought(tmp_path, "other.json", ["files"], GPU | {"gpu": "another GPU"})
    with pytest.raises(ValueError, match="one machine"):
        taken([*paths, other], pages())


def test_results_of_the_model_are_refused(tmp_path, capsys):
    path = brought(tmp_path, "1.json", ["transfers"], GPU | {"model": True})
    with pytest.raises(ValueError, match="no measurements"):
        taken([path], pages())
    with pytest.raises(SystemExit):
        main(["--take", str(path)])
    assert PAGES[0].name not in capsys.readouterr().out
    assert "cuda" not in published() or published()["cuda"].machine.get("model") is None
