#!/usr/bin/env bash
# mahotas.haar(x, inline=True) of mahotas 1.4.19 writes into a read-only array, and raises ValueError
# only afterwards, when it divides by 2. So an image that must not change is transformed, and the
# error says that the array is read-only.
#
# Seen: "output array is read-only", and the array has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 mahotas==1.4.19
cat > "$folder/program.py" <<'EOF'
import mahotas
import numpy as np

image = np.arange(16, dtype=np.float32).reshape(4, 4)
before = image.copy()
image.flags.writeable = False
try:
    mahotas.haar(image, inline=True)
except ValueError as error:
    print(error, image.tolist())
else:
    raise SystemExit("no error")
assert not np.array_equal(image, before)
EOF
"$folder/venv/bin/python" "$folder/program.py"
