#!/usr/bin/env bash
# `reduce`, `accumulate` and `reduceat` of the ufuncs of NumPy 2.4 never free an operand whose `__array_ufunc__`
# raises: each such call adds a reference to it that nothing removes. `at` and a call of the ufunc itself add none, so
# that a test of these finds nothing. An exception is the documented way to refuse an operand, and one would have
# expected it to cost nothing. It matters for arrays on accelerators: a program that catches the error and goes on
# loses their memory for good.
#
# Seen: references that ten failed calls leave, `call 0, reduce 10, accumulate 10, reduceat 10, at 0`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6
cat > "$folder/program.py" <<'END'
import sys
from contextlib import suppress

import numpy as np


class Operand:
    dtype = np.dtype("float64")

    def __array_ufunc__(self, *args, **kwargs):
        raise ValueError("refused")


def left_behind(function):
    operand = Operand()
    before = sys.getrefcount(operand)
    for _ in range(10):
        with suppress(ValueError):
            function(operand)
    return sys.getrefcount(operand) - before


calls = {
    "call": np.negative,
    "reduce": np.add.reduce,
    "accumulate": np.add.accumulate,
    "reduceat": lambda x: np.add.reduceat(x, [0, 2]),
    "at": lambda x: np.add.at(x, [0], 1.0),
}
print(", ".join(f"{name} {left_behind(call)}" for name, call in calls.items()))
END
seen=$("$folder/venv/bin/python" "$folder/program.py")
printf '%s\n' "$seen"
[ "$seen" = "call 0, reduce 10, accumulate 10, reduceat 10, at 0" ]
