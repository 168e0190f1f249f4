#!/usr/bin/env bash
# DataArray.weighted of xarray 2026.9 adds the weights in their own dtype, and the products of numbers and weights in
# the dtype of both. Small integers, such as classes, counts and masks of 0 and 1 in files, wrap around there. mean, var
# and std divide one by the other and return floats, so nothing tells, and the numbers themselves may be floats. The
# sum and the mean without weights are right for the same arrays, and so is np.average with weights. One would have
# expected that here, too: the documentation speaks of no dtype. It matters since the mean over a mask of uint8 is right
# as long as the mask has at most 255 ones. Convert the weights to float64 before.
#
# Seen: the mean of 300 times 1.0 with the weight 1 of uint8 is 6.82, since the sum of the weights is 44. Of 256 times
# 1.0 it is NaN. The mean of 10, 200, 30 and 250 with the weights 200, 200, 100 and 3 is 90.95. With these weights in
# uint8 it is 185.22 for floats, and 0.74, below the smallest number, for uint8.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 pandas==3.1.1 xarray==2026.9.0
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
import xarray as xr

warnings.simplefilter("error")  # so that a warning would be seen


def mean(numbers, weights, dtype, weights_dtype):
    """The weighted mean by xarray, printed beside that of NumPy."""
    numbers = np.array(numbers, dtype)
    weights = np.array(weights, weights_dtype)
    found = xr.DataArray(numbers).weighted(xr.DataArray(weights)).mean()
    right = np.average(numbers, weights=weights)
    print(numbers.dtype, weights.dtype, float(found), float(right), found.dtype)
    assert found.dtype.kind == "f"
    assert numbers.min() <= right <= numbers.max()
    return float(found), float(right)


for count, seen in ((255, 1.0), (300, 300 / 44), (1000, 1000 / 232)):
    found, right = mean(np.ones(count), np.ones(count), "f8", "u1")
    assert right == 1 and np.isclose(found, seen)
ones, mask = xr.DataArray(np.ones(256)), xr.DataArray(np.ones(256, "u1"))
assert np.isnan(ones.weighted(mask).mean()) and mask.sum() == 256

numbers, weights = [10, 200, 30, 250], [200, 200, 100, 3]
for dtypes, seen in ((("f8", "u1"), 185.2227), (("u1", "u1"), 0.7368)):
    found, right = mean(numbers, weights, *dtypes)
    assert np.allclose([found, right], [seen, 90.9543], atol=1e-4)
for dtypes in (("i4", "i4"), ("u1", "f8"), ("f8", "i2"), ("f4", "f4")):
    assert np.allclose(*mean(numbers, weights, *dtypes))
END
"$folder/venv/bin/python" "$folder/program.py"
