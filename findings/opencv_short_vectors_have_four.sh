#!/usr/bin/env bash
# OpenCV 5.0.0 takes a 1-D array of at most four elements for one of its scalars, which have four. So add,
# subtract, multiply, divide and absdiff of two such arrays, of one shape and dtype, give shape (4, 1),
# padded by what the function makes of zeros, and leave an array that was passed as `dst` as it was, without
# an error. Arrays of five elements keep their shape, and so do max, min and sqrt of three.
#
# Seen: add of [1, 2, 3] and itself is [2, 4, 6, 0], of shape (4, 1), and its dst of 3 elements is zeros.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 opencv-python-headless==5.0.0.93
"$folder/venv/bin/python" - <<'EOF'
import cv2
import numpy as np

three = np.array([1, 2, 3], np.float32)
out = np.zeros(3, np.float32)
total = cv2.add(three, three, dst=out)
quotient = cv2.divide(three, three)
largest = np.zeros(3, np.float32)
cv2.max(three, three, dst=largest)
five = np.ones(5, np.float32)
print("add of three:", total.shape, total.ravel().tolist(), "dst:", out.tolist())
print("divide of three:", quotient.ravel().tolist())
print("max of three:", largest.tolist())
print("add of five:", cv2.add(five, five).shape)
assert total.shape == (4, 1) and total.ravel().tolist() == [2, 4, 6, 0]
assert out.tolist() == [0, 0, 0]
assert quotient.shape == (4, 1) and np.isnan(quotient[3, 0])
assert largest.tolist() == [1, 2, 3]
assert cv2.add(five, five).shape == (5,)
EOF
