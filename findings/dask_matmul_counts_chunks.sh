#!/usr/bin/env bash
# What matmul, dot, tensordot and einsum of Dask 2026.8 make of booleans and small integers depends on the
# chunks along the axis over which they sum. Each chunk is multiplied in the dtype of the arrays, and the results
# are summed in 64 bits. So the product of booleans is the number of chunks in which NumPy's is True, and small
# integers wrap around or not. The docstrings are NumPy's.
#
# Seen: [[True] * 6] @ [[True]] * 6, True with NumPy, is True, 2, 3 and 6 for chunks of 6, 3, 2 and 1; the int8
# [[100, 100]] @ [[1], [1]], -56 with NumPy, is -56 in one chunk and 200 in two.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 dask==2026.8.0
cat > "$folder/program.py" <<'EOF'
import dask.array as da
import numpy as np


def product(row, column, size, function=da.matmul):
    result = function(da.from_array(row, chunks=size), da.from_array(column, chunks=size))
    assert result.shape == (1, 1)
    return result.compute()[0, 0]


row = np.ones((1, 6), np.bool_)
column = row.T
for function in (np.matmul, np.dot):
    assert function(row, column)[0, 0] is np.True_
seen = {size: product(row, column, size) for size in (6, 3, 2, 1)}
print(seen)
assert seen[6] is np.True_
assert seen == {6: True, 3: 2, 2: 3, 1: 6}
for function in (da.dot, lambda x, y: da.tensordot(x, y, 1), lambda x, y: da.einsum("ij,jk", x, y)):
    assert [product(row, column, size, function) for size in (6, 3, 2, 1)] == [1, 2, 3, 6]

row = np.array([[100, 100]], np.int8)
column = np.ones((2, 1), np.int8)
assert (row @ column)[0, 0] == 100 + 100 - 256
seen = {size: product(row, column, size) for size in (2, 1)}
print(seen)
assert seen == {2: -56, 1: 200}
EOF
"$folder/venv/bin/python" "$folder/program.py"
