"""A pytest plugin that adds syncblob to the array libraries that another project tests.

The modules of the project's test configuration are patched in memory when they are imported. Tests
of other libraries than those in `LIBRARIES` are deselected.

Tests that are run again find another `Blob.__iter__`: see `AGAIN_VARIABLE`.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from conformance.libraries import (
    AGAIN_VARIABLE,
    DEVICE_VARIABLE,
    LIBRARIES,
    SUITE_VARIABLE,
    SUITES,
    is_about,
)
from syncblob import Blob

_SUITE = SUITES[os.environ[SUITE_VARIABLE]]
_AGAIN = os.environ.get(AGAIN_VARIABLE)


class _PatchedLoader(SourceFileLoader):
    """Compile the patched source of a module. Neither its file nor its cached code is touched."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path).decode("utf-8")
        for patch in _SUITE.patches:
            if patch.module == fullname:
                source = patch.apply(source)
        code: CodeType = self.source_to_code(source.encode("utf-8"), path)
        return code


class _Finder:
    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None, _: Any = None) -> ModuleSpec | None:
        if all(patch.module != fullname for patch in _SUITE.patches):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None:
            spec.loader = _PatchedLoader(fullname, spec.origin)
        return spec


# Before pytest's own, which would load what it has to do with itself.
sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]  # a class with the method is a finder


def pytest_configure() -> None:
    """Select the device that syncblob makes its arrays on."""
    import syncblob

    syncblob.set_default_device(os.environ[DEVICE_VARIABLE])
    if _AGAIN is not None:
        syncblob.Blob.__iter__ = _blobs  # type: ignore[method-assign]


def _blobs(blob: Blob) -> Iterator[Blob]:
    """Iterate over a Blob, of one axis too, as over its views."""
    return (blob[place] for place in range(len(blob)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of other libraries, and those that are not to be run again."""
    kept = [item for item in items if any(is_about(name, item.nodeid) for name in LIBRARIES)]
    if _AGAIN is not None:
        again = json.loads(Path(_AGAIN).read_text("utf-8"))
        kept = [item for item in kept if item.nodeid in again]
    removed = {*items}.difference(kept)
    config.hook.pytest_deselected(items=[*removed])
    items[:] = kept
