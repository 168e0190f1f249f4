#!/usr/bin/env bash
# CasADi 3.8.2 takes a boolean mask in an index, an ndarray or a list, for the numbers 0 and 1. So a mask
# never selects: it repeats the first two elements, in reading and in assignments. NumPy selects.
#
# Seen: DM([10, 20, 30])[mask] with the mask [True, False, True] is [20, 10, 20]; an ndarray gives [10, 30].
# An assignment of 0 with this mask leaves [0, 0, 30]; an ndarray is [0, 20, 0] then.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 casadi==3.8.2
"$folder/venv/bin/python" -W ignore - <<'EOF'
import casadi
import numpy as np

mask = np.array([True, False, True])
x = casadi.DM([10, 20, 30])
read = x[mask].full().ravel().tolist()
read_by_list = x[mask.tolist()].full().ravel().tolist()
x[mask] = 0
written = x.full().ravel().tolist()
print("read:", read, read_by_list, "after the assignment:", written)
assert read == read_by_list == [20, 10, 20]
assert written == [0, 0, 30]
array = np.array([10, 20, 30])
assert array[mask].tolist() == [10, 30]
EOF
