#!/usr/bin/env bash
# dpnp 0.20 does not count an integer as an array beside an array in an index. NumPy and CuPy put the axis of
# the array first if a slice stands between the two; dpnp leaves it in place. If that axis and the slice have
# the same length, no shape tells: the values are transposed, and an assignment writes to transposed places.
#
# Seen: x[0, :, [0, 1]] of an array of shape (1, 2, 2) gives [[0, 1], [2, 3]]; NumPy gives [[0, 2], [1, 3]].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q dpnp==0.20.0 dpctl==0.22.1 intel-opencl-rt==2026.2.0 numpy==2.4.6
cat > "$folder/program.py" <<'EOF'
import dpnp
import numpy as np

array = np.arange(4).reshape(1, 2, 2)
x = dpnp.asarray(array)
selected = x[0, :, dpnp.asarray([0, 1])]
x[0, :, dpnp.asarray([0, 1])] = dpnp.asarray([[10, 20], [30, 40]])
written = array.copy()
written[0, :, [0, 1]] = [[10, 20], [30, 40]]
print(array[0, :, [0, 1]].tolist(), selected.tolist(), written.tolist(), x.tolist())
assert array[0, :, [0, 1]].tolist() == [[0, 2], [1, 3]]
assert selected.tolist() == [[0, 1], [2, 3]]
assert (written.tolist(), x.tolist()) == ([[[10, 30], [20, 40]]], [[[10, 20], [30, 40]]])
EOF
OCL_ICD_FILENAMES="$folder/venv/lib/libintelocl.so" "$folder/venv/bin/python" "$folder/program.py"
