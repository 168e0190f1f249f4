#!/usr/bin/env bash
# MLX 0.32 and TensorFlow 2.21 convert a floating-point ndarray on the right of an integer array to
# integers, without a word, although MLX promotes to floats for a number in its place, and TensorFlow
# refuses one.
#
# Seen: mx.array([1, 2]) + np.array([1.5, 2.5]) and tf.constant([1, 2]) + np.array([1.5, 2.5]) are
# [2, 4], int32; mx.array([1, 2]) + 1.5 is [2.5, 3.5]; tf.constant([1, 2]) + 1.5 raises.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 'mlx[cpu]==0.32.4' tensorflow-cpu==2.21.0
cat > "$folder/program.py" <<'EOF'
import mlx.core as mx
import numpy as np
import tensorflow as tf

array = np.array([1.5, 2.5], np.float32)
for integers in (mx.array([1, 2]), tf.constant([1, 2])):
    result = integers + array
    print(result)
    assert np.array(result).tolist() == [2, 4]
assert np.array(mx.array([1, 2]) + 1.5).tolist() == [2.5, 3.5]
try:
    tf.constant([1, 2]) + 1.5
except tf.errors.InvalidArgumentError:
    pass
else:
    raise SystemExit("no error")
EOF
"$folder/venv/bin/python" "$folder/program.py"
