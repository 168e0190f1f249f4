#!/usr/bin/env bash
# dask.array.average and dask.array.linalg.norm of Dask 2026.8 multiply arrays of small integers, such as
# images of uint8, in their own dtype, where the products wrap around. The results are float64, so nothing
# tells. NumPy's functions, whose docstrings they have, compute in float64.
#
# Seen: the average of 200 and 200 with the weights 2 and 2 is 72.0, the norm of [30, 40] is 14.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 dask==2026.8.0
cat > "$folder/program.py" <<'EOF'
import dask.array as da
import numpy as np

pixels = np.array([200, 200], np.uint8)
weights = np.array([2, 2], np.uint8)
average = da.average(da.from_array(pixels), weights=da.from_array(weights)).compute()
legs = np.array([30, 40], np.uint8)
norm = da.linalg.norm(da.from_array(legs)).compute()
print(average, norm)
assert average.dtype == norm.dtype == np.float64
assert (average, norm) == (72, 14)
assert (np.average(pixels, weights=weights), np.linalg.norm(legs)) == (200, 50)
EOF
"$folder/venv/bin/python" "$folder/program.py"
