#!/bin/sh
# NumPy 2.4: `flags.farray` and `flags["FARRAY"]` are documented as "BEHAVED and F_CONTIGUOUS and not
# C_CONTIGUOUS". They are True for an array with gaps, which is not contiguous in any order, and for a
# read-only Fortran array, which is not behaved.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6
"$folder/venv/bin/python" - >"$folder/seen" <<'PROGRAM'
import numpy as np

gaps = np.ones((4, 6))[:, ::2]
constant = np.ones((4, 6)).T
constant.flags.writeable = False
for array in (gaps, constant):
    flags = array.flags
    print(flags.farray, flags["FARRAY"], flags.f_contiguous, flags.behaved)
PROGRAM
cat >"$folder/expected" <<'OUTPUT'
True True False True
True True True False
OUTPUT
diff "$folder/expected" "$folder/seen"
