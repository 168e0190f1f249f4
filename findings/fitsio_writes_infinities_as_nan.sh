#!/usr/bin/env bash
# fitsio 1.4 stores the infinities of an image as NaN, in float32 and float64 and without a word. It reads those that
# Astropy wrote, and stores infinities in the columns of tables, so that a test of either finds nothing. FITS has
# IEEE floats, infinities included, so one would have expected them back. It matters since an infinite weight or
# an overflow, to be told from a missing pixel, becomes one.
#
# Seen: of [[1.5, inf], [-inf, nan]], Astropy reads [[1.5, nan], [nan, nan]] in the file of fitsio, compressed or
# not; from its own file, fitsio reads all four numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 fitsio==1.4.2 astropy==8.0.2
cat > "$folder/program.py" <<'END'
import warnings

import fitsio
import numpy as np
from astropy.io import fits

warnings.simplefilter("error")  # so that a warning would be seen


def same(a, b):
    return np.array_equal(a, b, equal_nan=True)


for dtype in ("f4", "f8"):
    image = np.array([[1.5, np.inf], [-np.inf, np.nan]], dtype)
    fits.PrimaryHDU(image).writeto("astropy.fits", overwrite=True)
    assert same(fitsio.read("astropy.fits"), image)
    fitsio.write("fitsio.fits", image, clobber=True)
    seen = fits.getdata("fitsio.fits")
    print(seen)
    assert same(seen, [[1.5, np.nan], [np.nan, np.nan]])
    assert same(fitsio.read("fitsio.fits"), seen)
    fitsio.write("fitsio.fits", image, clobber=True, compress="gzip", qlevel=0)
    assert same(fits.getdata("fitsio.fits", 1), seen)
    fitsio.write("fitsio.fits", np.array([(np.inf,), (-np.inf,)], [("a", dtype)]), clobber=True)
    assert fits.getdata("fitsio.fits")["a"].tolist() == [np.inf, -np.inf]
END
cd "$folder"
"$folder/venv/bin/python" "$folder/program.py"
