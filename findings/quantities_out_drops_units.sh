#!/usr/bin/env bash
# NumPy's ufuncs beside arrays of quantities 0.16 neither check nor convert units if they get `out=`. The bare
# numbers are combined, and the result keeps the unit that `out` had. Without `out`, the same calls raise a
# ValueError that the units differ, or give the right unit.
#
# Seen: np.add(1 m, 50 cm, out=q) leaves 51 m in a q of metres and 51 cm in one of centimetres, 1 m + 5 s is
# 6 m, and np.sqrt(4 m²) is 2 m², where the operator + gives 1.5 m, and np.sqrt alone 2 m.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 quantities==0.16.4
cat > "$folder/program.py" <<'EOF'
import numpy as np
import quantities as pq


def with_out(ufunc, *operands, unit):
    out = np.zeros(1) * unit
    ufunc(*operands, out=out)
    assert out.units == unit
    print(ufunc.__name__, *operands, "->", out)
    return out.magnitude.item()


metre = np.ones(1) * pq.m
centimetres = np.full(1, 50.0) * pq.cm
seconds = np.full(1, 5.0) * pq.s
area = np.full(1, 4.0) * pq.m**2

assert (metre + centimetres).magnitude == 1.5
assert np.sqrt(area).units == pq.m
for other in (centimetres, seconds):
    try:
        np.add(metre, other)
    except ValueError as error:
        assert "must have identical units" in str(error)
    else:
        raise AssertionError("np.add takes different units")

assert with_out(np.add, metre, centimetres, unit=pq.m) == 51
assert with_out(np.add, metre, centimetres, unit=pq.cm) == 51
assert with_out(np.add, metre, seconds, unit=pq.m) == 6
assert with_out(np.sqrt, area, unit=pq.m**2) == 2
EOF
"$folder/venv/bin/python" "$folder/program.py"
