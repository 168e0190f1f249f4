#!/usr/bin/env bash
# The mode "wrap" of take, put and choose, the default in dpnp 0.20, does not wrap indices around. It clips
# them to the range from -n to n - 1, as does indexing with an array. The mode "raise", NumPy's default, is
# refused.
#
# Seen: take of [7, -9] from five elements, 0 to 4, gives [4, 0]; NumPy's mode "wrap" gives [2, 1].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q dpnp==0.20.0 dpctl==0.22.1 intel-opencl-rt==2026.2.0 numpy==2.4.6
cat > "$folder/program.py" <<'EOF'
import dpnp
import numpy as np

array = np.arange(5)
x, indices = dpnp.asarray(array), dpnp.asarray([7, -9])
taken = dpnp.take(x, indices, mode="wrap").tolist()
chosen = dpnp.choose(dpnp.asarray([2, -1]), [x[:2], x[2:4]], mode="wrap").tolist()
print(np.take(array, [7, -9], mode="wrap").tolist(), taken, x[indices].tolist())
print(np.choose([2, -1], [array[:2], array[2:4]], mode="wrap").tolist(), chosen)
assert np.take(array, [7, -9], mode="wrap").tolist() == [2, 1]
assert taken == x[indices].tolist() == [4, 0]
assert np.choose([2, -1], [array[:2], array[2:4]], mode="wrap").tolist() == [0, 3]
assert chosen == [2, 3]
try:
    dpnp.take(x, dpnp.asarray([1]), mode="raise")
except ValueError as error:
    print(error)
else:
    raise SystemExit("take accepts raise")
EOF
OCL_ICD_FILENAMES="$folder/venv/lib/libintelocl.so" "$folder/venv/bin/python" "$folder/program.py"
