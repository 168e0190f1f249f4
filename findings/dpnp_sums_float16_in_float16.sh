#!/usr/bin/env bash
# dpnp 0.20 sums float16 in float16, so that a sum of numbers that it can represent, and whose sum it can
# represent, is wrong, and so are mean, var and std. NumPy adds pairwise, and computes the mean in float32.
#
# Seen: the sum of 3000 ones is 3004, their mean 1.0009765625, and their variance not 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q dpnp==0.20.0 dpctl==0.22.1 intel-opencl-rt==2026.2.0 numpy==2.4.6
cat > "$folder/program.py" <<'EOF'
import dpnp
import numpy as np

ones, x = np.ones(3000, np.float16), dpnp.ones(3000, dtype=np.float16)
print(ones.sum(), ones.mean(), ones.var(), x.sum(), x.mean(), x.var())
assert (ones.sum(), ones.mean(), ones.var()) == (3000, 1, 0)
assert float(x.sum()) != 3000
assert float(x.mean()) != 1
assert float(x.var()) != 0
EOF
OCL_ICD_FILENAMES="$folder/venv/lib/libintelocl.so" "$folder/venv/bin/python" "$folder/program.py"
