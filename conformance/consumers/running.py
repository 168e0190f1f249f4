"""Makes the calls of a table, once with ndarrays and once with Blobs on a device.

``python -m conformance.consumers.running TABLE FILE [LIBRARY ...]`` appends the outcomes to a file.
It leaves out the calls that the file has: one without an outcome ended the process.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import syncblob
from conformance.consumers.table import load
from syncblob import Blob, Head
from syncblob.devices import Side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.consumers.table import Call, Library

__all__ = ["DEVICES", "blob_with_rubbish", "outcome_of"]

DEVICES = ("cpu", "simulated")

_TOLERANCES = {"f2": 1e-2, "f4": 1e-4, "c8": 1e-4}
_TOLERANCE = 1e-8
_LONGEST_DETAIL = 120
# What else is compared of results that are no arrays.
_ATTRIBUTES = ("dtype", "dtypes", "name", "names", "columns", "unit", "units", "mode", "schema")
_ARRAYS = (np.ndarray, np.generic, Blob)


class _Plain:
    """The arrays of a table, as ndarrays: ``ND.IMAGE`` for ``IMAGE``."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def __getattr__(self, name: str) -> np.ndarray:
        array: np.ndarray = self._names[name]
        return array.copy()


def outcome_of(call: Call, library: Library, device: str) -> str:
    """Make a call with ndarrays, and with Blobs on a device that is the default.

    Returns
    -------
    str
        The kind of outcome, one of `record.RANKS`, and after a colon its details.
    """
    arrays = {name: array.copy() for name, array in call.arrays.items()}
    try:
        expected = list(_leaves(_made(call, library, arrays)))
    except ImportError as error:  # of another package
        return f"not tried: {_first_line(error)}"
    except Exception as error:  # noqa: BLE001  # the table is wrong
        return f"not with ndarrays: {type(error).__name__}: {_first_line(error)}"
    blobs = {name: blob_with_rubbish(array, device) for name, array in call.arrays.items()}
    try:
        leaves = list(_leaves(_made(call, library, blobs)))
        difference = _difference(leaves, expected)
    except Exception as error:  # noqa: BLE001  # any error is an outcome
        kind = "refused" if _is_clear(error) else "unclear error"
        return f"{kind}: {type(error).__name__}: {_first_line(error)}"
    for name, blob in blobs.items():
        outcome = _written(name, blob, call.arrays[name], arrays[name])
        if outcome is not None:
            return outcome
    if difference:
        return f"wrong value: {difference}"
    return "same"


def _made(call: Call, library: Library, arrays: dict[str, Any]) -> Any:
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  # libraries use it
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        names = {**library.names, **arrays, "ND": _Plain(library.names), "TMP": Path(folder)}
        result = eval(call.code, names)  # noqa: S307  # the table is ours
        return list(result) if hasattr(result, "__next__") else result


def blob_with_rubbish(array: np.ndarray, device: str) -> Blob:
    """Make a Blob whose newest contents are on its device, and whose other side holds rubbish."""
    blob = Blob(array.shape, array.dtype, device="simulated")
    if array.dtype == bool:
        rubbish = ~array
    else:
        inverted = ~np.frombuffer(array.tobytes(), np.uint8)
        rubbish = inverted.view(array.dtype).reshape(array.shape)
    sides = [blob.overwrite_gpu_data, blob.overwrite_cpu_data]
    other, own = sides if device == "cpu" else reversed(sides)
    other()[...] = rubbish
    own()[...] = array
    return blob.on(device)


# --- results --------------------------------------------------------------------------------------


def _leaves(result: Any) -> Iterator[Any]:
    """Yield the arrays and scalars of a result."""
    if isinstance(result, (list, tuple)):
        for item in result:
            yield from _leaves(item)
    elif isinstance(result, dict):
        for key, value in result.items():
            yield key
            yield from _leaves(value)
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
        if model is None or isinstance(model, (str, bytes, type, np.dtype)):
            if type(leaf) is not type(model) or leaf != model:
                return f"{leaf!r:.40} where ndarrays give {model!r:.40}"
            continue
        difference = _of_other_type(leaf, model) or _of_values(leaf, model)
        if difference:
            return difference
    return ""


def _of_other_type(leaf: Any, model: Any) -> str:
    """Compare types, dtypes, names and units."""
    numbers = (bool, int, float, complex)
    if type(model) is np.ndarray or isinstance(model, np.generic):
        differs = isinstance(leaf, _ARRAYS) and leaf.dtype != model.dtype
        if not differs and isinstance(leaf, (*_ARRAYS, *numbers)):
            return ""
        return (
            f"dtype {leaf.dtype} where ndarrays give {model.dtype}"
            if differs
            else _other(leaf, model)
        )
    if type(leaf) is type(model):
        return _of_attributes(leaf, model)
    number = isinstance(model, numbers) and isinstance(leaf, (Blob, np.generic))
    array = isinstance(leaf, Blob) and hasattr(model, "__dlpack__")  # of another library
    return "" if number or array else _other(leaf, model)


def _other(leaf: Any, model: Any) -> str:
    return f"{type(leaf).__name__} where ndarrays give {type(model).__name__}"


def _of_attributes(leaf: Any, model: Any) -> str:
    for name in _ATTRIBUTES:
        one, other = (getattr(x, name, None) for x in (leaf, model))
        texts = [_plain(x) or "None" for x in (one, other)]  # a Blob's name may be empty
        if not callable(other) and texts[0] != texts[1]:
            return f"{name} {one!s:.40} where ndarrays give {other!s:.40}"
    return ""


def _of_values(leaf: Any, model: Any) -> str:
    array, reference = _values(leaf), _values(model)
    if array.shape != reference.shape:
        return f"shape {array.shape} where ndarrays give {reference.shape}"
    if reference.dtype.kind not in "biufc":
        one, other = (_plain(x.tolist()) for x in (array, reference))
        return "" if one == other else f"{one:.40} where ndarrays give {other:.40}"
    tolerance = _TOLERANCES.get(reference.dtype.str[1:], _TOLERANCE)
    if not np.allclose(array, reference, rtol=tolerance, atol=tolerance, equal_nan=True):
        return f"differs by up to {np.max(np.abs(array - 1.0 * reference)):.2g}"
    return ""


def _plain(x: Any) -> str:
    """Return a text without addresses."""
    return re.sub(r" at 0x\w+", "", str(x))


def _values(leaf: Any) -> np.ndarray:
    for name in ("toarray", "todense"):  # sparse arrays
        leaf = getattr(leaf, name)() if hasattr(leaf, name) else leaf
    return np.asarray(leaf)


def _written(name: str, blob: Blob, before: np.ndarray, after: np.ndarray) -> str | None:
    """Compare what an input holds with the ndarray, after the call; None if it is the same.

    Both sides are compared if both are up to date: a consumer may have written through a read-only
    array.
    """
    sides = [np.array(blob)]
    if blob.head is Head.SYNCED:
        sides = [blob.memory.buffer(side).view(blob.dtype).reshape(blob.shape) for side in Side]
    if all(side.tobytes() == after.tobytes() for side in sides):
        return None
    if before.tobytes() == after.tobytes():
        return f"wrong value: {name} changed"
    if any(side.tobytes() == before.tobytes() for side in sides):
        return f"lost: {name}"
    difference = _difference([sides[0]], [after])
    return f"wrong value: {name}: {difference}" if difference else None


def _is_clear(error: Exception) -> bool:
    """Return whether a message names the Blob, or says what is expected in its place."""
    message = str(error)
    if re.search(r"object has no attribute '\w+'[.]?$", message):
        return False
    return bool(re.search(r"\bBlob\b|ndarray|asarray|[Nn]um[Pp]y array", message))


def _first_line(error: Exception) -> str:
    """Return the beginning of a message, without parts that differ between runs."""
    line = str(error).strip().partition("\n")[0]
    line = re.sub(r"Blob\(shape=[^)]*\)[^)]*\)", "Blob(…)", line)
    return re.sub(r"0x[0-9a-fA-F]+|/tmp/\S+", "…", line)[:_LONGEST_DETAIL]  # no file


def run(table: str, path: Path, wanted: list[str]) -> None:
    """Append the outcomes of a table to a file, one JSON list per line."""
    tried = {tuple(json.loads(line)[:3]) for line in path.read_text("utf-8").splitlines()}
    with path.open("a", encoding="utf-8") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Turn a write that would make an alias stale into an error.
        warnings.simplefilter("error", syncblob.StaleAliasWarning)
        for library in load(table, wanted):
            for device in DEVICES:
                with syncblob.use_device(device):
                    for call in library.calls:
                        key = (library.name, call.name, device)
                        if key in tried:
                            continue
                        print(json.dumps([*key, library.version]), file=file, flush=True)
                        outcome = outcome_of(call, library, device)
                        print(json.dumps([*key, library.version, outcome]), file=file, flush=True)


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
