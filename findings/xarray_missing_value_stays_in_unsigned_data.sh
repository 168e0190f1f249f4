#!/usr/bin/env bash
# NetCDF files mark unsigned integers in a signed variable by the attribute _Unsigned = "true". Their missing_value has
# the type of the variable, so 255 is -1 in the file. xarray 2026.9 reads the numbers as unsigned, and compares them
# with a missing_value that it leaves signed, so it finds none, and a missing number stays as 255, or as 255 times the
# scale. There is no warning, and the array becomes one of floats, as if some were missing. It reads _FillValue right
# for the same variable, and missing_value without _Unsigned. netCDF4 masks both. One would have expected NaN, as for
# _FillValue. It matters since satellites' files have such variables, and a missing pixel becomes the brightest one.
#
# Seen: the bytes 1, -1 and -2 with the missing_value -1 are 1, 255 and 254 in float32, and with the scale_factor 0.5
# they are 0.5, 127.5 and 127. netCDF4 has 1, masked and 254, and with a _FillValue of -1 xarray has 1, NaN and 254.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 pandas==3.1.1 netCDF4==1.7.5.1.post1 xarray==2026.9.0
cat > "$folder/program.py" <<'END'
import sys
import warnings

import netCDF4
import numpy as np
import xarray as xr

warnings.simplefilter("error")  # so that a warning would be seen
name = sys.argv[1]


def read(numbers, dtype, attribute, missing, unsigned=True, scale=1.0):
    """The numbers of a file as xarray reads them, and the mask of netCDF4."""
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("x", len(numbers))
        fill_value = missing if attribute == "_FillValue" else None
        variable = file.createVariable("pixels", dtype, ("x",), fill_value=fill_value)
        variable.set_auto_maskandscale(False)
        if attribute == "missing_value":
            variable.missing_value = np.dtype(dtype).type(missing)
        if unsigned:
            variable._Unsigned = "true"
        if scale != 1:
            variable.scale_factor = scale
        variable[:] = np.array(numbers, dtype)
    with netCDF4.Dataset(name) as file:
        masked = file["pixels"][:]
    with xr.open_dataset(name) as file:
        found = file["pixels"].values
    print(dtype, attribute, masked, found, found.dtype)
    assert found.dtype.kind == "f"
    assert masked.mask.tolist() == [False, True, False]
    assert found[::2].tolist() == masked.data[::2].tolist()
    return found.tolist()


for dtype, largest in (("i1", 255), ("i2", 65535)):
    assert read([1, -1, -2], dtype, "missing_value", -1) == [1, largest, largest - 1]
    assert np.isnan(read([1, -1, -2], dtype, "_FillValue", -1)[1])
assert read([1, -128, -2], "i1", "missing_value", -128) == [1, 128, 254]
assert read([1, -1, -2], "i1", "missing_value", -1, scale=0.5) == [0.5, 127.5, 127]
assert np.isnan(read([1, -1, -2], "i1", "_FillValue", -1, scale=0.5)[1])
assert np.isnan(read([1, 255, 254], "u1", "missing_value", 255, unsigned=False)[1])
assert np.isnan(read([1, -1, 2], "i1", "missing_value", -1, unsigned=False)[1])
END
"$folder/venv/bin/python" "$folder/program.py" "$folder/pixels.nc"
