"""What an operation of the array API costs: NumPy, syncblob, torch on the CPU, array-api-strict.

One thread, float32. The array libraries run the same expressions by turns.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.timing import medians

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

RIVALS = {"NumPy": "numpy", "torch": "torch", "strict": "array_api_strict"}
SIZES = (1, 1_000, 1_000_000)


def small_operations(xp: Any) -> dict[str, Callable[[], object]]:
    """Return operations whose cost is that of the call."""
    one = xp.ones(1, dtype=xp.float32)
    vector = xp.ones(100, dtype=xp.float32)
    cube = xp.ones((4, 5, 6), dtype=xp.float32)
    matrix = xp.ones((8, 8), dtype=xp.float32)
    scalar = xp.asarray(1.0, dtype=xp.float32)
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
    """Return operations on arrays of a size."""
    a = xp.ones(size, dtype=xp.float32)
    b = xp.ones(size, dtype=xp.float32)
    total = xp.ones(size, dtype=xp.float32)
    indices = xp.arange(0, size, 2, dtype=xp.int64)
    mask = xp.arange(size) % 2 == 0

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


def main() -> None:
    """Time all libraries that are installed and print the ratios to ours."""
    libraries = {"syncblob": import_module("syncblob")}
    for name, module in RIVALS.items():
        try:
            libraries[name] = import_module(module)
        except ImportError:
            print(f"\n{module} is not installed: it is not compared")
    if "torch" in libraries:
        libraries["torch"].set_num_threads(1)
    _compare("operations of the array API, the call itself", libraries, small_operations)
    for size in SIZES:
        _compare(
            f"operations of the array API, {size} elements",
            libraries,
            lambda xp, size=size: sized_operations(xp, size),
        )


def _compare(
    title: str,
    libraries: dict[str, Any],
    operations: Callable[[Any], dict[str, Callable[[], object]]],
) -> None:
    calls = {name: operations(xp) for name, xp in libraries.items()}
    rivals = [name for name in libraries if name != "syncblob"]
    print(f"\n{title}; us a call, and syncblob's time as a multiple of the others'")
    heads = "".join(f"{name:>11}" for name in ["syncblob", *rivals])
    print(f"  {'':<22}{heads}   {'':>3}" + "".join(f"{'/ ' + name:>10}" for name in rivals))
    for label in calls["syncblob"]:
        times = medians({name: calls[name][label] for name in libraries})
        ours = times["syncblob"]
        measured = "".join(f"{times[name] * 1e6:>11.3f}" for name in ["syncblob", *rivals])
        ratios = "".join(f"{ours / times[name]:>10.2f}" for name in rivals)
        print(f"  {label:<22}{measured}   {'':>3}{ratios}")


if __name__ == "__main__":
    main()
