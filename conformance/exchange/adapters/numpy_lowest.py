"""NumPy, lowest."""

import numpy as np

REQUIRES = ["numpy==2.2.5"]
GROUP = "lowest"
TAKES = ["np.asarray(b)", "np.array(b)", "np.from_dlpack(b)"]
WRITE = "x[...] = 1"
MAKE = "np.asarray(array)"
