#!/usr/bin/env bash
# Warp 1.19 writes into read-only NumPy arrays. A kernel that gets an ndarray as argument, or
# wp.array(x, copy=False) of one, shares its memory and ignores flags.writeable. NumPy itself and
# compilers such as Numba refuse to write there.
#
# Seen: [0. 2. 4. 6.] and [0. 4. 8. 12.] in an array whose writeable flag is False.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 warp-lang==1.19.0
cat > "$folder/program.py" <<'EOF'
import numpy as np
import warp as wp


@wp.kernel
def double(x: wp.array(dtype=wp.float32)):
    x[wp.tid()] *= 2.0


array = np.arange(4, dtype=np.float32)
array.flags.writeable = False
wp.launch(double, 4, inputs=[array])
first = array.tolist()
wp.launch(double, 4, inputs=[wp.array(array, copy=False)])
print(array.flags.writeable, first, array.tolist())
assert first == [0, 2, 4, 6]
assert array.tolist() == [0, 4, 8, 12]
EOF
"$folder/venv/bin/python" "$folder/program.py"
