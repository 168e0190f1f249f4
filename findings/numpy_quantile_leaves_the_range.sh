#!/usr/bin/env bash
# np.quantile and np.percentile of NumPy 2.4 subtract two neighbouring elements in the dtype of the array, where
# the difference of two signed integers may wrap around. The result is float64, as documented, so nothing
# tells: it lies outside of the range of the elements. np.median of the same array is right. pandas' quantile
# and describe call NumPy, and give the same.
#
# Seen: the quantiles 0.25, 0.5 and 0.75 of the int8 numbers -100 and 100 are -114, 128 and 114, not -50, 0
# and 50.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 pandas==3.1.1
cat > "$folder/program.py" <<'EOF'
import statistics

import numpy as np
import pandas as pd

numbers = [-100, 100]
x = np.array(numbers, np.int8)
q = [0.25, 0.5, 0.75]
expected = statistics.quantiles(numbers, n=4, method="inclusive")
assert expected == [-50, 0, 50]
np.testing.assert_array_equal(np.quantile(x.astype(np.int16), q), expected)
assert np.median(x) == 0

series = pd.Series(x)
for name, seen in (
    ("np.quantile", np.quantile(x, q)),
    ("np.percentile", np.percentile(x, [25, 50, 75])),
    ("pandas' quantile", series.quantile(q)),
    ("pandas' describe", series.describe()[["25%", "50%", "75%"]]),
):
    print(name, np.asarray(seen).tolist())
    np.testing.assert_array_equal(seen, [-114, 128, 114])
    assert seen.dtype == np.float64
EOF
"$folder/venv/bin/python" "$folder/program.py"
