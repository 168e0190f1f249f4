#!/usr/bin/env bash
# An assignment between overlapping slices of one array is right in NumPy 2.4 and 2.5 if both have the same step, if one
# runs backwards, or if the array has two axes: NumPy notices the overlap, and copies first or begins at the other end.
# With two different steps forwards, as in a[::2] = a[:3], a one-dimensional array reads what it has written a moment
# ago, and silently has a wrong element. So does `np.copyto`. A ufunc with the same two slices,
# `np.positive(a[:3], out=a[::2])`, and `np.put` are right.
#
# Seen, for a = arange(5), where [0 1 1 3 2] is right: a[::2] = a[:3] and copyto give [0 1 1 3 1]; positive with `out`,
# put, and the same assignment of rows of a (5, 1) array give [0 1 1 3 2]. The same for booleans, dates and texts.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6
cat > "$folder/program.py" <<'EOF'
import numpy as np

ways = {
    "a[::2] = a[:3]": lambda a: a.__setitem__(slice(None, None, 2), a[:3]),
    "copyto": lambda a: np.copyto(a[::2], a[:3]),
    "positive, out": lambda a: np.positive(a[:3], out=a[::2]),
    "put": lambda a: np.put(a, [0, 2, 4], a[:3]),
    "rows": lambda a: a[:, None].__setitem__(slice(None, None, 2), a[:3, None]),
}
wrong = []
for name, assign in ways.items():
    a = np.arange(5)
    assign(a)
    print(f"{name:15}", a)
    if a.tolist() != [0, 1, 1, 3, 2]:
        assert a.tolist() == [0, 1, 1, 3, 1]
        wrong.append(name)
assert wrong == ["a[::2] = a[:3]", "copyto"], wrong

for dtype in ("?", "f4", "M8[s]", "S3"):
    a = np.array([1, 0, 1, 0, 0], "i8").astype(dtype)
    last = a[2]
    a[::2] = a[:3]
    print(f"{dtype:15}", a)
    assert a[4] != last
EOF
"$folder/venv/bin/python" "$folder/program.py"
