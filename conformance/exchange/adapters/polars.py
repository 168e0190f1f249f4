"""Polars."""

import polars as pl

REQUIRES = ["polars==2.1.0", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["pl.Series(b)", "pl.DataFrame({'x': b})", "pl.DataFrame(b)"]
BACK = "back(x)"
MAKE = "pl.Series(array)"
ADVICE = (
    "Its operators and `DataFrame` take arrays of two axes by their type: pass `np.asarray(b)`."
)
REASONS = {
    "pl.DataFrame(b)": "It takes arrays of two axes by their type, ndarray.",
    "x + b": "Its operators take arrays by their type, ndarray.",
    "x == b": "Its operators take arrays by their type, ndarray.",
}
ONE_AXIS = TAKES[:2]


def back(x):
    if isinstance(x, pl.DataFrame) and x.columns == ["x"]:
        x = x["x"]
    return x.to_numpy()
