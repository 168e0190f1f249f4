#!/usr/bin/env bash
# scipy.stats.mstats.ttest_rel of SciPy 1.17, the t-test of pairs for masked arrays, takes the differences of the pairs
# that have both numbers, but the count of the numbers of its first argument. If the other array lacks numbers that the
# first one has, the count is too large, so t and the degrees of freedom are, and p is too small. There is no warning.
# With the arguments exchanged t differs by more than its sign. pearsonr of the same module counts the pairs, and so do
# scipy.stats.ttest_rel for these arrays, and with NaN and nan_policy="omit". One would have expected the same from
# both: the documentation refers to it for details. It matters since it finds effects where there are none.
#
# Seen: of 12 pairs the first array lacks 1 number and the second 4 others, which leaves 7. t is -2.82 and p 0.018, as
# for 11 pairs, and with the arrays exchanged 2.41 and 0.047, as for 8. Of the 7 pairs they are -2.25 and 0.065.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 scipy==1.17.1
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
from scipy import stats
from scipy.stats import mstats

warnings.simplefilter("error")  # so that a warning would be seen
places = np.arange(12)
before = np.array([10.1, 12.4, 9.3, 11.0, 8.7, 10.9, 12.2, 9.9, 10.4, 11.6, 9.1, 10.7])
after = before + np.array([0.9, -0.1, 1.4, 0.4, 1.1, -0.4, 0.8, 0.6, -0.2, 1.3, 0.1, 0.7])
first, second = np.ma.array(before, mask=places < 1), np.ma.array(after, mask=places >= 8)
both = ~(first.mask | second.mask)


def t_test(left, right):
    found = mstats.ttest_rel(left, right)
    return float(found.statistic), float(found.pvalue)


def by_hand(count):
    """The t-test of the pairs, with a count that may be another one than that of the pairs."""
    differences = (before - after)[both]
    t = differences.mean() / np.sqrt(differences.var(ddof=1) / count)
    return t, 2 * stats.t.sf(abs(t), count - 1)


print(first.count(), second.count(), both.sum())
print(t_test(first, second), t_test(second, first), by_hand(both.sum()))
assert both.sum() == 7
assert np.allclose(t_test(first, second), by_hand(11))
t, p = t_test(second, first)
assert np.allclose([-t, p], by_hand(8))

right = by_hand(7)
assert t_test(first, second)[1] < 0.05 < right[1]
assert np.allclose(stats.ttest_rel(first, second), right)
assert np.allclose(stats.ttest_rel(first.filled(np.nan), second.filled(np.nan), nan_policy="omit"), right)
assert np.allclose(t_test(first[both], second[both]), right)
assert np.allclose(mstats.ttest_1samp(first - second, 0), right)
assert np.isclose(mstats.pearsonr(first, second)[0], np.corrcoef(before[both], after[both])[0, 1])
END
"$folder/venv/bin/python" "$folder/program.py"
