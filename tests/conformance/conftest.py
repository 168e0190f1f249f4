"""Fixtures shared by the tests of the conformance runner: its package and a small suite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The runner is not part of the installed package.
sys.path.insert(0, str(ROOT))

_INIT = """
import importlib
import os

xp = importlib.import_module(os.environ["ARRAY_API_TESTS_MODULE"])
"""

_CONFTEST = """
import array_api_tests
from hypothesis import settings


def pytest_addoption(parser):
    parser.addoption("--max-examples", type=int)
    parser.addoption("--hypothesis-disable-deadline", action="store_true")
    parser.addoption("--skips-file")
    parser.addoption("--xfails-file")


def pytest_configure(config):
    settings.register_profile("small", max_examples=config.getoption("--max-examples"))
    settings.load_profile("small")
"""

# Special cases like those of the suite: `test_unary` draws with `example()`, `test_binary` draws in
# the test. The draws are written to a file, so that they can be counted.
_TESTS = """
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from array_api_tests import xp
from hypothesis import given, settings
from hypothesis import strategies as st

DRAWN = Path(os.environ["SMALL_SUITE_DRAWN"])


@dataclass
class Case:
    check_result: Any
    cond_from_dtype: Any = lambda dtype: st.integers(0, 9)


def record(*values):
    with DRAWN.open("a") as file:
        print(*values, file=file)
    return True


@pytest.mark.filterwarnings("ignore:The `.example")
@pytest.mark.parametrize("func_name, func, case", [
    pytest.param("exp", None, Case(lambda x, out: record("unary", x)), id="exp(any) -> any"),
])
def test_unary(func_name, func, case):
    value = case.cond_from_dtype(None).example()
    assert case.check_result(value, value)


@pytest.mark.parametrize("func_name, func, case", [
    pytest.param("add", None, Case(lambda *values: record("binary", *values)), id="add(x1, x2)"),
    pytest.param(
        "pow", None, Case(lambda *values: record("listed", *values)),
        id="pow(abs(x1_i) < 1 and x2_i is +infinity) -> +0",
    ),
])
@settings(max_examples=1)
@given(data=st.data())
def test_binary(func_name, func, case, data):
    value = data.draw(case.cond_from_dtype(None))
    assert case.check_result(value, value, value)


@pytest.mark.skip(reason="flaky")
def test_called_flaky():
    assert xp.zeros(2).shape == (2,)


@pytest.mark.skip(reason="no such function")
def test_skipped():
    raise AssertionError
"""


class SmallSuite(NamedTuple):
    """A folder with the layout of the suite, and the values that its special cases drew."""

    folder: Path
    drawn: Path

    def draws(self, test):
        """Return the values that a test has drawn so far, as written."""
        lines = self.drawn.read_text().splitlines()
        return [line for line in lines if line.startswith(test)]


@pytest.fixture
def make_small_suite(tmp_path, monkeypatch):
    """Make a suite."""

    def make():
        folder = tmp_path / "suite"
        tests = folder / "array_api_tests"
        tests.mkdir(parents=True)
        (folder / "array-api" / "src").mkdir(parents=True)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "conftest.py").write_text(_CONFTEST)
        (tests / "__init__.py").write_text(_INIT)
        (tests / "test_special_cases.py").write_text(_TESTS)
        drawn = tmp_path / "drawn"
        drawn.touch()
        monkeypatch.setenv("SMALL_SUITE_DRAWN", str(drawn))
        return SmallSuite(folder, drawn)

    return make


@pytest.fixture
def git(monkeypatch):
    """Let tests run git without the user's settings."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")

    def git(folder, *arguments):
        author = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
        command = ["git", "-C", str(folder), *author, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    return git
