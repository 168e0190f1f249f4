#!/usr/bin/env bash
# safetensors.numpy.save of safetensors 0.8 saves an array in the order of its memory, with its shape, and
# says nothing. So what is loaded has other elements if the array is transposed.
#
# Seen: saved [[0, 3], [1, 4], [2, 5]], loaded [[0, 1], [2, 3], [4, 5]].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 safetensors==0.8.0
cat > "$folder/program.py" <<'EOF'
import numpy as np
from safetensors.numpy import load, save

saved = np.arange(6.0).reshape(2, 3).T
loaded = load(save({"x": saved}))["x"]
print(saved.tolist(), loaded.tolist())
assert loaded.tolist() == [[0, 1], [2, 3], [4, 5]]
EOF
"$folder/venv/bin/python" "$folder/program.py"
