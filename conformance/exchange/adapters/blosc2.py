"""Blosc2."""

import blosc2
import numpy as np

REQUIRES = ["blosc2==4.14.1", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["blosc2.asarray(b)", "blosc2.asarray(np.asarray(b))"]


def back(x):
    return x[()]


make = blosc2.asarray
