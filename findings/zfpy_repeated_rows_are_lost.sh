#!/usr/bin/env bash
# zfpy.compress_numpy of zfpy 1.0 obeys the strides of an array, but a stride of 0, as broadcast_to makes, means
# "no stride given" to the zfp library below. So a broadcast array is read as if it were contiguous: what lies in
# memory behind its one row is compressed in place of the repeated rows. Its mode without a tolerance is the exact
# one, and reversed, transposed and sliced arrays are right.
#
# Seen: the first row of [[0, 1, 2], [3, 4, 5]], broadcast to two rows, comes back as [[0, 1, 2], [3, 4, 5]], not
# [[0, 1, 2], [0, 1, 2]]; its first element, broadcast to three, comes back as [0, 1, 2].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 zfpy==1.0.1.post0
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
import zfpy

warnings.simplefilter("error")  # so that a warning would be seen
table = np.arange(6.0).reshape(2, 3)


def copied(array):
    return zfpy.decompress_numpy(zfpy.compress_numpy(array))


for array in (table, table[::-1, ::-2], table.T, np.repeat(table[:1], 2, axis=0)):
    assert np.array_equal(copied(array), array)
seen = copied(np.broadcast_to(table[0], (2, 3)))
print(seen)
assert seen.tolist() == [[0, 1, 2], [3, 4, 5]]
seen = copied(np.broadcast_to(table[0, :1], 3))
print(seen)
assert seen.tolist() == [0, 1, 2]
END
"$folder/venv/bin/python" "$folder/program.py"
