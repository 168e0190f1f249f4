#!/usr/bin/env bash
# dpnp 0.20 treats Python integers that do not fit into the dtype of an array in three ways: arithmetic
# raises an OverflowError, as in NumPy; full_like, copyto and pad wrap them around, where NumPy raises; and
# comparisons raise, where NumPy compares the numbers. Integers to negative powers are 0, also 1 ** -1; NumPy
# raises.
#
# Seen: full_like(int8, 300) gives 44, int8 < 300 raises, and int8 ** -1 gives 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q dpnp==0.20.0 dpctl==0.22.1 intel-opencl-rt==2026.2.0 numpy==2.4.6
cat > "$folder/program.py" <<'EOF'
import dpnp
import numpy as np

array = np.array([1, 2, 3], np.int8)
x = dpnp.asarray(array)


def answer(function):
    try:
        return function().tolist()
    except Exception as error:
        return type(error).__name__


calls = {
    "add": lambda xp, a: a + 300,
    "less": lambda xp, a: a < 300,
    "full_like": lambda xp, a: xp.full_like(a, 300),
    "power": lambda xp, a: a**-1,
}
found = {name: [answer(lambda: call(np, array)), answer(lambda: call(dpnp, x))] for name, call in calls.items()}
print(found)
assert found == {
    "add": ["OverflowError", "OverflowError"],
    "less": [[True, True, True], "OverflowError"],
    "full_like": ["OverflowError", [44, 44, 44]],
    "power": ["ValueError", [0, 0, 0]],
}
EOF
OCL_ICD_FILENAMES="$folder/venv/lib/libintelocl.so" "$folder/venv/bin/python" "$folder/program.py"
