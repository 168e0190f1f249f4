"""NumPy."""

import numpy as np

REQUIRES = ["numpy==2.4.6"]
GROUP = "tables"
TAKES = ["np.asarray(b)", "np.array(b)", "np.from_dlpack(b)"]
WRITE = "x[...] = 1"
MAKE = "np.asarray(array)"
