"""The groups of benchmarks, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import (
    aliases,
    array_api,
    files,
    functions,
    import_time,
    interop,
    memory,
    regions,
    states,
    transfers,
)
from benchmarks.pipeline import comparison

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.rows import Measured
    from benchmarks.timing import Timer

__all__ = ["GROUPS"]

GROUPS: dict[str, Callable[[Timer], Measured]] = {
    "aliases": aliases.measure,
    "array_api": array_api.measure,
    "files": files.measure,
    "functions": functions.measure,
    "import_time": import_time.measure,
    "interop": interop.measure,
    "memory": memory.measure,
    "pipeline": comparison.measure,
    "regions": regions.measure,
    "states": states.measure,
    "transfers": transfers.measure,
}
