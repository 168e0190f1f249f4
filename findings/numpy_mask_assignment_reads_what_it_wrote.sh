#!/usr/bin/env bash
# NumPy 2.4 lets a value overlap the array that it is assigned to: slices of one step, index arrays, `copyto` with
# `where=`, `put`, `place`, `putmask`, `take` and `compress` with `out=`, ufuncs and `cumsum` all behave as if the
# value were a copy. Two ways to write the same do not: an assignment to a boolean mask, and one to `a.flat[:]` or
# `a.flat[...]`. They copy element by element and read what they have written a moment ago, so that half of the values
# are lost, silently. An assignment to `a.flat` itself is right.
#
# Seen, for a = arange(6) and the value a[::-1]: [5 4 3 2 1 0] with a[:], a[indices], copyto and a.flat = value;
# [5 4 3 3 4 5] with a[mask], a.flat[:] and a.flat[...].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6
cat > "$folder/program.py" <<'EOF'
import numpy as np

everything = np.ones(6, np.bool_)
indices = np.arange(6)


def set_flat(a, value):
    a.flat = value


ways = {
    "a[:]": lambda a, value: a.__setitem__(slice(None), value),
    "a[indices]": lambda a, value: a.__setitem__(indices, value),
    "copyto": lambda a, value: np.copyto(a, value, where=everything),
    "put": lambda a, value: np.put(a, indices, value),
    "place": lambda a, value: np.place(a, everything, value),
    "putmask": lambda a, value: np.putmask(a, everything, value),
    "take": lambda a, value: np.take(value, indices, out=a),
    "compress": lambda a, value: np.compress(everything, value, out=a),
    "a.flat": set_flat,
    "a[mask]": lambda a, value: a.__setitem__(everything, value),
    "a.flat[:]": lambda a, value: a.flat.__setitem__(slice(None), value),
    "a.flat[...]": lambda a, value: a.flat.__setitem__(..., value),
}
wrong = []
for name, assign in ways.items():
    a = np.arange(6)
    assign(a, a[::-1])
    print(f"{name:12}", a)
    if a.tolist() != [5, 4, 3, 2, 1, 0]:
        assert a.tolist() == [5, 4, 3, 3, 4, 5]
        wrong.append(name)
assert wrong == ["a[mask]", "a.flat[:]", "a.flat[...]"], wrong
EOF
"$folder/venv/bin/python" "$folder/program.py"
