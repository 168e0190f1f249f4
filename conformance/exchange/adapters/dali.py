"""DALI."""

import numpy as np
from nvidia.dali.tensors import TensorCPU

REQUIRES = ["nvidia-dali-cuda120==2.4.0", "numpy==2.4.6"]
GROUP = "dali"
TAKES = ["TensorCPU(b)", "TensorCPU(np.asarray(b))"]
OPERATORS = False

make = TensorCPU
