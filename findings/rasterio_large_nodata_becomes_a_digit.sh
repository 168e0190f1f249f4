#!/usr/bin/env bash
# rasterio 1.4 hands the nodata value of a band of 64-bit integers to GDAL as a float. GDAL writes it into the GeoTIFF
# as the text of that float, and reads this text as an integer, up to the first character that is no digit. So from
# 10**17 on, where the text has an exponent, one digit is left: the smallest int64, the usual nodata value, becomes
# -9, and -10**18 becomes -1. There is no warning. The gaps count as data, and pixels that hold the digit are masked.
# The smallest int32 works, and the largest int64 and uint64, which no float holds, raise. One would have expected
# the value back, or an error. Use a nodata value that float64 holds and that is smaller, such as -2**53.
#
# Seen: of [-2**63, -9, 5] with nodata=-2**63 the file has nodata -9.0 and masks -9; of [-10**18, -1, 5] with
# nodata=-10**18 it has -1.0 and masks -1. The texts in the files are "-9.2233720368547758e+18" and "-1e+18".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 rasterio==1.4.4
cat > "$folder/program.py" <<'END'
import pathlib
import warnings

import numpy as np
import rasterio

warnings.simplefilter("error")  # so that a warning would be seen
warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)


def written(dtype, nodata, digit):
    """The nodata value and the mask of a file of three pixels."""
    image = np.array([[nodata, digit, 5]], dtype)
    with rasterio.open(
        "image.tif", "w", driver="GTiff", height=1, width=3, count=1, dtype=dtype, nodata=nodata
    ) as file:
        file.write(image, 1)
    with rasterio.open("image.tif") as file:
        assert (file.read(1) == image).all()
        return file.nodata, file.read(1, masked=True).mask.tolist()


for nodata, digit, text in ((-(2**63), -9, b"-9.2233720368547758e+18"), (-(10**18), -1, b"-1e+18")):
    seen = written("int64", nodata, digit)
    print(seen)
    assert seen == (digit, [[False, True, False]])
    assert text in pathlib.Path("image.tif").read_bytes()
assert written("uint64", 2**63, 9) == (9.0, [[False, True, False]])
for dtype, nodata in (("int32", -(2**31)), ("uint32", 2**32 - 1), ("int64", -(2**53)), ("int64", -(10**16))):
    assert written(dtype, nodata, 1) == (nodata, [[True, False, False]])
for dtype in ("int64", "uint64"):
    try:
        written(dtype, np.iinfo(dtype).max, 1)
    except ValueError as error:
        assert "beyond the valid range" in str(error)
    else:
        raise AssertionError("no error")
END
cd "$folder"
"$folder/venv/bin/python" "$folder/program.py"
