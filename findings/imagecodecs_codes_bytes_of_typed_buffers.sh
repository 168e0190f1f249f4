#!/usr/bin/env bash
# imagecodecs 2026.3 codes numbers only if they are in an ndarray. For any other buffer, such as a
# memoryview or an array.array of 16-bit integers, delta_encode and xor_encode silently code the single
# bytes, whatever the buffer's format says. The result has the same length, and decoding it as numbers
# gives other ones.
#
# Seen: delta_encode of [1, 2, 4, 7] is [1, 1, 2, 3] from an ndarray, [65281, 65026, 64516, 63751] from
# a memoryview of it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 imagecodecs==2026.3.6
cat > "$folder/program.py" <<'EOF'
import imagecodecs
import numpy as np

array = np.array([1, 2, 4, 7], np.uint16)
of_array = imagecodecs.delta_encode(array).tolist()
of_view = np.frombuffer(imagecodecs.delta_encode(memoryview(array)), np.uint16).tolist()
print(memoryview(array).format, of_array, of_view)
assert of_array == [1, 1, 2, 3]
assert of_view == [65281, 65026, 64516, 63751]
EOF
"$folder/venv/bin/python" "$folder/program.py"
