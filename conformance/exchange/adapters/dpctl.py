"""dpctl."""

import numpy as np
from dpctl.memory import MemoryUSMShared

REQUIRES = ["dpctl==0.22.1", "intel-opencl-rt==2026.2.0", "numpy==2.4.6"]
GROUP = "sycl"
TAKES = ["copied(b)", "copied(np.asarray(b))"]
BACK = "back(x)"
OPERATORS = False
REASONS = {"copied(b)": "It takes buffers, and a Blob is none."}
ADVICE = "`copied(b)` is `MemoryUSMShared(b.nbytes).copy_from_host(b)`."


def copied(b):
    usm = MemoryUSMShared(max(b.nbytes, 1))
    usm.copy_from_host(b.reshape(-1).view("u1"))
    return usm, b.shape, b.dtype


def back(x):
    usm, shape, dtype = x
    return np.frombuffer(usm.copy_to_host(), dtype, np.prod(shape, dtype=int)).reshape(shape)
