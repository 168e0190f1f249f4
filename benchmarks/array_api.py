"""The cost of array API operations: NumPy, syncblob, torch on the CPU, array-api-strict.

One thread, float32. The libraries run the same expressions in turn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.calls import on_both_sides
from benchmarks.rows import Goal, Measured, Row
from syncblob import Blob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.timing import Timer

__all__ = ["measure"]

RIVALS = {"NumPy": "numpy", "torch": "torch", "array-api-strict": "array_api_strict"}
SIZES = (1, 1_000, 1_000_000)
# If the cost is that of the call, an operation should be faster than torch's. For these it only
# has to be close; in the last one, torch spends time on the computation, too.
CLOSE = ("asarray(a)", "float(x)", "sum(a)", "matmul(8x8, 8x8)")


def small_operations(xp: Any) -> dict[str, Callable[[], object]]:
    """Return operations whose cost is mostly that of the call."""
    one, vector, cube, matrix, scalar = (
        _used(xp.ones(shape, dtype=xp.float32)) for shape in (1, 100, (4, 5, 6), (8, 8), ())
    )
    return {
        "zeros(1)": lambda: xp.zeros(1),
        "asarray(a)": lambda: xp.asarray(one),
        "v[10:20]": lambda: vector[10:20],
        "v[0]": lambda: vector[0],
        "m[1, 2, 3]": lambda: cube[1, 2, 3],
        "reshape(v, (10, 10))": lambda: xp.reshape(vector, (10, 10)),
        "float(x)": lambda: float(scalar),
        "matmul(8x8, 8x8)": lambda: xp.matmul(matrix, matrix),
    }


def sized_operations(xp: Any, size: int) -> dict[str, Callable[[], object]]:
    """Return operations on arrays of the given size."""
    a, b, total = (_used(xp.ones(size, dtype=xp.float32)) for _ in range(3))
    indices = _used(xp.arange(0, size, 2, dtype=xp.int64))
    mask = _used(xp.arange(size) % 2 == 0)

    def add_in_place() -> None:
        nonlocal total
        total += b

    return {
        "add(a, b)": lambda: xp.add(a, b),
        "a + 1.0": lambda: a + 1.0,
        "exp(a)": lambda: xp.exp(a),
        "a += b": add_in_place,
        "sum(a)": lambda: xp.sum(a),
        "a[indices]": lambda: a[indices],
        "a[mask]": lambda: a[mask],
    }


def _used(array: Any) -> Any:
    return on_both_sides(array) if isinstance(array, Blob) else array


def measure(timer: Timer) -> Measured:
    """Time all libraries that are installed."""
    libraries = {"syncblob": import_module("syncblob")}
    notes = []
    for name, module in RIVALS.items():
        try:
            libraries[name] = import_module(module)
        except ImportError:
            notes.append(f"{name} is not installed: it is not compared")
    threads = _use_threads(libraries.get("torch"), 1)
    try:
        rows = list(_compare(timer, "the call itself", libraries, small_operations))
        for size in SIZES[:-1] if timer.brief else SIZES:
            rows += _compare(
                timer,
                f"{size} element{'s' if size > 1 else ''}",
                libraries,
                lambda xp, size=size: sized_operations(xp, size),
            )
    finally:
        _use_threads(libraries.get("torch"), threads)
    return Measured(rows, notes)


def _use_threads(torch: Any, count: int) -> int:
    """Set the number of torch's threads, and return the previous one."""
    if torch is None:
        return count
    before: int = torch.get_num_threads()
    torch.set_num_threads(count)
    return before


def _compare(
    timer: Timer,
    section: str,
    libraries: dict[str, Any],
    operations: Callable[[Any], dict[str, Callable[[], object]]],
) -> Iterable[Row]:
    calls = {name: operations(xp) for name, xp in libraries.items()}
    for label in calls["syncblob"]:
        times = timer.medians({name: calls[name][label] for name in libraries})
        ours = times.pop("syncblob")
        for rival, seconds in times.items():
            yield Row(section, label, ours, rival, seconds, goal=_goal(section, label, rival))


def _goal(section: str, label: str, rival: str) -> Goal | None:
    if rival == "torch" and section in {"the call itself", "1 element"}:
        return Goal(2.0 if label in CLOSE else 1.0)
    # The same time as NumPy, up to the difference between two timings of the same call.
    return Goal(1.1) if rival == "NumPy" and section == "1000000 elements" else None
