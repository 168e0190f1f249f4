"""Collects the Python blocks of README.md and docs/: every one of them is executed as a test.

Each document is one session, run from top to bottom in a folder that has the two files which the
examples open: ``lenet.caffemodel`` and ``mean.binaryproto``. What an example shows as its result is
compared with what it gives.
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
from sybil.parsers.myst import PythonCodeBlockParser

import syncblob
from syncblob.cli._lenet import write_lenet

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
        lines = " ".join(_IMPORTS.findall(document.text))
        missing = _MISSING & {*re.findall(r"\w+", lines)}
        for region in super().__call__(document):
            if missing:
                region.evaluator = _skip
            yield region


def _skip(_example: Example) -> None:
    pytest.skip("this document needs a package that is not installed")


def _enter_folder_of_examples(namespace: dict[str, Any]) -> None:
    """Go to a new folder with the files that the documents open."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_lenet(folder / "lenet.caffemodel")
        mean = syncblob.asarray(np.full((3, 4, 4), 128, dtype=np.float32))
        (folder / "mean.binaryproto").write_bytes(mean.to_proto().SerializeToString())
        stack.enter_context(contextlib.chdir(folder))
        stack.callback(syncblob.set_default_device, syncblob.default_device())
        namespace["_leave_folder"] = stack.pop_all().close


pytest_collect_file = Sybil(
    parsers=[_ExampleParser(doctest_optionflags=ELLIPSIS)],
    patterns=["README.md", "docs/*.md", "docs/reference/*.md"],
    setup=_enter_folder_of_examples,
    teardown=lambda namespace: namespace["_leave_folder"](),
).pytest()
