#!/usr/bin/env bash
# A Parquet file states the smallest and the largest number of each group of rows, and by its specification NaN is
# neither, so that nothing there tells of NaN. PyArrow 26 and DuckDB 2.0 skip groups by these two numbers as if there
# were no NaN, so what a filter finds depends on the other rows of the group, and is less than the same filter finds
# in memory. A search for NaN itself finds none in DuckDB, and with PyArrow none in groups of one number. Polars 2.1
# finds all of them. There is no warning. DuckDB leaves the two numbers out of its own files with NaN, so a test of
# its files finds nothing. One would have expected a filter to select by values, and statistics to cost nothing but
# time. It matters since checks for NaN in the files of others pass. Filter after reading, or write with
# write_statistics=False.
#
# Seen: in a file of PyArrow with the groups [1, NaN, 1] and [2, 3, 0], DuckDB's isnan(x), x > 5 and x <> 1, which all
# hold for NaN in its tables, do not find it, and neither do PyArrow's is_nan and x != 1. In the groups [1, NaN, 2] and
# [3, 4, 0] those of PyArrow do.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0
cat > "$folder/program.py" <<'END'
import warnings

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

warnings.simplefilter("error")  # so that a warning would be seen
x = pc.field("x")
filters = {"isnan": pc.is_nan(x), "other": x != 1}
conditions = ["isnan(x)", "x > 5", "x <> 1"]


def written(numbers, **options):
    table = pa.table({"row": range(6), "x": numbers})
    pq.write_table(table, "data.parquet", row_group_size=3, **options)
    return table


def by_pyarrow(source):
    return [ds.dataset(source).to_table(filter=filter)["row"].to_pylist() for filter in filters.values()]


def by_duckdb(source):
    return [[row for (row,) in duckdb.sql(f"SELECT row FROM {source} WHERE {c}").fetchall()] for c in conditions]


def by_polars(frame):
    return [frame.filter(c).collect()["row"].to_list() for c in (pl.col("x").is_nan(), pl.col("x") > 5)]


nan = float("nan")
memory = written([1, nan, 1, 2, 3, 0])
assert by_pyarrow(memory) == [[1], [1, 3, 4, 5]] and by_duckdb("memory") == [[1], [1], [1, 3, 4, 5]]
print(by_pyarrow("data.parquet"), by_duckdb("'data.parquet'"))
assert by_pyarrow("data.parquet") == [[], [3, 4, 5]]
assert by_duckdb("'data.parquet'") == [[], [], [3, 4, 5]]
assert by_polars(pl.scan_parquet("data.parquet")) == [[1], [1]]

written([1, nan, 2, 3, 4, 0])
print(by_pyarrow("data.parquet"), by_duckdb("'data.parquet'"))
assert by_pyarrow("data.parquet") == [[1], [1, 2, 3, 4, 5]]
assert by_duckdb("'data.parquet'")[:2] == [[], []]

written([1, nan, 1, 2, 3, 0], write_statistics=False)
assert by_pyarrow("data.parquet") == by_pyarrow(memory) and by_duckdb("'data.parquet'") == by_duckdb("memory")
duckdb.sql("COPY memory TO 'data.parquet' (FORMAT parquet)")
assert by_duckdb("'data.parquet'") == by_duckdb("memory")
END
cd "$folder"
"$folder/venv/bin/python" "$folder/program.py"
