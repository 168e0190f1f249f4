#!/usr/bin/env bash
# np.mod, np.remainder, np.fmod and np.floor_divide of quantities of Pint 0.25 neither convert nor check the unit of
# the divisor. They compute with the bare numbers, and give the unit of the dividend, or a quotient of both units, to
# the result. There is no warning. The operators % and // of the same quantities, and divmod, convert, and refuse
# another dimension, and for ndarrays NumPy's functions are those operators. np.add and np.hypot of Pint convert. One
# would have expected the same from both. It matters since code for arrays that reduces angles or times of a day uses
# np.mod.
#
# Seen: np.mod of 30, 90 and 150 minutes and 1 hour is 0 minutes three times, where % gives 30. np.mod of 450 degrees
# and 1 turn is 0 degrees, where % gives 90. np.floor_divide of 90 minutes and 1 hour is 90 minute/hour, which is 1.5.
# np.mod of 90.5 minutes and 1 metre is 0.5 minutes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 pint==0.25.3
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
import pint

warnings.simplefilter("error")  # so that a warning would be seen
units = pint.UnitRegistry()
Q = units.Quantity
minutes, hour = Q(np.array([30.0, 90, 150]), "minute"), Q(1.0, "hour")

for function in (np.mod, np.remainder, np.fmod):
    print(function.__name__, function(minutes, hour), minutes % hour)
    assert function(minutes, hour).m_as("minute").tolist() == [0, 0, 0]
    assert function(Q(90.5, "minute"), Q(1.0, "metre")) == Q(0.5, "minute")
assert np.allclose((minutes % hour).m_as("minute"), 30)
assert np.mod(Q(450.0, "degree"), Q(1.0, "turn")) == Q(0.0, "degree")
assert np.isclose((Q(450.0, "degree") % Q(1.0, "turn")).m_as("degree"), 90)
assert np.floor_divide(Q(90.0, "minute"), hour).to("dimensionless") == 1.5
assert Q(90.0, "minute") // hour == divmod(Q(90.0, "minute"), hour)[0] == 1
assert np.mod(minutes, hour.to("minute")).m_as("minute").tolist() == [30, 30, 30]
assert np.add(Q(90.0, "minute"), hour) == Q(150.0, "minute")
try:
    Q(90.5, "minute") % Q(1.0, "metre")
except pint.DimensionalityError as error:
    print(error)
else:
    raise AssertionError("the operator does not refuse metres")
END
"$folder/venv/bin/python" "$folder/program.py"
