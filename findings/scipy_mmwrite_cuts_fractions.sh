#!/usr/bin/env bash
# scipy.io.mmwrite of SciPy 1.17 and 1.18 takes a dense array of float16, or of floats in the other byte order, for
# one of integers: it cuts the fractions, and the header of the file says "integer". Such floats come from half
# precision networks and from FITS and NetCDF files. There is no warning; one would have expected the numbers, as
# from the same array in native float32 or float64, or an error, as from sparse arrays of these dtypes. It matters
# since a matrix of numbers below 1 becomes one of zeros.
#
# Seen: [[0.5, 2.75]] of float16, and of big-endian float32 and float64, is [[0, 2]], int64, when it is read.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 scipy==1.17.1
cat > "$folder/program.py" <<'END'
import pathlib
import warnings

import numpy as np
import scipy.io
import scipy.sparse

warnings.simplefilter("error")  # so that a warning would be seen
numbers = np.array([[0.5, 2.75]])


def copied(array):
    scipy.io.mmwrite("file.mtx", array)
    return scipy.io.mmread("file.mtx")


for dtype in ("<f4", "<f8"):
    assert copied(numbers.astype(dtype)).tolist() == [[0.5, 2.75]]
for dtype in ("f2", ">f4", ">f8"):
    seen = copied(numbers.astype(dtype))
    header = pathlib.Path("file.mtx").read_text().splitlines()[0]
    print(dtype, seen, header)
    assert seen.tolist() == [[0, 2]] and seen.dtype == np.int64
    assert header == "%%MatrixMarket matrix array integer general"
    try:
        scipy.io.mmwrite("file.mtx", scipy.sparse.coo_array(numbers.astype(dtype)))
    except ValueError as error:
        assert "does not support dtype" in str(error)
    else:
        raise AssertionError("the sparse array is not refused")
END
cd "$folder"
"$folder/venv/bin/python" "$folder/program.py"
