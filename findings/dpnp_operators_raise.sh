#!/usr/bin/env bash
# The operators of dpnp 0.20's arrays raise a TypeError for an operand that they do not know, and do not
# return NotImplemented. So Python never asks the reflected operator of the right operand, whatever it
# defines; NumPy's arrays give way to one with __array_ufunc__ = None. dpnp's arrays have that attribute
# themselves, so NumPy's ufuncs refuse them.
#
# Seen: dpnp.ones(2) + other raises, and np.ones(2) + other gives "reflected", as other + dpnp.ones(2) may.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q dpnp==0.20.0 dpctl==0.22.1 intel-opencl-rt==2026.2.0 numpy==2.4.6
cat > "$folder/program.py" <<'EOF'
import dpnp
import numpy as np


class Other:
    __array_ufunc__ = None

    def __radd__(self, left):
        return "reflected"


print(np.ones(2) + Other(), dpnp.ndarray.__array_ufunc__)
assert np.ones(2) + Other() == "reflected"
assert dpnp.ndarray.__array_ufunc__ is None
try:
    print(dpnp.ones(2) + Other())
except TypeError as error:
    print(error)
    assert "supported type" in str(error)
else:
    raise SystemExit("dpnp asks the other operand")
EOF
OCL_ICD_FILENAMES="$folder/venv/lib/libintelocl.so" "$folder/venv/bin/python" "$folder/program.py"
