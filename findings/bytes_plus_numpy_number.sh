#!/bin/sh
# NumPy 2.4: bytes + a NumPy number is no TypeError. It appends the bytes of the number in memory,
# because bytes join any buffer and NumPy scalars export one. A bytearray in their place becomes an array
# of numbers, to which the number is added.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6
"$folder/venv/bin/python" - >"$folder/seen" <<'PROGRAM'
import numpy as np

print(b"a" + np.int8(65), b"a" + np.float32(1), bytearray(b"a") + np.int8(65))
PROGRAM
cat >"$folder/expected" <<'OUTPUT'
b'aA' b'a\x00\x00\x80?' [162]
OUTPUT
diff "$folder/expected" "$folder/seen"
