#!/usr/bin/env bash
# max_error and median_absolute_error of scikit-learn 1.9 subtract the predictions from the targets, or the targets
# from the predictions, in their own dtype. For unsigned integers, such as pixels, counts and ratings, the difference
# wraps around if it is negative. There is no warning. One subtracts the other way round, so a set of predictions
# makes one of them wrong and the other right. The mean of the absolute and of the squared errors, r2_score and the
# others are right for the same arrays, so the largest error may be less than the median one. One would have expected
# the metrics of one module to agree. It matters since a scorer of either chooses another model. Convert to int64.
#
# Seen: in uint8 the targets 10, 20, 30, 40 and the predictions 12, 21, 33, 44 have the mean error 2.5, the median
# 2.5 and the largest 255 instead of 4. With both exchanged the largest is 4 and the median 253.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
from sklearn.metrics import max_error, mean_absolute_error, mean_squared_error, median_absolute_error

warnings.simplefilter("error")  # so that a warning would be seen


def errors(targets, predictions, dtype):
    """The mean, the median and the largest error."""
    arrays = np.array(targets, dtype), np.array(predictions, dtype)
    assert mean_squared_error(*arrays) == 7.5
    found = [metric(*arrays) for metric in (mean_absolute_error, median_absolute_error, max_error)]
    print(dtype, *found)
    return [float(error) for error in found]


low, high = [10, 20, 30, 40], [12, 21, 33, 44]
for dtype in ("i1", "i2", "i8", "f4", "f8"):
    assert errors(low, high, dtype) == errors(high, low, dtype) == [2.5, 2.5, 4]
for dtype, largest in (("u1", 255), ("u2", 65535), ("u4", 2**32 - 1)):
    assert errors(low, high, dtype) == [2.5, 2.5, largest]
    assert errors(high, low, dtype) == [2.5, largest - 1.5, 4]
END
"$folder/venv/bin/python" "$folder/program.py"
