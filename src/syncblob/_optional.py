"""Imports of optional libraries, with errors that say how to install them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def import_optional(name: str, extra: str = "") -> ModuleType:
    """Import a module of an optional package.

    The error for a missing package names the extra that installs it, which has the package's name
    if `extra` is empty.
    """
    package = name.partition(".")[0]
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(
            f"this needs {package}, which is missing: pip install 'syncblob[{extra or package}]'",
            name=package,
        ) from error
    return import_module(name)
