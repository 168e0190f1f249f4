"""Numba's CUDA simulator."""

import os

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

from numba import cuda

REQUIRES = ["numba==0.68.1", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["cuda.to_device(b)"]
BACK = "x.copy_to_host()"
WRITE = "x[...] = 1"
MAKE = "cuda.to_device(array)"
OPERATORS = False
