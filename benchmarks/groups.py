"""The groups of benchmarks, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import (
    array_api,
    files,
    functions,
    import_time,
    interop,
    memory,
    pipeline,
    states,
    transfers,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.rows import Measured
    from benchmarks.timing import Timer

__all__ = ["GROUPS"]

GROUPS: dict[str, Callable[[Timer], Measured]] = {
    "array_api": array_api.measure,
    "files": files.measure,
    "functions": functions.measure,
    "import_time": import_time.measure,
    "interop": interop.measure,
    "memory": memory.measure,
    "pipeline": pipeline.measure,
    "regions": pipeline.measure_parts,
    "states": states.measure,
    "transfers": transfers.measure,
}
