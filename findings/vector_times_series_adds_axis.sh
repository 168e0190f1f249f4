#!/usr/bin/env bash
# An array of vectors of vector 1.9 times a pandas Series of as many numbers gains an axis: shape (1, 3)
# in place of (3,). An ndarray or a list in place of the Series gives shape (3,).
#
# Seen: (3,) for an ndarray and a list, (1, 3) for a Series.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 vector==1.9.0 pandas==3.1.1
cat > "$folder/program.py" <<'EOF'
import numpy as np
import pandas as pd
import vector

numbers = [1.0, 2.0, 3.0]
vectors = vector.array({"x": numbers, "y": numbers})
shapes = [np.shape((vectors * make(numbers)).x) for make in (np.array, list, pd.Series)]
print(shapes)
assert shapes == [(3,), (3,), (1, 3)]
EOF
"$folder/venv/bin/python" "$folder/program.py"
