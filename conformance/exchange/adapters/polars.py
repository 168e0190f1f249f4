"""Polars."""

import polars as pl

REQUIRES = ["polars==2.1.0", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["pl.Series(b)", "pl.DataFrame({'x': b})", "pl.DataFrame(b)"]
ONE_AXIS = TAKES[:2]


def back(x):
    if isinstance(x, pl.DataFrame) and x.columns == ["x"]:
        x = x["x"]
    return x.to_numpy()


make = pl.Series
