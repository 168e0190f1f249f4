#!/bin/sh
# OR-Tools 9.15: in a CP-SAT model, `variable * numpy.float32(2.5)` is 2 * variable, without a warning.
# Python floats and numpy.float64 keep the fraction, and so does `numpy.float32(2.5) * variable`.
# `variable + numpy.float32(2.5)` drops it too, and `variable <= numpy.float32(2.5)` is `variable <= 2`,
# where a Python float raises. 0-d arrays of any dtype behave as numpy.float32 does.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ortools==9.15.6755 numpy==2.4.6
"$folder/venv/bin/python" - >"$folder/seen" <<'PROGRAM'
import numpy as np
from ortools.sat.python import cp_model

x = cp_model.CpModel().new_int_var(0, 10, "x")
for number in (2.5, np.float64(2.5), np.float32(2.5), np.array(2.5)):
    print(type(number).__name__, x * number, number * x, x + number, sep=" | ")
print(x <= np.float32(2.5))
PROGRAM
cat >"$folder/expected" <<'OUTPUT'
float | (2.5 * x) | (2.5 * x) | (x + 2.5)
float64 | (2.5 * x) | (2.5 * x) | (x + 2.5)
float32 | (2 * x) | (2.5 * x) | (x + 2)
ndarray | (2 * x) | (2.5 * x) | (x + 2)
x <= 2
OUTPUT
diff "$folder/expected" "$folder/seen"
