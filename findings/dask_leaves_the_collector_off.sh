#!/usr/bin/env bash
# Dask 2026.8 turns Python's garbage collector off for each index that it takes, and afterwards puts it back to the
# state that it had when dask.array was imported, not to the one before the index. If the module was imported while
# the collector was off, as programs with many imports do to start faster, one index of a Dask array leaves the
# collector off for the rest of the process, though gc.enable() was called in between: cycles pile up, silently. The
# other way round, a program that works with the collector off finds it on.
#
# Seen: after gc.disable(), import dask.array, gc.enable(): gc.isenabled() is True before x[1:3], False after it, and
# 2,000 dropped cycles stay alive; after import dask.array, gc.disable(): False before x[1:3], True after it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 dask==2026.8.0
cat > "$folder/off.py" <<'EOF'
import gc
import weakref

gc.disable()
import dask.array as da

gc.enable()


class Node:
    def __init__(self):
        self.itself = self


def alive():
    nodes = []
    for _ in range(2000):
        nodes.append(weakref.ref(Node()))
    return sum(node() is not None for node in nodes)


x = da.arange(10, chunks=5)
before = gc.isenabled(), alive()
x[1:3]
after = gc.isenabled(), alive()
print(before, after)
assert before[0] and before[1] < 1000, before
assert after == (False, 2000), after
gc.enable()
x[1:3].compute()
assert not gc.isenabled()
EOF
cat > "$folder/on.py" <<'EOF'
import gc

import dask.array as da

gc.disable()
x = da.arange(10, chunks=5)
before = gc.isenabled()
x[1:3]
print(before, gc.isenabled())
assert (before, gc.isenabled()) == (False, True)
EOF
"$folder/venv/bin/python" "$folder/off.py"
"$folder/venv/bin/python" "$folder/on.py"
