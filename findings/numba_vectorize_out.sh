#!/bin/sh
# Numba 0.68.1 with NumPy 2.4.6.
#
# Surprise: a ufunc of numba.vectorize calls __array_ufunc__ of its operands itself, and not as NumPy does. NumPy passes what is written as keyword `out`, always a tuple, also if it was given by
# position. Numba passes `out` as it was given, bare, and leaves one given by position among the inputs. So the
# loop over `inputs + out` of NumPy's own example of __array_ufunc__ (NDArrayOperatorsMixin) raises TypeError.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numba==0.68.1 numpy==2.4.6
cat > "$folder/program.py" <<'PROGRAM'
import numpy as np
from numba import vectorize


class Duck:
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return len(inputs), type(kwargs.get("out")).__name__


def twice(x):
    return x * 2


ufuncs = {"NumPy": np.negative, "signature": vectorize(["f8(f8)"])(twice), "dynamic": vectorize(twice)}
for name, ufunc in ufuncs.items():
    print(name, "keyword:", *ufunc(np.ones(3), out=Duck()), "position:", *ufunc(np.ones(3), Duck()))
PROGRAM
"$folder/venv/bin/python" "$folder/program.py" > "$folder/found"
cat > "$folder/expected" <<'OUTPUT'
NumPy keyword: 1 tuple position: 1 tuple
signature keyword: 1 Duck position: 2 NoneType
dynamic keyword: 1 Duck position: 2 NoneType
OUTPUT
cat "$folder/found"
diff "$folder/expected" "$folder/found"
