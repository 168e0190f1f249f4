#!/usr/bin/env bash
# Paddle 3.3 compares tensors with == to numbers, ndarrays and tensors alone. For anything else, also a list
# or an array of another library, == is False and != is True, in place of a tensor or an error. Operators
# such as + raise a TypeError there.
#
# Seen: [True, True] for an ndarray of equal numbers, False for a list of them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 paddlepaddle==3.3.1
cat > "$folder/program.py" <<'EOF'
import numpy as np
import paddle

tensor = paddle.to_tensor([1.0, 2.0])
array = np.array([1.0, 2.0], "float32")
print((tensor == array).tolist(), tensor == [1.0, 2.0], tensor != [1.0, 2.0])
assert (tensor == array).tolist() == [True, True]
assert (tensor == [1.0, 2.0]) is False
assert (tensor != [1.0, 2.0]) is True
EOF
"$folder/venv/bin/python" "$folder/program.py"
