#!/usr/bin/env bash
# DescrStatsW of statsmodels 0.15 takes weights that count how often a number occurs. A number with the weight 0 occurs
# not at all, and mean, var and the count ignore it. quantile does not: where the sum of the weights up to a number is
# just the share that is asked for, it averages this number and the next one, also if that has the weight 0. So the
# median lies near a number that is not there. There is no warning. The other numbers repeated by their weights give
# the right one, and so does a sample without those of weight 0. One would have expected the same from all three. It
# matters since a weight of 0 is how a sample is restricted to a group. Drop the numbers of weight 0 before.
#
# Seen: the median of 10, 100 and 1000 with the weights 1, 0 and 1 is 55, and of 10 and 1000 it is 505, as is the mean
# of both. With 20 instead of 100 it is 15.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 pandas==3.1.1 scipy==1.17.1 statsmodels==0.15.0
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
from statsmodels.stats.weightstats import DescrStatsW

warnings.simplefilter("error")  # so that a warning would be seen


def quantiles(numbers, weights):
    """The quartiles of weighted numbers, of those that occur, and of each repeated by its weight."""
    numbers, weights = np.array(numbers, float), np.array(weights)
    occur = weights > 0
    samples = (
        DescrStatsW(numbers, weights),
        DescrStatsW(numbers[occur], weights[occur]),
        DescrStatsW(np.repeat(numbers, weights)),
    )
    found = [sample.quantile([0.25, 0.5, 0.75], return_pandas=False).tolist() for sample in samples]
    print(numbers, weights, *found)
    assert len({(sample.mean, sample.var, sample.nobs) for sample in samples}) == 1
    repeated = np.quantile(np.repeat(numbers, weights), [0.25, 0.5, 0.75], method="averaged_inverted_cdf")
    assert found[1] == found[2] == repeated.tolist()
    return found[0], found[1]


assert quantiles([10, 100, 1000], [1, 0, 1]) == ([10, 55, 1000], [10, 505, 1000])
assert quantiles([10, 20, 1000], [1, 0, 1]) == ([10, 15, 1000], [10, 505, 1000])
assert quantiles([10, 100, 1000], [2, 0, 2]) == ([10, 55, 1000], [10, 505, 1000])
assert quantiles([1, 2, 3, 4], [1, 0, 2, 1]) == ([1.5, 3, 3.5], [2, 3, 3.5])
seen, right = quantiles([10, 100, 1000], [1, 0, 2])
assert seen == right
seen, right = quantiles([10, 100, 1000], [1, 1, 1])
assert seen == right
END
"$folder/venv/bin/python" "$folder/program.py"
