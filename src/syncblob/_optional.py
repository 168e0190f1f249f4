"""Imports of optional libraries, with errors that say how to install them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def import_optional(name: str, extra: str = "") -> ModuleType:
    """Return a module of an optional package.

    Parameters
    ----------
    name
        The module.
    extra
        The extra that installs the package; empty if it has the package's name.

    Raises
    ------
    ModuleNotFoundError
        If the package is not installed.
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
