"""NumPy, newest."""

import numpy as np

REQUIRES = ["numpy==2.5.5"]
GROUP = "newest"
PYTHON = "python3.13"
TAKES = ["np.asarray(b)", "np.array(b)", "np.from_dlpack(b)"]
WRITE = "x[...] = 1"
MAKE = "np.asarray(array)"
