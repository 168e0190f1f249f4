"""Docstrings: their examples run, and the reference pages show every public name."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import syncblob

# Generated code, and the command line, whose docstrings are for its own developers.
NOT_RUN = ("syncblob.caffe._pb", "syncblob.cli")

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(syncblob.__path__, "syncblob.")
    if not module.name.startswith(NOT_RUN)
)

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"


def shown_on_reference_pages() -> set[str]:
    """Names that an ``autoclass`` and its like put on a page, or an ``automodule`` all at once."""
    shown = set()
    for page in REFERENCE.glob("*.md"):
        module = None
        for line in page.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"\.\. (currentmodule|auto\w+):: ([\w.]+)", line):
                directive, name = match.groups()
                if directive == "currentmodule":
                    module = name
                elif directive == "automodule":
                    shown |= {name.rpartition(".")[2], *importlib.import_module(name).__all__}
                elif module == "syncblob":
                    shown.add(name)
    return shown


@pytest.mark.parametrize("name", ["syncblob", *MODULES])
def test_examples_run(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("syncblob"):
            raise
        pytest.skip(f"needs {error.name}")
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for test in finder.find(syncblob.Blob) if test.examples]
    assert found


def test_the_reference_shows_every_public_name() -> None:
    hidden = set(syncblob.__all__) - shown_on_reference_pages()
    assert hidden == {"__array_api_version__"}  # a string


def test_the_reference_shows_every_public_member_of_blob() -> None:
    public = {
        f"Blob.{name}"
        for name, _ in inspect.getmembers_static(syncblob.Blob)
        if not name.startswith("_")
    }
    assert public - shown_on_reference_pages() == set()
