"""Blosc2."""

import blosc2
import numpy as np

REQUIRES = ["blosc2==4.14.1", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["blosc2.asarray(b)", "blosc2.asarray(np.asarray(b))"]
BACK = "x[()]"
MAKE = "blosc2.asarray(array)"
