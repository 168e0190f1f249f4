"""The cost of array API operations: NumPy, syncblob, torch on the CPU, array-api-strict.

One thread, float32. The libraries run the same calls in turn.
"""

from importlib import import_module
from typing import Any

from benchmarks.calls import function, on_both_sides, torch_of_one_thread
from benchmarks.rows import Goal, Measured, Row
from benchmarks.timing import Timer
from syncblob import Blob

RIVALS = {"NumPy": "numpy", "torch": "torch", "array-api-strict": "array_api_strict"}
SMALL, LARGE = "1 element", "1000000 elements"
SECTIONS = {
    "the call itself": (
        *("zeros(1)", "asarray(a)", "v[10:20]", "v[0]", "m[1, 2, 3]", "reshape(v, (10, 10))"),
        *("float(x)", "matmul(s, s)"),
    ),
    SMALL: ("add(a, b)", "a + 1.0", "exp(a)", "a += b", "sum(a)", "a[indices]", "a[mask]"),
}
SECTIONS[LARGE] = SECTIONS[SMALL]
# If the cost is that of the call, an operation should be faster than torch's. For these it only
# has to be close; in the last one, torch spends time on the computation, too.
CLOSE = ("asarray(a)", "float(x)", "sum(a)", "matmul(s, s)")


def names(xp: Any, size: int) -> dict[str, Any]:
    """Return the functions of a library, and its arrays; some have the given size."""
    shapes: dict[str, Any] = {"a": size, "b": size, "v": 100, "m": (4, 5, 6), "s": (8, 8), "x": ()}
    found = {name: xp.ones(shape, dtype=xp.float32) for name, shape in shapes.items()}
    found["indices"] = xp.arange(0, size, 2, dtype=xp.int64)
    found["mask"] = xp.arange(size) % 2 == 0
    for array in found.values():
        if isinstance(array, Blob):
            on_both_sides(array)
    return {**vars(xp), "float": float, **found}


def measure(timer: Timer) -> Measured:
    """Time all libraries that are installed."""
    libraries = {"syncblob": import_module("syncblob")}
    notes, rows = [], []
    for name, module in RIVALS.items():
        try:
            libraries[name] = import_module(module)
        except ImportError:
            notes.append(f"{name} is not installed: it is not compared")
    with torch_of_one_thread():
        for section, texts in SECTIONS.items():
            size = 1_000_000 if section == LARGE and not timer.brief else 1
            found = {name: names(xp, size) for name, xp in libraries.items()}
            for text in texts:
                times = timer.medians({name: function(text, found[name]) for name in found})
                ours = times.pop("syncblob")
                rows += [
                    Row(section, text, ours, rival, seconds, goal=_goal(section, text, rival))
                    for rival, seconds in times.items()
                ]
    return Measured(rows, notes)


def _goal(section: str, text: str, rival: str) -> Goal | None:
    if rival == "torch" and section != LARGE:
        return Goal(2.0 if text in CLOSE else 1.0)
    # The same time as NumPy, up to the difference between two timings of the same call.
    return Goal(1.1) if rival == "NumPy" and section == LARGE else None
