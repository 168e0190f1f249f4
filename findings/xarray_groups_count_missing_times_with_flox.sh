#!/usr/bin/env bash
# groupby and resample of xarray 2026.9 use flox as soon as it is installed, and it knows no missing times (NaT) but
# in a few functions. count counts them, the maximum of a group passes over them where xarray alone gives NaT, as
# NumPy does, and a sum of durations takes NaT for the smallest int64. There is no warning. The variance of complex
# numbers becomes complex as well. One would have expected flox to change the speed alone. It matters since another
# package in an environment changes the results of the same program.
#
# Seen: of 2026-01-01, NaT the count is 1 without flox 0.11 and 2 with it, and the maximum NaT and 2026-01-01; the
# sum of 2 s and NaT is NaT and -9223372036854775806 s; the variance of 1 + 1j and 2 is 0.5 and -0.5j.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 pandas==3.1.1 xarray==2026.9.0
cat > "$folder/program.py" <<'END'
import importlib.util
import warnings

import numpy as np
import xarray as xr

with_flox = importlib.util.find_spec("flox") is not None
warnings.simplefilter("error")  # so that a warning would be seen
day = np.array(["2026-01-01", "2026-01-02", "2026-02-01"], "M8[ns]")
times = np.array(["2026-01-01", "NaT", "2026-02-03"], "M8[ns]")
durations = np.array([2, "NaT", 3], "m8[s]")


def grouped(values):
    return xr.DataArray(values, dims="n", coords={"group": ("n", [0, 0, 1])}).groupby("group")


count, largest = grouped(times).count().values, grouped(times).max().values
months = xr.DataArray(times, dims="day", coords={"day": day}).resample(day="MS").count().values
total = grouped(durations).sum().values.astype(np.int64)
variance = grouped(np.array([1 + 1j, 2, 3])).var().values
print(with_flox, count, largest, months, total, variance)
assert largest[1] == times[2] and total[1] == 3
if with_flox:
    assert count.tolist() == months.tolist() == [2, 1]
    assert largest[0] == times[0]
    assert total[0] == 2 - 2**63
    assert variance.tolist() == [-0.5j, 0]
else:
    assert count.tolist() == months.tolist() == [1, 1]
    assert np.isnat(largest[0])
    assert total[0] == -(2**63)
    assert variance.tolist() == [0.5, 0]
END
"$folder/venv/bin/python" "$folder/program.py"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numba==0.68.1 numpy-groupies==0.16.0 numbagg==0.9.6 flox==0.11.2
"$folder/venv/bin/python" "$folder/program.py"
