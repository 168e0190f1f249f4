#!/usr/bin/env bash
# np.ptp of Pint 0.25, the largest value minus the smallest, gives a range of temperatures in degrees Celsius the unit
# of temperatures, and not that of differences (delta_degree_Celsius). So a conversion to kelvin adds 273.15, and one
# to Fahrenheit 32. There is no error. np.max(t) - np.min(t), np.diff, np.std and np.gradient of the same array are
# differences, as Pint documents for a subtraction. One would have expected the same number of kelvins. It matters
# since a range is often what is compared with a limit or multiplied by a heat capacity.
#
# Seen: np.ptp of 20, 25 and 22 degrees Celsius is 278.15 K and 41 degrees Fahrenheit, and max - min 5 K. It is more
# than a limit of 100 K.
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
temperatures = units.Quantity(np.array([20.0, 25, 22]), "degree_Celsius")

spread = np.ptp(temperatures)
print(spread, "is", spread.to("kelvin"), "and", spread.to("degree_Fahrenheit"))
assert spread.units == units.degree_Celsius and spread.magnitude == 5
assert np.isclose(spread.m_as("kelvin"), 278.15)
assert np.isclose(spread.m_as("degree_Fahrenheit"), 41)
assert spread > units.Quantity(100, "kelvin")

difference = np.max(temperatures) - np.min(temperatures)
print(difference, "is", difference.to("kelvin"))
assert np.isclose(difference.m_as("kelvin"), 5) and difference < units.Quantity(100, "kelvin")
for function in (np.diff, np.ediff1d, np.gradient, np.std, np.nanstd):
    assert function(temperatures).units == units.delta_degree_Celsius
kelvins = temperatures.to("kelvin")
assert np.isclose(np.ptp(kelvins).m_as("kelvin"), 5)
END
"$folder/venv/bin/python" "$folder/program.py"
