"""Makes the calls of a table, once with ndarrays and once with Blobs on a device."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import syncblob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from conformance.consumers.calls import Call

__all__ = ["BLOB", "BLOB_ON_CPU", "ERROR", "OTHER", "WRONG", "Outcome", "run"]

# From best to worst.
BLOB = "Blob out"
BLOB_ON_CPU = "Blob out, on cpu"
OTHER = "other out"
ERROR = "error"
WRONG = "wrong value"

_TOLERANCES = {"f2": 1e-2, "f4": 1e-4, "c8": 1e-4}
_TOLERANCE = 1e-8
_LONGEST_DETAIL = 120


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call.

    Attributes
    ----------
    kind
        One of the constants of this module. "on cpu": the inputs were Blobs on another device.
    detail
        The types of the results, the first line of the error, or the difference; may be empty.
    """

    kind: str
    detail: str = ""

    def __str__(self) -> str:
        """Return the text for the record."""
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


def run(calls: Iterable[Call], device: str) -> Iterator[tuple[str, Outcome]]:
    """Make each call with a device as the default, and yield its name and outcome.

    Raises
    ------
    Exception
        If a call fails with ndarrays. The table is wrong then.
    """
    with warnings.catch_warnings(), syncblob.use_device(device):
        warnings.simplefilter("ignore")
        # Turn a write that would make an alias stale into an error.
        warnings.simplefilter("error", syncblob.StaleAliasWarning)
        for entry in calls:
            yield entry.name, _try(entry, device)


def _try(entry: Call, device: str) -> Outcome:
    expected = entry.function(*_copied(entry.inputs), **_copied(entry.keywords))
    try:
        inputs = _as_blobs(entry.inputs, device)
        keywords = _as_blobs(entry.keywords, device)
        result = entry.function(*inputs, **keywords)
        leaves = list(_leaves(result))
        difference = _difference(leaves, list(_leaves(expected)))
    except Exception as error:  # noqa: BLE001  # any error is an outcome
        return Outcome(ERROR, f"{type(error).__name__}: {_first_line(error)}")
    if difference:
        return Outcome(WRONG, difference)
    blobs = [leaf for leaf in leaves if isinstance(leaf, syncblob.Blob)]
    if len(blobs) < len(leaves):
        types = {type(leaf).__name__ for leaf in leaves}
        return Outcome(OTHER, ", ".join(sorted(types)))
    if any(blob.device != syncblob.Device(device) for blob in blobs):
        return Outcome(BLOB_ON_CPU)
    return Outcome(BLOB)


# --- inputs ---------------------------------------------------------------------------------------


def _copied(value: Any) -> Any:
    """Copy the arrays in an argument, because some functions write to them."""
    return _mapped(value, np.copy)


def _as_blobs(value: Any, device: str) -> Any:
    """Replace the arrays in an argument by Blobs on a device."""
    return _mapped(value, lambda array: syncblob.asarray(array, device=device, copy=True))


def _mapped(value: Any, function: Any) -> Any:
    if isinstance(value, np.ndarray):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, function) for item in value)
    if isinstance(value, dict):
        return {key: _mapped(item, function) for key, item in value.items()}
    return value


# --- results --------------------------------------------------------------------------------------


def _leaves(result: Any) -> Iterator[Any]:
    """Yield the arrays and scalars of a result."""
    if isinstance(result, (list, tuple)):
        for item in result:
            yield from _leaves(item)
    elif isinstance(result, dict):
        for key in sorted(result):
            yield from _leaves(result[key])
    elif hasattr(result, "data_vars"):  # a Dataset of xarray
        for name in sorted(result.data_vars):
            yield result[name].data
    elif hasattr(result, "dims") and hasattr(result, "data"):  # its other arrays
        yield result.data
    else:
        yield result


def _difference(leaves: list[Any], expected: list[Any]) -> str:
    """Describe how results differ; an empty string if they do not."""
    if len(leaves) != len(expected):
        return f"{len(leaves)} results where ndarrays give {len(expected)}"
    for leaf, model in zip(leaves, expected, strict=True):
        if model is None or isinstance(model, str):
            if leaf != model:
                return f"{leaf!r} where ndarrays give {model!r}"
            continue
        array, reference = np.asarray(leaf), np.asarray(model)
        if array.shape != reference.shape:
            return f"shape {array.shape} where ndarrays give {reference.shape}"
        is_array = isinstance(leaf, syncblob.Blob) and isinstance(model, (np.ndarray, np.generic))
        if is_array and array.dtype != reference.dtype:
            return f"dtype {array.dtype} where ndarrays give {reference.dtype}"
        tolerance = _TOLERANCES.get(reference.dtype.str[1:], _TOLERANCE)
        if not np.allclose(array, reference, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"differs by up to {np.max(np.abs(array - reference)):.2g}"
    return ""


def _first_line(error: Exception) -> str:
    """Return the beginning of a message, without parts that differ between runs."""
    line = str(error).strip().partition("\n")[0]
    return re.sub(r"0x[0-9a-fA-F]+", "0x…", line)[:_LONGEST_DETAIL]
