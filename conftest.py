"""Collects the Python blocks of README.md and docs/: every one of them is executed as a test.

Each document is one session, run from top to bottom in a folder that has the two files which the
examples open: ``lenet.caffemodel`` and ``mean.binaryproto``. What an example shows as its result is
compared with what it gives. A document that imports CuPy needs a GPU and is skipped without one; a
block that is not to be run has a comment before it, ``<!-- skip: next "the reason" -->``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import tempfile
from doctest import ELLIPSIS
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sybil import Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

import syncblob
from syncblob.caffe.commands.tour import write_lenet
from syncblob.devices import cuda

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sybil import Document, Example, Region

# Packages that some documents need, and that need not be installed.
_MISSING = frozenset(
    name for name in ("dask", "mpi4py", "torch") if importlib.util.find_spec(name) is None
)
_IMPORTS = re.compile(r"^>>> (?:import|from)\b(.*)", re.MULTILINE)


class _ExampleParser(PythonCodeBlockParser):
    """The blocks of a document; all are skipped where a package that it needs is missing."""

    def __call__(self, document: Document) -> Iterable[Region]:
        missing = _MISSING & _imported(document)
        for region in super().__call__(document):
            if missing:
                region.evaluator = _skip
            yield region


def _imported(document: Document) -> set[str]:
    """Return the names in the import statements of a document."""
    return {*re.findall(r"\w+", " ".join(_IMPORTS.findall(document.text)))}


def _skip(_example: Example) -> None:
    pytest.skip("this document needs a package that is not installed")


def _enter_folder_of_examples(namespace: dict[str, Any]) -> None:
    """Go to a new folder with the files that the documents open."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_lenet(folder / "lenet.caffemodel")
        mean = syncblob.asarray(np.full((1, 3, 4, 4), 128, dtype=np.float32))
        (folder / "mean.binaryproto").write_bytes(mean.to_proto().SerializeToString())
        stack.enter_context(contextlib.chdir(folder))
        stack.callback(syncblob.set_default_device, syncblob.default_device())
        namespace["_leave_folder"] = stack.pop_all().close


pytest_collect_file = Sybil(
    parsers=[_ExampleParser(doctest_optionflags=ELLIPSIS), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/reference/*.md"],
    setup=_enter_folder_of_examples,
    teardown=lambda namespace: namespace["_leave_folder"](),
).pytest()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the blocks of documents that import CuPy as tests that need a GPU."""
    if isinstance(item, SybilItem) and "cupy" in _imported(item.example.document):
        item.add_marker(pytest.mark.gpu)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or fail if asked to, what needs a GPU and has none; of tests, their conftest does."""
    if isinstance(item, SybilItem) and item.get_closest_marker("gpu") and not cuda.device_count():
        required = item.config.getoption("--require-gpu", default=False)
        (pytest.fail if required else pytest.skip)("needs a CUDA device")
