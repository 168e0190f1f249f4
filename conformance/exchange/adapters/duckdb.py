"""DuckDB."""

import duckdb

REQUIRES = ["duckdb==2.0.1", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["select(b)"]
BACK = "back(x)"
ONE_AXIS = TAKES
REASONS = {"select(b)": "It reads no float16 from Arrow."}
ADVICE = "It finds arrays by the names of variables; `select(b)` asks `select * from b`."


def select(b):
    return duckdb.sql("select * from b").fetchnumpy()


def back(x):
    (column,) = x.values()
    return column
