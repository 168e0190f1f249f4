#!/usr/bin/env bash
# scipy.signal.wiener of SciPy 1.17, a filter that removes noise from images, squares the pixels in their own dtype.
# So for 8 bits, which most images have, and for 16 bits from the value 256 on, or 182 in int16, squares wrap around,
# the variance around a pixel is a chance number, and the result, of float64, has values that no pixel is near. There
# is no warning. Larger integers and floats are right. One would have expected the same numbers for the same pixels:
# the documentation names no dtype, and calls the filter similar to wiener2 of Matlab, which takes uint8. Convert the
# image to float64 before.
#
# Seen: an image of 64 x 64 pixels, with a dark and a bright half and noise, has the values 9 to 233. Away from its
# border the filter gives 22 to 218 in float64, and -325 to 384 in uint8, where 601 of 3600 pixels are outside 0 to
# 255. It is as wrong in int16, and in uint16 for ten times the values.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 scipy==1.17.1
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
from scipy.signal import wiener

warnings.simplefilter("error")  # so that a warning would be seen
columns = np.arange(64)
noise = np.random.default_rng(0).normal(0, 8, (64, 64))
image = (np.where(columns < 32, 40, 210) + noise).round()


def inner(pixels):
    """The filtered image without the border, whose neighbours are zeros."""
    return wiener(pixels, 5)[2:-2, 2:-2]


def outside(filtered):
    return np.count_nonzero((filtered < 0) | (filtered > 255))


right, seen = inner(image), inner(image.astype("u1"))
for pixels in (image, right, seen):
    print(pixels.dtype, pixels.min(), pixels.max())
print(outside(seen), "of", seen.size, "outside")
assert seen.dtype == right.dtype == np.float64
assert outside(image) == outside(right) == 0 and outside(seen) == 601
for dtype in ("i4", "u4", "i8", "f4"):
    assert np.allclose(inner(image.astype(dtype)), right, atol=0.01)
assert np.array_equal(inner(image.astype("u2")), right)
for pixels, dtype in ((image, "i2"), (10 * image, "u2")):
    assert np.abs(inner(pixels.astype(dtype)) - inner(pixels)).max() > 1000
END
"$folder/venv/bin/python" "$folder/program.py"
