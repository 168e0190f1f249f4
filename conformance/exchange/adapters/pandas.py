"""pandas."""

import numpy as np
import pandas as pd

REQUIRES = ["pandas==3.1.1", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["pd.DataFrame(b)", "pd.DataFrame(np.asarray(b), copy=False)", "pd.Series(b)"]
BACK = "x.to_numpy()"
WRITE = "write(x)"
MAKE = "pd.DataFrame(array, copy=False)"
ADVICE = "It takes an empty array for an empty list: pass `np.asarray(b)`. `frame[b]` does not take a mask."
REASONS = {
    "pd.DataFrame(b)": "It takes an empty array that is no ndarray for an empty list.",
    "pd.Series(b)": "It takes an empty array that is no ndarray for an empty list.",
}
ONE_AXIS = ["pd.Series(b)"]


def write(x):
    if isinstance(x, pd.Series):
        x.array[:] = np.ones(len(x), x.dtype)
    else:
        x[:] = 1
