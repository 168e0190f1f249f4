#!/usr/bin/env bash
# Paddle 3.3 takes an ndarray of uint16 for the bytes of bfloat16 in to_tensor, without a warning. Arrays of
# int32 keep their numbers and their dtype.
#
# Seen: to_tensor of uint16 [16256, 16384] is bfloat16 [1.0, 2.0].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 paddlepaddle==3.3.1
cat > "$folder/program.py" <<'EOF'
import numpy as np
import paddle

numbers = [16256, 16384]
taken = paddle.to_tensor(np.array(numbers, "uint16"))
values = taken.astype("float32").tolist()
kept = paddle.to_tensor(np.array(numbers, "int32"))
print(taken.dtype, values, kept.dtype, kept.tolist())
assert (taken.dtype, values) == (paddle.bfloat16, [1.0, 2.0])
assert (kept.dtype, kept.tolist()) == (paddle.int32, numbers)
EOF
"$folder/venv/bin/python" "$folder/program.py"
