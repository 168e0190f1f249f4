"""pandas."""

import numpy as np
import pandas as pd

REQUIRES = ["pandas==3.1.1", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["pd.DataFrame(b)", "pd.DataFrame(np.asarray(b), copy=False)", "pd.Series(b)"]
ONE_AXIS = ["pd.Series(b)"]


def back(x):
    return x.to_numpy()


def write(x):
    if isinstance(x, pd.Series):
        x.array[:] = np.ones(len(x), x.dtype)
    else:
        x[:] = 1


def make(array):
    return pd.DataFrame(array, copy=False)
