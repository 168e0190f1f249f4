#!/usr/bin/env bash
# tvm_ffi.from_dlpack of tvm-ffi 0.1.15 takes arrays of complex numbers, and gives them back by DLPack, but
# the attribute dtype of such a tensor raises a ValueError.
#
# Seen: NumPy gets [1j, 2j] back; dtype raises "DLDataType contains unknown type_code=5".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 apache-tvm-ffi==0.1.15.post2
cat > "$folder/program.py" <<'EOF'
import numpy as np
import tvm_ffi

tensor = tvm_ffi.from_dlpack(np.array([1j, 2j]))
print(np.from_dlpack(tensor))
try:
    found = str(tensor.dtype)
except ValueError as error:
    found = f"ValueError: {error}"
print(found)
assert np.from_dlpack(tensor).tolist() == [1j, 2j]
assert found.startswith("ValueError: DLDataType contains unknown type_code=5")
EOF
"$folder/venv/bin/python" "$folder/program.py"
