#!/usr/bin/env bash
# fastparquet 2026.9 keeps the categories of a column in each row group, and reads all row groups by those of the
# last one. So an append of rows with other categories, or with the same ones in another order, changes the rows
# that were there before, as it reads them, without a word. PyArrow reads the same file right. An append of
# columns of other names is refused.
#
# Seen: [low, high] and then [high, top] is [high, top, high, top], and with the categories (high, low) for
# [low, high] after (low, high) for [low, low], the latter are [high, high].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 pandas==3.1.1 fastparquet==2026.9.0 pyarrow==26.0.1
cat > "$folder/program.py" <<'END'
import warnings

import fastparquet
import pandas as pd
import pyarrow.parquet

warnings.simplefilter("error")  # so that a warning would be seen
warnings.simplefilter("ignore", ResourceWarning)


def appended(first, second):
    fastparquet.write("file.parquet", pd.DataFrame({"a": first}))
    assert fastparquet.ParquetFile("file.parquet").to_pandas()["a"].tolist() == list(first)
    fastparquet.write("file.parquet", pd.DataFrame({"a": second}), append=True)
    assert pyarrow.parquet.read_table("file.parquet")["a"].to_pylist() == list(first) + list(second)
    seen = fastparquet.ParquetFile("file.parquet").to_pandas()["a"].tolist()
    print(list(first), list(second), "->", seen)
    return seen


first = pd.Categorical(["low", "high"], categories=["low", "high"])
second = pd.Categorical(["high", "top"], categories=["high", "top"])
assert appended(first, second) == ["high", "top", "high", "top"]
first = pd.Categorical(["low", "low"], categories=["low", "high"])
second = pd.Categorical(["low", "high"], categories=["high", "low"])
assert appended(first, second) == ["high", "high", "low", "high"]
try:
    fastparquet.write("file.parquet", pd.DataFrame({"b": first}), append=True)
except ValueError as error:
    assert "Column names of new data" in str(error)
else:
    raise AssertionError("other names are not refused")
END
cd "$folder"
"$folder/venv/bin/python" "$folder/program.py"
