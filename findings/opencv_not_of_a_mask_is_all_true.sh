#!/usr/bin/env bash
# OpenCV 5.0 is the first to take and to return arrays of bool; OpenCV 4 refuses them. cv2.bitwise_not of such an array
# inverts all eight bits of each byte, and returns the bytes 254 and 255 as an array of bool. NumPy prints both as True.
# So the inverse of a mask selects everything. There is no warning. The other bitwise functions of OpenCV are right for
# bool, and so is ~ of NumPy. One would have expected the inverse, or an error as cv2.add gives for bool. It matters
# since background and foreground are a mask and its inverse. Use ~mask, or cv2.bitwise_xor with an array of True.
#
# Seen: of a mask with 3 of 12 pixels, bitwise_not has 12 True pixels, of the bytes 254 and 255, where ~ has 9.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 opencv-python-headless==5.0.0.93
cat > "$folder/program.py" <<'END'
import warnings

import cv2
import numpy as np

warnings.simplefilter("error")  # so that a warning would be seen
mask = np.zeros((3, 4), bool)
mask[1, :3] = True
inverse = cv2.bitwise_not(mask)
print(inverse.dtype, inverse.tolist(), inverse.view("u1").tolist(), inverse.sum())
assert inverse.dtype == bool and inverse.all()
assert set(inverse.view("u1").ravel().tolist()) == {254, 255}

image = np.full((3, 4), 7.0, np.float32)
print(np.count_nonzero(mask), np.count_nonzero(inverse), image[inverse].size)
assert image[mask].size == 3 and image[inverse].size == 12 and image[~mask].size == 9

ones = np.ones_like(mask)
assert np.array_equal(cv2.bitwise_xor(mask, ones), ~mask)
assert np.array_equal(cv2.bitwise_and(mask, ones), mask)
assert np.array_equal(cv2.bitwise_or(mask, ones), ones)
try:
    cv2.add(mask, mask)
except cv2.error as error:
    print(str(error).strip())
else:
    raise AssertionError("cv2.add does not refuse bool")
END
"$folder/venv/bin/python" "$folder/program.py"
