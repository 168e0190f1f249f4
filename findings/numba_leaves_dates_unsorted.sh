#!/usr/bin/env bash
# Functions compiled by Numba 0.68 do not sort dates or durations if one is missing (NaT). Numba compares with NaT as
# NumPy does, always False, and its sort, which moves NaN to the end, does not know NaT: it stays where it is, and
# the rest is sorted in parts. So np.sort, np.argsort and np.unique return unsorted dates, np.unique repeats NaT, and
# the median of durations depends on their order. Each is listed among the supported functions, and Numba's fastmath
# is not in use. One would have expected NumPy's results, as for floats with NaN in np.sort. It matters since searches
# and differences of neighbours rely on the order. Sort dates.view("int64"), where NaT is the smallest number.
#
# Seen: np.sort of [2026-01-03, NaT, 2026-01-02, 2026-01-01, NaT, 2025-01-01] is [2026-01-03, NaT, 2026-01-01,
# 2026-01-02, NaT, 2025-01-01]; np.unique is the same. The median of the durations of 0 and 365 days and NaT, NaT in
# NumPy, is NaT or 365 days, depending on the order.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 numba==0.68.1
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
from numba import njit

warnings.simplefilter("error")  # so that a warning would be seen
sort = njit(lambda array: np.sort(array))
unique = njit(lambda array: np.unique(array))
median = njit(lambda array: np.median(array))
dates = np.array(["2026-01-03", "NaT", "2026-01-02", "2026-01-01", "NaT", "2025-01-01"], "M8[D]")
parts = np.array(["2026-01-03", "NaT", "2026-01-01", "2026-01-02", "NaT", "2025-01-01"], "M8[D]")


def same(a, b):
    return np.array_equal(a, b, equal_nan=True)


seen = sort(dates)
print(seen)
assert same(seen, parts) and not same(seen, np.sort(dates))
assert same(unique(dates), parts) and len(np.unique(dates)) == 5
floats = np.array([3, np.nan, 2, 1, np.nan, 0])
assert same(sort(floats), np.sort(floats))
assert same(sort(dates[2:4]), np.sort(dates[2:4]))

days = [np.array(numbers, "m8[D]") for numbers in (["NaT", 365, 0], [365, "NaT", 0], [365, 0, "NaT"])]
seen = [median(numbers) for numbers in days]
print(seen)
assert same(seen, np.array([365, "NaT", 365], "m8[D]"))
assert all(np.isnat(np.median(numbers)) for numbers in days)
END
"$folder/venv/bin/python" "$folder/program.py"
