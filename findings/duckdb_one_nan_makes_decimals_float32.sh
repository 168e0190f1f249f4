#!/usr/bin/env bash
# DuckDB 2.0 reads a column of decimal.Decimal from a pandas DataFrame as DECIMAL. If one of them is Decimal("NaN"),
# or infinite, the whole column becomes FLOAT, of 32 bits and 7 digits, and not DOUBLE. There is no warning. With None
# or the float NaN instead the column stays DECIMAL, and one float among them makes it DOUBLE. If the digits before
# and after the point are more than 38 together, DuckDB drops the last ones of all numbers, and small ones become 0.
# One would have expected DOUBLE, or an error. It matters since people use Decimal for amounts of money, where a NaN
# is a missing one. Replace Decimal("NaN") by None.
#
# Seen: 123456789.01 with Decimal("NaN") is 123456792.0, and a join finds it equal to 123456795.00; with None it is
# 123456789.01, and equals nothing. 1E+20 and 1E-20 together are DECIMAL(38,17), and the latter is 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 pandas==3.1.1 duckdb==2.0.1
cat > "$folder/program.py" <<'END'
import warnings
from decimal import Decimal

import duckdb
import pandas as pd

warnings.simplefilter("error")  # so that a warning would be seen
amount = Decimal("123456789.01")


def read(*items):
    """The type of the column in DuckDB, and its items."""
    frame = pd.DataFrame({"amount": pd.Series(items, dtype=object)})
    column = duckdb.sql("SELECT amount FROM frame")
    found = [row[0] for row in column.fetchall()]
    print(items, column.types, found)
    return str(column.types[0]), found


assert read(amount, None) == ("DECIMAL(11,2)", [amount, None])
assert read(amount, float("nan")) == ("DECIMAL(11,2)", [amount, None])
assert read(amount, 0.5) == ("DOUBLE", [123456789.01, 0.5])
for other in ("NaN", "Infinity"):
    kind, found = read(amount, Decimal(other))
    assert kind == "FLOAT" and found[0] == 123456792.0
assert read(Decimal("1E+20"), Decimal("1E-20")) == ("DECIMAL(38,17)", [Decimal("1E+20"), 0])

paid = pd.DataFrame({"amount": [Decimal("123456795.00")]})
for missing, rows in ((None, 0), (Decimal("NaN"), 1)):
    due = pd.DataFrame({"amount": pd.Series([amount, missing], dtype=object)})
    assert len(duckdb.sql("SELECT * FROM due JOIN paid USING (amount)").fetchall()) == rows
END
"$folder/venv/bin/python" "$folder/program.py"
