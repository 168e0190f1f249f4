"""DALI."""

import numpy as np
import nvidia.dali.experimental.dynamic as ndd
from nvidia.dali.tensors import TensorCPU

REQUIRES = ["nvidia-dali-cuda120==2.4.0", "numpy==2.4.6"]
GROUP = "dali"
ADVICE = "`TensorCPU` takes half the numbers of a complex array for float32: pass real numbers."
TAKES = ["ndd.as_tensor(b)", "ndd.tensor(b)", "TensorCPU(np.asarray(b))"]
MAKE = "ndd.as_tensor(array)"
OPERATORS = False
