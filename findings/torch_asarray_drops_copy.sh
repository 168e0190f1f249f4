#!/usr/bin/env bash
# torch.asarray(x, copy=True) of PyTorch 2.13 does not copy an object that it takes by DLPack. It
# neither passes copy=True to __dlpack__ nor copies afterwards, and it ignores the read-only flag. So a
# write into the "copy" changes an immutable PyArrow array.
#
# Seen: the PyArrow array is [2.0, 4.0, 6.0] after the copy was doubled; an ndarray is copied.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 torch==2.13.0 pyarrow==26.0.1
cat > "$folder/program.py" <<'EOF'
import numpy as np
import pyarrow as pa
import torch

immutable = pa.array([1.0, 2.0, 3.0])
torch.asarray(immutable, copy=True).mul_(2)
array = np.array([1.0, 2.0, 3.0])
torch.asarray(array, copy=True).mul_(2)
print(immutable.to_pylist(), array.tolist())
assert immutable.to_pylist() == [2, 4, 6]
assert array.tolist() == [1, 2, 3]
EOF
"$folder/venv/bin/python" "$folder/program.py"
