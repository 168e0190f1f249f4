#!/usr/bin/env bash
# Kernels of Taichi 1.7 share the memory of an ndarray that they get as argument, and ignore
# flags.writeable. Compilers such as Numba refuse to write there.
#
# Seen: [1.0, 1.0, 1.0] in an array of zeros whose writeable flag is False.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 taichi==1.7.4
cat > "$folder/program.py" <<'EOF'
import numpy as np
import taichi as ti

ti.init(ti.cpu, offline_cache=False)


@ti.kernel
def fill(x: ti.types.ndarray()):
    for i in x:
        x[i] = 1


array = np.zeros(3, "float32")
array.flags.writeable = False
fill(array)
print(array.flags.writeable, array.tolist())
assert array.tolist() == [1, 1, 1]
EOF
"$folder/venv/bin/python" "$folder/program.py"
