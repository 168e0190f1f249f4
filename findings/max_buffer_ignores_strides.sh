#!/usr/bin/env bash
# max.driver.Buffer.from_dlpack of MAX 26.7 ignores the strides of a DLPack tensor. It refuses strided
# arrays of NumPy and PyTorch by their types, with a message to copy them first, but takes those of any
# other library as if they were contiguous.
#
# Seen: a transposed array [[0, 3], [1, 4], [2, 5]] arrives as [[0, 1], [2, 3], [4, 5]].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 max==26.7.0 array-api-strict==2.6.1
cat > "$folder/program.py" <<'EOF'
import array_api_strict as xp
import numpy as np
from max.driver import Buffer

array = xp.reshape(xp.arange(6.0), (2, 3)).T
taken = Buffer.from_dlpack(array).to_numpy()
print(np.from_dlpack(array).tolist(), taken.tolist())
assert np.from_dlpack(array).tolist() == [[0, 3], [1, 4], [2, 5]]
assert taken.tolist() == [[0, 1], [2, 3], [4, 5]]
EOF
"$folder/venv/bin/python" "$folder/program.py"
