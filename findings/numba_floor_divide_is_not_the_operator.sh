#!/usr/bin/env bash
# np.floor_divide in functions compiled by Numba 0.68 rounds the quotient of two floats down after it was rounded to
# a float. So it differs from the operator // of the same arrays, which Numba computes as NumPy does, where both are
# one ufunc. It is 1 too large where the quotient is a bit below a whole number, and does not belong to np.remainder
# there: the two do not add up to the dividend. There is no warning, and the documentation lists the ufunc as
# supported. It matters since the bin of a histogram, a count of steps or the cell of a grid depends on how the same
# division is written. Write // in compiled code.
#
# Seen: np.floor_divide of 1.0 and 0.1 is 10, of 6.0 and 0.1 it is 60, of -1.0 and infinity -0; // gives 9, 59 and
# -1, and so does NumPy for both. 10 times 0.1 and the remainder 0.1 are 1.1. Of 0, 0.01, 0.02 and so on to 10,
# divided by 0.01, 499 of 1001 results differ from NumPy's, and none by //.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 numba==0.68.1
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
from numba import njit

warnings.simplefilter("error")  # so that a warning would be seen
function = njit(lambda a, b: np.floor_divide(a, b))
operator = njit(lambda a, b: a // b)
remainder = njit(lambda a, b: np.remainder(a, b))
a, b = np.array([1.0, 6.0, -1.0]), np.array([0.1, 0.1, np.inf])
print(function(a, b), operator(a, b))
assert function(a, b).tolist() == [10, 60, 0]
for floor_divide in (operator, np.floor_divide):
    assert floor_divide(a, b).tolist() == [9, 59, -1]
assert np.allclose(remainder(a, b)[:2], 0.1) and np.allclose(function(a, b)[:2] * 0.1 + 0.1, [1.1, 6.1])

hundredths = np.arange(1001) / 100
steps = np.full(1001, 0.01)
wrong = int((function(hundredths, steps) != np.floor_divide(hundredths, steps)).sum())
print(wrong)
assert wrong == 499 and np.array_equal(operator(hundredths, steps), np.floor_divide(hundredths, steps))
END
"$folder/venv/bin/python" "$folder/program.py"
