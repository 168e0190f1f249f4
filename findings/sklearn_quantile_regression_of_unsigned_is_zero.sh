#!/usr/bin/env bash
# QuantileRegressor of scikit-learn 1.9 negates the features and puts ones and minus ones beside them in their own
# dtype, to state a linear program. In unsigned integers, such as the pixels of images or counts, the minus signs wrap
# around, and the program is another one. The solver reports success, so there is no warning: all coefficients are 0,
# and so is each prediction. 25 other regressors give the same for these features as for floats. One would have
# expected that here, since fit documents any array-like. It matters since a model without use is a usual outcome.
# Convert the features to float64 before.
#
# Seen: for the features 1 to 5 of uint8 and the targets 40, 30, 20, 10, 0 all predictions are 0, with an intercept
# of 0, and with the default alpha too. For int8 and float64 they are the targets.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
from sklearn.linear_model import QuantileRegressor, Ridge

warnings.simplefilter("error")  # so that a warning would be seen
features = np.array([[1], [2], [3], [4], [5]])
targets = np.array([40.0, 30, 20, 10, 0])


def predicted(dtype, model):
    x = features.astype(dtype)
    return model.fit(x, targets).predict(x)


for dtype in ("u1", "u2", "u4"):
    seen = predicted(dtype, QuantileRegressor(alpha=0))
    print(dtype, seen)
    assert np.array_equal(seen, [0] * 5)
    assert np.array_equal(predicted(dtype, QuantileRegressor()), [0] * 5)
    assert np.allclose(predicted(dtype, Ridge(alpha=0)), targets)
for dtype in ("i1", "i2", "i4", "i8", "f4", "f8"):
    assert np.allclose(predicted(dtype, QuantileRegressor(alpha=0)), targets)
    assert np.allclose(predicted(dtype, QuantileRegressor()), [20] * 5)
END
"$folder/venv/bin/python" "$folder/program.py"
