#!/usr/bin/env bash
# pandas 3.1 takes an empty array of another library, which it converts by __array__, for an empty list: a
# DataFrame has no columns, whatever the shape is, and a Series has the dtype object. An array with elements,
# and an empty ndarray, keep both.
#
# Seen: (0, 4) and float64 for an ndarray, (0, 0) and object for the same of array-api-strict.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 pandas==3.1.1 array-api-strict==2.6.1
cat > "$folder/program.py" <<'EOF'
import array_api_strict as xp
import numpy as np
import pandas as pd

for zeros in (np.zeros, xp.zeros):
    print(pd.DataFrame(zeros((0, 4))).shape, pd.Series(zeros((0,))).dtype)
assert pd.DataFrame(np.zeros((0, 4))).shape == (0, 4)
assert pd.DataFrame(xp.zeros((0, 4))).shape == (0, 0)
assert pd.Series(np.zeros(0)).dtype == "float64"
assert pd.Series(xp.zeros((0,))).dtype == "object"
EOF
"$folder/venv/bin/python" "$folder/program.py"
