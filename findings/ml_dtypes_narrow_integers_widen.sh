#!/usr/bin/env bash
# The int4 and uint4 of ml_dtypes 0.6 have ufuncs of their own for + - * // and %. For all other ufuncs, also
# - and ~ of one operand, abs, power and clip, NumPy converts both to int8, without a word, although int8 does
# not hold what uint4 gives there. So ~0 is -1, and 15 ** 2 is -31, neither an int8 result wrapped to 4 bits
# nor the right number. Scalars of the same dtypes stay what they are.
#
# Seen: for arrays of uint4, ~0 is -1 and 15 ** 2 is -31, both int8. -x of the int4 -8 is 8, int8, for an
# array, and -8, int4, for a scalar.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 ml_dtypes==0.6.0
"$folder/venv/bin/python" - <<'EOF'
import numpy as np
from ml_dtypes import int4, uint4

inverse = ~np.array([0], uint4)
square = np.array([15], uint4) ** np.array([2], uint4)
negative = -np.array([-8], int4)
scalar = -int4(-8)
total = np.array([15], uint4) + np.array([1], uint4)
print("~0:", inverse, inverse.dtype)
print("15 ** 2:", square, square.dtype)
print("-(-8):", negative, negative.dtype, "and of a scalar", scalar, type(scalar).__name__)
print("15 + 1:", total, total.dtype)
assert inverse.dtype == np.int8 and inverse.tolist() == [-1]
assert square.dtype == np.int8 and square.tolist() == [-31]
assert negative.dtype == np.int8 and negative.tolist() == [8]
assert type(scalar) is int4 and int(scalar) == -8
assert total.dtype == uint4 and int(total[0]) == 0
EOF
