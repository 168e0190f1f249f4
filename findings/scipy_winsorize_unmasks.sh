#!/usr/bin/env bash
# scipy.stats.mstats.winsorize of SciPy 1.17, which replaces the smallest and the largest numbers of a masked array by
# the nearest ones that remain, replaces the masked numbers as well, and unmasks them: each becomes the largest number
# that remains. The mask is gone, so a mean or a maximum counts numbers that never were, and all on the upper side.
# There is no warning. An upper limit of None keeps them masked, and trimboth and trimtail of the module do, too. One
# would have expected masked ones to stay: the documentation says that masked values are skipped. It matters since the
# function is for data with errors, which have gaps. Winsorize array.compressed() instead.
#
# Seen: 1, 2, 3, 4, a masked number, 6, 7, another one, 9 and 10 with the limits 0.25 become 3, 3, 3, 4, 7, 6, 7, 7, 7
# and 7, of which none is masked. The mean is 5.4 instead of 5.0, and an upper limit of 0 unmasks as well.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 scipy==1.17.1
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
from scipy.stats import mstats

warnings.simplefilter("error")  # so that a warning would be seen
numbers = np.ma.masked_equal([1.0, 2, 3, 4, -99, 6, 7, -99, 9, 10], -99)
before = numbers.copy()


def winsorize(*limits):
    """The winsorized numbers, of which none is masked, and those of the array without the masked ones."""
    found = mstats.winsorize(numbers, limits=limits)
    right = mstats.winsorize(numbers.compressed(), limits=limits)
    print(limits, found, found.mean(), right, right.mean())
    assert found.count() == 10 and numbers.count() == right.count() == 8
    assert found[~numbers.mask].tolist() == right.tolist()
    assert set(found[numbers.mask].tolist()) == {right.max()}
    return found.tolist(), found.mean(), right.mean()


found, mean, right = winsorize(0.25, 0.25)
assert found == [3, 3, 3, 4, 7, 6, 7, 7, 7, 7]
assert np.isclose([mean, right], [5.4, 5.0]).all()
for limits in ((0.0, 0.1), (0.1, 0.0), (0.0, 0.0)):
    winsorize(*limits)

for kept in (mstats.winsorize(numbers, limits=(0.25, None)), mstats.trimboth(numbers), mstats.trimtail(numbers)):
    assert kept.mask[numbers.mask].all()
assert np.array_equal(numbers.mask, before.mask)
END
"$folder/venv/bin/python" "$folder/program.py"
