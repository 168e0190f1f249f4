"""NumPy, lowest."""

import numpy as np

REQUIRES = ["numpy==2.2.5"]
GROUP = "lowest"
TAKES = ["np.asarray(b)", "np.array(b)", "np.from_dlpack(b)"]


def write(x):
    x[...] = 1


make = np.asarray
