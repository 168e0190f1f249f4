#!/usr/bin/env bash
# dask.array.unique of Dask 2026.8 lists NaN once, as NumPy does, but counts it 0 times, also if there is only
# one chunk. The indices that shall reconstruct the array (return_inverse) are 0 in its places, so they
# reconstruct the smallest number there. Its docstring is that of numpy.unique.
#
# Seen: of [nan, 1, nan, 2, 1] the values are [1, 2, nan] and the counts [2, 1, 0], where NumPy counts
# [2, 1, 2]; reconstructed, the array is [1, 1, 1, 2, 1].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 dask==2026.8.0
cat > "$folder/program.py" <<'EOF'
import dask.array as da
import numpy as np

x = np.array([np.nan, 1, np.nan, 2, 1])
values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
np.testing.assert_array_equal(values[inverse], x)
assert counts.tolist() == [2, 1, 2]

lazy = da.from_array(x, chunks=len(x))
parts = da.unique(lazy, return_inverse=True, return_counts=True)
values, inverse, counts = (part.compute() for part in parts)
print(values.tolist(), counts.tolist(), values[inverse].tolist())
np.testing.assert_array_equal(values, [1, 2, np.nan])
assert counts.tolist() == [2, 1, 0]
assert values[inverse].tolist() == [1, 1, 1, 2, 1]
EOF
"$folder/venv/bin/python" "$folder/program.py"
