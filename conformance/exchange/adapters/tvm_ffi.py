"""tvm-ffi."""

import ml_dtypes
import numpy as np
import tvm_ffi

REQUIRES = ["apache-tvm-ffi==0.1.15.post2", "numpy==2.4.6"]
GROUP = "torch"
ADVICE = "It asks for DLPack without versions, which cannot mark const memory: pass a copy of a const Blob."
TAKES = ["tvm_ffi.from_dlpack(b)"]
BACK = "np.from_dlpack(x)"
WRITE = "np.from_dlpack(x)[...] = 1"
MAKE = "tvm_ffi.from_dlpack(array)"
OPERATORS = False
