"""tinygrad."""

import os

# Its other device for CPUs needs clang.
os.environ["DEV"] = "PYTHON"

from tinygrad import Tensor

REQUIRES = ["tinygrad==0.14.0", "numpy==2.4.6"]
GROUP = "torch"
REASONS = {"Tensor(b)": "It takes arrays by their type, ndarray."}
TAKES = ["Tensor(b)"]
BACK = "x.numpy()"
MAKE = "Tensor(array)"
