"""OpenVINO."""

import numpy as np
import openvino as ov

REQUIRES = ["openvino==2026.4.1", "pillow==13.0.0", "numpy==2.4.6"]
GROUP = "torch"
TAKES = ["ov.Tensor(b)", "ov.Tensor(np.asarray(b))", "ov.Tensor(np.asarray(b), shared_memory=True)"]
BACK = "x.data"
WRITE = "x.data[...] = 1"
MAKE = "ov.Tensor(array, shared_memory=True)"
ADVICE = "To share memory, it needs a writable array: `np.asarray(b.cpu)`."
REASONS = {"ov.Tensor(b)": "It takes arrays by their type, ndarray."}
OPERATORS = False
