#!/usr/bin/env bash
# xarray 2026.9 saves times with the units and the dtype of the file that they came from. It looks with care
# whether int64 can hold them in these units, and takes finer units with a warning if not. Then it casts them to
# the dtype of the file, without a check. So a file of int32, a usual dtype for times, makes other times of those
# that do not fit. A missing time (NaT), as shift and reindex make, becomes the first time of the units.
#
# Seen: two times in hours since 2026-01-01, read from a file of int32 and shifted by one, are NaT and 2026-01-01.
# Saved and read again, both are 2026-01-01; there is no warning. One millisecond added to the first of the
# original times makes 2025-12-18T00:40:28.928 of the second, 2026-12-01; the warning tells only of the units.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 pandas==3.1.1 scipy==1.17.1 xarray==2026.9.0
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
import xarray as xr

times = np.array(["2026-01-01", "2026-12-01"], "M8[ns]")
hours = np.array([0, 334 * 24], np.int32)
xr.Dataset({"time": ("n", hours, {"units": "hours since 2026-01-01"})}).to_netcdf("hours.nc", engine="scipy")
data = xr.load_dataset("hours.nc", engine="scipy")


def saved(data):
    data.to_netcdf("saved.nc", engine="scipy")
    return xr.load_dataset("saved.nc", engine="scipy").time.values


with warnings.catch_warnings():
    warnings.simplefilter("error")  # so that a warning would be seen
    assert (saved(data) == times).all()
    shifted = data.shift(n=1)
    assert np.isnat(shifted.time.values[0]) and shifted.time.values[1] == times[0]
    seen = saved(shifted)
    print(seen)
    assert (seen == times[0]).all()
    seen = saved(data.assign_coords(n=[0, 1]).reindex(n=[0, 1, 2]))
    print(seen)
    assert (seen == times[[0, 1, 0]]).all()

data.time.values[0] += np.timedelta64(1, "ms")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    seen = saved(data)
(warning,) = caught
print(seen, warning.message)
assert "Serializing with units 'milliseconds since 2026-01-01' instead" in str(warning.message)
assert (seen == np.array(["2026-01-01T00:00:00.001", "2025-12-18T00:40:28.928"], "M8[ns]")).all()
END
cd "$folder"
"$folder/venv/bin/python" "$folder/program.py"
