#!/usr/bin/env bash
# CompImageHDU of Astropy 8.0 has two arguments that matter for floats: quantize_level=0 turns off the
# quantization, and compression_type is RICE_1 unless given. Together they neither keep the floats nor raise: the
# file stores each float cut to a 32-bit integer, says BITPIX -32, and gives whole floats back. NumPy warns only
# of floats that are no such integers, as NaN. With the default quantize_level the same small image is exact, and
# with quantize_level=0 and GZIP_2 too. RICE_1 refuses int64 numbers that do not fit into 32 bits.
#
# Seen: [[0.25, 1.75], [-2.5, 3.5]] comes back as [[0, 1], [-2, 3]], of float32. [[nan, 1.5], [1e10, 3.5]] comes
# back as [[-2147483648, 1], [-2147483648, 3]].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 astropy==8.0.2
cat > "$folder/program.py" <<'END'
import io
import warnings

import numpy as np
from astropy.io import fits

warnings.simplefilter("error")  # so that a warning would be seen


def written(image, **options):
    file = io.BytesIO()
    fits.CompImageHDU(image, **options).writeto(file)
    file.seek(0)
    with fits.open(file) as units:
        assert units[1].header["BITPIX"] == -32
        return units[1].data.copy()


image = np.array([[0.25, 1.75], [-2.5, 3.5]], np.float32)
assert np.array_equal(written(image), image)
assert np.array_equal(written(image, quantize_level=0, compression_type="GZIP_2"), image)
seen = written(image, quantize_level=0)
print(seen)
assert seen.dtype == np.float32
assert seen.tolist() == [[0, 1], [-2, 3]]

try:
    written(np.full((2, 2), 2**40), compression_type="RICE_1")
except ValueError as error:
    assert "cannot be converted to 32 bits without overflow" in str(error)
else:
    raise AssertionError("int64 is not refused")
warnings.simplefilter("ignore")
seen = written(np.array([[np.nan, 1.5], [1e10, 3.5]], np.float32), quantize_level=0)
print(seen)
assert seen.tolist() == [[-(2**31), 1], [-(2**31), 3]]
END
"$folder/venv/bin/python" "$folder/program.py"
