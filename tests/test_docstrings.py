"""Docstrings: their examples run, and the reference pages show every public name."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import syncblob
from syncblob.blob.missing import OF_BLOB

# Generated code, and the command line, whose docstrings are for its own developers.
NOT_RUN = ("syncblob.caffe._pb", "syncblob.caffe.commands")

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(syncblob.__path__, "syncblob.")
    if not module.name.startswith(NOT_RUN)
)

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"


# Modules with public names; linalg and fft are syncblob.linalg and syncblob.fft.
PUBLIC = [
    "syncblob",
    "syncblob.array_api.linalg",
    "syncblob.array_api.fft",
    "syncblob.caffe",
    "syncblob.caffe.convert",
    "syncblob.integrations.ndarrays",
    "syncblob.integrations.torch",
    "syncblob.integrations.torch_data",
]

# A directive: its kind, its argument, and the lines that follow.
DIRECTIVE = re.compile(
    r"^\.\. (currentmodule|auto\w+|py:\w+):: ([\w.]+)((?:\n +\S.*)*)", re.MULTILINE
)


def shown_on_reference_pages():
    """Return the full names on the reference pages, with a * for all public names of a module."""
    shown = set()
    for page in REFERENCE.glob("*.md"):
        module = ""
        for directive, name, lines in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            if directive == "currentmodule":
                module = name
            elif directive == "automodule":
                shown |= {f"{name}.*"} if ":members:" in lines else set()
            elif directive != "autosummary":
                more = re.findall(r"^ +(\w+)$", lines, re.MULTILINE)
                shown |= {name, *(f"{module}.{one}" for one in [name, *more])}
    return shown


def imported(name):
    """Import one of our modules; skip the test if it needs a library that is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("syncblob"):
            raise
        pytest.skip(f"needs {error.name}")


@pytest.mark.parametrize("name", ["syncblob", *MODULES])
def test_examples_run(name):
    failed, _ = doctest.testmod(imported(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_the_reference_shows_every_public_name(name):
    shown = shown_on_reference_pages()
    if f"{name}.*" not in shown:
        modules = {"linalg", "fft"}  # they are in PUBLIC themselves
        names = {*imported(name).__all__} - modules
        if name == "syncblob.caffe":
            names -= {*syncblob.__all__}  # shown under the shorter name
        assert {f"{name}.{one}" for one in names} - shown == set()


def test_the_reference_shows_every_public_member_of_blob():
    names = {name for name in dir(syncblob.Blob) if not name.startswith("_")}
    # Some only raise an AttributeError that says what to use instead.
    public = {f"syncblob.Blob.{name}" for name in names - OF_BLOB.keys()}
    assert public - shown_on_reference_pages() == set()


def test_every_public_member_of_a_class_is_described():
    """It has a docstring, which the reference shows, or the docstring of its class names it."""
    undescribed = [
        f"{value.__name__}.{name}"
        for value in (getattr(syncblob, name) for name in syncblob.__all__)
        if isinstance(value, type) and value.__module__.startswith("syncblob")
        for owner in value.__mro__
        if owner.__module__.startswith("syncblob")
        for name, member in vars(owner).items()
        if not name.startswith("_")
        and not inspect.getdoc(member)
        and not re.search(rf"\b{name}\b", inspect.getdoc(value) or "")
    ]
    assert undescribed == []
