#!/usr/bin/env bash
# NumPy 2.4.6: the method `at` of every ufunc writes into read-only arrays. Assignment, `np.put`,
# `np.copyto` and the same ufunc with `out=` raise ValueError there. The views of `broadcast_to`,
# which are read-only because their rows are one row, are written, too.
#
# Seen: [1. 0. 0.] in an array whose writeable flag is False, and [3. 0. 0.] under a broadcast view
# of which three rows were given one addition each.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6
cat > "$folder/program.py" <<'EOP'
import numpy as np

array = np.zeros(3)
array.flags.writeable = False
for write in (
    lambda: array.__setitem__(0, 1),
    lambda: np.put(array, 0, 1),
    lambda: np.copyto(array, 1),
    lambda: np.add(array, 1, out=array),
):
    try:
        write()
    except ValueError as error:
        print("refused:", error)
    else:
        raise SystemExit("a read-only array was written by another way")
np.add.at(array, [0], 1)
print(array.flags.writeable, array)
assert array.tolist() == [1, 0, 0]

row = np.zeros(3)
rows = np.broadcast_to(row, (3, 3))
np.add.at(rows, ([0, 1, 2], [0, 0, 0]), 1)
print(rows.flags.writeable, row)
assert row.tolist() == [3, 0, 0]
EOP
"$folder/venv/bin/python" "$folder/program.py"
