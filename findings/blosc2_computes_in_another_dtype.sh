#!/usr/bin/env bash
# Python-Blosc2 4.14 computes some functions of integers in another dtype than that of the result. abs,
# maximum and % of int64 lose digits, because they go through float64; int32 ** 2.0 wraps around in int32,
# and only then becomes float64. Negation and + of the same int64 arrays are exact.
#
# Seen: abs and maximum of 2**53 + 1 give 2**53, int64, and its remainder by 2 is 0. 100000 ** 2.0 is
# 1410065408.0, float64.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 blosc2==4.14.1 numexpr==2.14.2
cat > "$folder/program.py" <<'EOF'
import blosc2
import numpy as np

numbers = np.full(1000, 2**53 + 1)
functions = (
    (lambda xp, x: xp.abs(x), 2**53),
    (lambda xp, x: xp.maximum(x, 1), 2**53),
    (lambda xp, x: x % 2, 0),
    (lambda xp, x: -x, -(2**53 + 1)),
    (lambda xp, x: x + 1, 2**53 + 2),
)
for function, seen in functions:
    result = function(blosc2, blosc2.asarray(numbers))[:]
    expected = function(np, numbers)
    print(result[0], expected[0])
    assert result.dtype == expected.dtype == np.int64
    assert (result == seen).all()
assert (2**53 + 1) % 2 == 1

numbers = np.full(1000, 100_000, np.int32)
result = (blosc2.asarray(numbers) ** 2.0)[:]
expected = numbers**2.0
print(result[0], expected[0])
assert result.dtype == expected.dtype == np.float64
assert (result == 100_000**2 % 2**32).all()
assert (expected == 100_000**2).all()
EOF
"$folder/venv/bin/python" "$folder/program.py"
