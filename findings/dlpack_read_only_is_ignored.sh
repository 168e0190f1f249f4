#!/usr/bin/env bash
# DLPack marks memory that must not be written with a flag, which NumPy sets for a read-only array and
# obeys. PyTorch 2.13 and Paddle 3.3 take such memory without a copy and let their tensors write into it.
#
# Seen: both change an array whose writeable flag is False; NumPy's from_dlpack gives a read-only array.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 torch==2.13.0 paddlepaddle==3.3.1
cat > "$folder/program.py" <<'EOF'
import numpy as np
import paddle
import torch

for take in (torch.from_dlpack, paddle.from_dlpack):
    array = np.arange(3, dtype="float32")
    array.flags.writeable = False
    take(array).fill_(9)
    print(take.__module__, array.flags.writeable, array.tolist())
    assert array.tolist() == [9, 9, 9]
assert not np.from_dlpack(array).flags.writeable
EOF
"$folder/venv/bin/python" "$folder/program.py"
