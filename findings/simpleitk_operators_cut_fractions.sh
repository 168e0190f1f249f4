#!/usr/bin/env bash
# The operators of SimpleITK 2.5 between an image of integers and a number cast the number to the type of the
# pixels first, without a word. So a factor or a threshold loses its fraction, and a threshold beyond the range of
# the pixels becomes another one. Only / computes in floats. A NumPy number on the left does something else: it
# takes the image for a sequence of pixels, and gives a flat ndarray with the right numbers.
#
# Seen: for an image of the uint8 pixels [[100], [255]], image * 0.5 is [[0], [0]], image == 100.5 holds for 100,
# and image < 300 does not hold for 255. np.float64(0.5) * image is the ndarray [50, 127.5].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 simpleitk==2.5.7
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
import SimpleITK

warnings.simplefilter("error")  # so that a warning would be seen
image = SimpleITK.GetImageFromArray(np.array([[100], [255]], np.uint8))


def pixels(result):
    pixels = SimpleITK.GetArrayFromImage(result)
    print(pixels.dtype, pixels.tolist())
    return pixels.tolist()


assert pixels(image / 2) == [[50], [127.5]]
assert pixels(image * 0.5) == pixels(0.5 * image) == [[0], [0]]
assert pixels(image == 100.5) == [[1], [0]]
assert pixels(image < 300)[1] == [0]
flat = np.float64(0.5) * image
print(type(flat), flat)
assert isinstance(flat, np.ndarray) and flat.tolist() == [50, 127.5]
END
"$folder/venv/bin/python" "$folder/program.py"
