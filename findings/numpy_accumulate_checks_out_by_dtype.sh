#!/usr/bin/env bash
# Whether np.cumsum(x, out=out) and np.add.accumulate(x, out=out) of NumPy 2.4.6 take an `out` with more axes
# than x depends on the dtypes. If no element has to be converted, a ValueError says that it has the wrong
# size. Otherwise the first column of `out` is written, and the rest is left as it was, without an error.
# (NumPy 2.5.5 refuses both.)
#
# Seen: beside an out of shape (3, 3) and float64, full of 9, a float64 array of 3 elements is refused, and
# an int32 array writes 1, 3, 6 into the first column.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6
cat > "$folder/program.py" <<'EOF'
import numpy as np

for function in (np.cumsum, np.add.accumulate):
    out = np.full((3, 3), 9.0)
    try:
        function(np.array([1.0, 2.0, 3.0]), out=out)
    except ValueError as error:
        print(error)
    else:
        raise AssertionError("it took float64")
    assert (out == 9).all()
    function(np.array([1, 2, 3], np.int32), out=out)
    print(out.tolist())
    assert out[:, 0].tolist() == [1, 3, 6]
    assert (out[:, 1:] == 9).all()
EOF
"$folder/venv/bin/python" "$folder/program.py"
