"""The aliases of the tour: what it shows of them, and with which libraries."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import syncblob
from syncblob import Blob, Head
from syncblob.cli import _walk
from syncblob.cli._steps import STEPS, Library
from syncblob.cli._walk import walk

pytestmark = pytest.mark.usefixtures("no_cuda")


@pytest.fixture
def torch():
    """Skip the test where there is no torch."""
    return pytest.importorskip("torch")


@pytest.fixture
def chapter(torch, tour_json):
    """Return the steps of the chapter."""
    assert torch
    return [s for s in tour_json()["steps"] if s["chapter"] == "An alias stays coherent"]


def blob_of(values):
    with syncblob.use_device("simulated"):
        return Blob.from_source(
            (len(values),), "float32", np.array(values, "f4").view(np.uint8).copy
        )


def test_where_aliases_are_alive(chapter, tour_json):
    assert [step["aliased"] for step in chapter] == [["accelerator"]] * 4 + [[], [], []]
    found = {step["step"]: step["aliased"] for step in tour_json()["steps"] if step["aliased"]}
    assert list(found) == [8, 9, 10, 11, 16, 17]
    assert found[16] == found[17] == ["host"]


def test_reasons(chapter):
    assert [step["why"] for step in chapter] == [
        "newest already there",
        "an alias may write",
        "through the alias",
        "an alias may write",
        "the alias is gone",
        "newest on accelerator",
        "newest already there",
    ]


def test_what_is_shown(torch, run):
    assert torch
    text = re.sub("0x[0-9a-f]+ *", "ADDRESS ", run("tour").out)
    assert (
        """
 9  weights = np.asarray(blob)                                      HEAD_AT_GPU
    host ADDRESS download 1.5 MiB: an alias may write
10  tensor.mul_(2)                                                  HEAD_AT_GPU
    alias on the accelerator      nothing moved: through the alias
11  weights = np.asarray(blob)                                      HEAD_AT_GPU
    host ADDRESS download 1.5 MiB: an alias may write
12  del tensor                                                      HEAD_AT_GPU
    no alias                      nothing moved: the alias is gone
13  weights = np.asarray(blob)                                           SYNCED
"""
        in text
    )


def test_what_the_alias_writes_is_in_the_array_that_numpy_got(torch, monkeypatch):
    got = []
    real = _walk._values

    def values(array):
        if isinstance(array, np.ndarray):
            got.append(array.copy())
        return real(array)

    monkeypatch.setattr(_walk, "_values", values)
    libraries = {Library.TORCH: torch, Library.TORCH_ON_ACCELERATOR: torch}
    for outcome in walk(blob_of([1]), libraries):
        seen = [array.item() for array in got]
        if outcome.step.title == "NumPy sees it":
            assert outcome.after.data is Head.HEAD_AT_GPU
            # The array that NumPy got, and what the accelerator has under an older name.
            assert seen == [1.0, 1.0]
        elif outcome.step.title == "NumPy reads" and outcome.after.data is Head.HEAD_AT_GPU:
            assert seen == [0.5, 0.5]
        got.clear()


@pytest.mark.parametrize(
    "names", ["", "cupy", "torch", "torch accelerator", "cupy torch", "cupy torch accelerator"]
)
def test_every_choice_of_libraries(names):
    libraries = {}
    if "cupy" in names:
        # On memory that NumPy can reach, it takes the place of CuPy.
        libraries[Library.CUPY] = SimpleNamespace(asarray=np.asarray)
    if "torch" in names:
        libraries[Library.TORCH] = pytest.importorskip("torch")
    if "accelerator" in names:
        libraries[Library.TORCH_ON_ACCELERATOR] = libraries[Library.TORCH]
    blob = blob_of([0, 1, 2])
    outcomes = list(walk(blob, libraries))
    assert [problem for outcome in outcomes for problem in outcome.problems] == []
    assert {outcome.step.needs for outcome in outcomes} == {None, *libraries}
    assert [outcome.number for outcome in outcomes] == list(range(1, len(outcomes) + 1))
    assert not blob.memory.aliased


def test_it_notices_an_alias_that_does_not_go(torch, tour_json, monkeypatch):
    kept = []
    real = torch.from_dlpack

    def from_dlpack(lender):
        kept.append(real(lender))
        return kept[-1]

    monkeypatch.setattr(torch, "from_dlpack", from_dlpack)
    # It is not told to the end: the first access that leaves the alias behind warns, and ends it.
    steps = tour_json(status=1)["steps"]
    first = next(step for step in steps if step["problems"])
    assert first["title"] == "torch lets go"
    assert first["problems"] == ["expected aliases on neither side, got accelerator"]
    assert steps[-1]["title"] == "NumPy writes"
    assert steps[-1]["problems"][0].startswith("StaleAliasWarning: mutable_cpu_data leaves behind")


def test_variables_live_from_step_to_step():
    walker = _walk._Walker(blob_of([1]), {})
    first = STEPS[0]
    outcome, _ = walker.take(1, first)
    assert [taken.name for taken in outcome.taken] == ["weights"]
    # Bound again to the same array.
    again = replace(first, code="weights = weights")
    outcome, _ = walker.take(2, again)
    assert [taken.name for taken in outcome.taken] == ["weights"]
    nothing = replace(first, code="weights.sum()", place=None)
    outcome, _ = walker.take(3, nothing)
    assert outcome.taken == ()
    gone = replace(first, code="del weights", place=None)
    outcome, _ = walker.take(4, gone)
    assert outcome.problems == []
    outcome, goes_on = walker.take(5, nothing)
    assert outcome.problems == ["NameError: name 'weights' is not defined"]
    assert not goes_on
