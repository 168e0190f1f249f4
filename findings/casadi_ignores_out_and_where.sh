#!/usr/bin/env bash
# NumPy's ufuncs beside an array of CasADi 3.8.2 ignore `out=` and `where=`, without an error: CasADi's
# __array_ufunc__ takes them and drops them. So an ndarray passed as `out` keeps its old values, and
# `array += x` binds the name to a new CasADi array, while other references keep the old ndarray.
#
# Seen: after np.add(ones, DM([1, 1, 1]), out=out), out is [0, 0, 0]; where=[True, False, True] changes all
# three elements.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 casadi==3.8.2
"$folder/venv/bin/python" -W ignore - <<'EOF'
import casadi
import numpy as np

x = casadi.DM([1, 1, 1])
out = np.zeros(3)
result = np.add(np.ones(3), x, out=out)
masked = np.add(x, 1, where=np.array([True, False, True]))
array = kept = np.ones(3)
array += x
print("out:", out, "result:", result, "where:", masked, "+=:", type(array).__name__, kept)
assert out.tolist() == [0, 0, 0] and result.full().ravel().tolist() == [2, 2, 2]
assert masked.full().ravel().tolist() == [2, 2, 2]
assert isinstance(array, casadi.DM) and kept.tolist() == [1, 1, 1]
EOF
