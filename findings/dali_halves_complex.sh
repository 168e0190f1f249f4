#!/usr/bin/env bash
# TensorCPU of DALI 2.4 takes an array of complex64 for one of float32 with as many elements, without an
# error: the real and the imaginary parts of its first half.
#
# Seen: [1+2j, 3+4j] becomes [1.0, 2.0].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 nvidia-dali-cuda120==2.4.0
cat > "$folder/program.py" <<'EOF'
import numpy as np
from nvidia.dali.tensors import TensorCPU

array = np.array([1 + 2j, 3 + 4j], "complex64")
taken = np.asarray(TensorCPU(array))
print(array.tolist(), taken.dtype, taken.tolist())
assert (taken.dtype, taken.tolist()) == ("float32", [1.0, 2.0])
EOF
"$folder/venv/bin/python" "$folder/program.py"
