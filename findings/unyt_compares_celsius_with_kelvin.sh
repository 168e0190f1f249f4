#!/usr/bin/env bash
# unyt 3.2 compares a temperature in degrees Celsius or Fahrenheit with one in kelvin as if both scales began
# at the same point, also in np.maximum and np.minimum. With kelvin on the left it raises, conversions are
# right, and so is np.isclose.
#
# Seen: 20 °C < 280 K is True, though 20 °C is 293.15 K; the maximum of both is 280 °C. 20 °C == 293.15 K is
# False, np.isclose of them True.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 unyt==3.2.0
cat > "$folder/program.py" <<'EOF'
import numpy as np
from unyt import unyt_array
from unyt.exceptions import InvalidUnitOperation

warm = unyt_array([20.0], "degC")
cold = unyt_array([280.0], "K")
same = warm.to("K")
print(warm < cold, same < cold, np.maximum(warm, cold), warm == same, np.isclose(warm, same))
assert abs(same.value[0] - (20 + 273.15)) < 1e-9
assert (warm < cold).all()
assert not (same < cold).any()
assert np.maximum(warm, cold).value.tolist() == [280]
assert str(np.maximum(warm, cold).units) == "°C"
assert not (warm == same).any()
assert np.isclose(warm, same).all()
try:
    cold > warm
except InvalidUnitOperation as error:
    print(error)
else:
    raise AssertionError("it compares kelvin with degrees Celsius")
EOF
"$folder/venv/bin/python" "$folder/program.py"
