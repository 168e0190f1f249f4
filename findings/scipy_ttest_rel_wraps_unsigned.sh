#!/usr/bin/env bash
# scipy.stats.ttest_rel of SciPy 1.17, the t-test of pairs, subtracts one sample from the other in their own dtype. In
# unsigned integers, such as pixels, counts and scores read with the smallest dtype, each negative difference wraps
# around, so the result depends on the order of the samples, by more than its sign. There is no warning. wilcoxon, the
# other test of pairs, and ttest_ind give the same for these samples as for floats. One would have expected that here,
# since a - b in the notes of its documentation is a difference. It matters since a p-value looks like any other.
# Convert one sample to float64 before.
#
# Seen: for six pairs of uint8, most of which grow a bit, t is 5.02 with p = 0.004, and with the samples swapped 1.08
# with p = 0.33. As float64 they give -2.95 and 2.95, with p = 0.03.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 scipy==1.17.1
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
from scipy import stats

warnings.simplefilter("error")  # so that a warning would be seen
before = np.array([10, 200, 30, 5, 60, 70], np.uint8)
after = np.array([12, 199, 33, 9, 62, 75], np.uint8)


def results(test, dtype):
    """The statistic and the p-value of the samples, and of the samples swapped."""
    a, b = before.astype(dtype), after.astype(dtype)
    return [test(a, b).statistic, test(a, b).pvalue, test(b, a).statistic, test(b, a).pvalue]


for dtype in ("u1", "u2"):
    seen = results(stats.ttest_rel, dtype)
    print(dtype, np.round(seen, 3))
    assert seen[0] > 0 and seen[2] > 0  # both samples are the larger one
assert np.allclose(results(stats.ttest_rel, "u1"), [5.024, 0.004, 1.076, 0.331], atol=1e-3)
for dtype in ("i2", "f8"):
    assert np.allclose(results(stats.ttest_rel, dtype), [-2.953, 0.0318, 2.953, 0.0318], atol=1e-3)
for test in (stats.wilcoxon, stats.ttest_ind):
    assert np.allclose(results(test, "u1"), results(test, "f8"))
END
"$folder/venv/bin/python" "$folder/program.py"
