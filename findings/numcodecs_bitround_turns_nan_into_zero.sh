#!/usr/bin/env bash
# The codec BitRound of numcodecs 0.16 rounds the bits of a float as if they were an integer. For a NaN with all
# bits of its fraction set, the carry runs through the exponent into the sign, so that the NaN becomes a zero of
# the other sign, without a word. NVIDIA's GPUs make such a NaN for float32, 0x7fffffff; NumPy's own NaN,
# 0x7fc00000, stays NaN.
#
# Seen: of the float32 numbers 0x7fffffff, 0xffffffff and NumPy's NaN, BitRound(keepbits=10) makes -0.0, 0.0 and
# NaN, and so does BitRound for float16 and float64. A mean that skips NaN changes with that.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 numcodecs==0.16.6
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
from numcodecs import BitRound

warnings.simplefilter("error")  # so that a warning would be seen
for size, keepbits in (2, 5), (4, 10), (8, 20):
    codec = BitRound(keepbits)
    all_set = np.array([2 ** (8 * size - 1) - 1, 2 ** (8 * size) - 1], f"u{size}").view(f"f{size}")
    numbers = np.append(all_set, np.array([np.nan, 3], f"f{size}"))
    assert np.isnan(numbers[:3]).all()
    seen = codec.decode(codec.encode(numbers))
    print(seen)
    assert seen.dtype == numbers.dtype
    assert seen[0] == seen[1] == 0 and list(np.signbit(seen[:2])) == [True, False]
    assert np.isnan(seen[2])
    assert np.nanmean(numbers) == 3 and np.nanmean(seen) == 1
END
"$folder/venv/bin/python" "$folder/program.py"
