#!/usr/bin/env bash
# ffill and bfill of xarray 2026.9 fill missing numbers. Integers have none, yet integers of 64 bits lose digits if
# Numbagg 0.9, which xarray prefers to Bottleneck, is installed: it computes in float64, and the result is int64
# again, so nothing tells. A whole Dataset is filled at once, with the integers in it. Bottleneck 1.6, its other
# library for this, keeps them. One would have expected integers as they were; it matters since identifiers change.
#
# Seen: 9007199254740993, beside a column with a gap that is to be filled, becomes 9007199254740992, int64.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 pandas==3.1.1 xarray==2026.9.0 bottleneck==1.6.0
cat > "$folder/program.py" <<'END'
import sys
import warnings

import numpy as np
import xarray as xr

warnings.simplefilter("error")  # so that a warning would be seen
number = 2**53 + 1
data = xr.Dataset({"name": ("n", np.array([number, 5])), "value": ("n", [1.5, np.nan])})
for filled in (data.ffill("n"), data.isel(n=[1, 0]).bfill("n")):
    seen = sorted(filled.name.values.tolist())
    print(seen, filled.name.dtype)
    assert filled.name.dtype == np.int64
    assert seen == [5, int(sys.argv[1])]
assert data.ffill("n").value.values.tolist() == [1.5, 1.5]
END
"$folder/venv/bin/python" "$folder/program.py" 9007199254740993
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numba==0.68.1 numbagg==0.9.6
"$folder/venv/bin/python" "$folder/program.py" 9007199254740992
