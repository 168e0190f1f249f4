#!/usr/bin/env bash
# JAX 0.10.2, CPU, does the opposite of what the keyword `copy` says, in both directions:
# - jax.dlpack.from_dlpack(a, copy=True) shares the memory of a NumPy array that begins at a multiple
#   of 64 bytes, so that a later write into the NumPy array changes the "immutable" JAX array.
# - jax.numpy.asarray(a, copy=False) copies the same array, without an error.
# Output seen:
#   from_dlpack copy=True: shared, and now [7.0, 1.0]
#   asarray copy=False: copied, and now [1.0, 1.0]
# Exits with 1 if that changes.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3.11}" -m venv venv
venv/bin/pip install -q jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat > program.py <<'EOF'
import numpy as np
import jax

lines = []
for name, take in (
    ("from_dlpack copy=True", lambda a: jax.dlpack.from_dlpack(a, copy=True)),
    ("asarray copy=False", lambda a: jax.numpy.asarray(a, copy=False)),
):
    memory = np.ones(64, "float32")
    start = -memory.ctypes.data % 64 // 4
    array = memory[start : start + 2]
    taken = take(array)
    shared = taken.unsafe_buffer_pointer() == array.ctypes.data
    array[0] = 7
    lines.append(f"{name}: {'shared' if shared else 'copied'}, and now {taken.tolist()}")
print(*lines, sep="\n")
expected = ["from_dlpack copy=True: shared, and now [7.0, 1.0]", "asarray copy=False: copied, and now [1.0, 1.0]"]
raise SystemExit(lines != expected)
EOF
JAX_PLATFORMS=cpu venv/bin/python program.py
