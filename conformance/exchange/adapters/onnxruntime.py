"""ONNX Runtime."""

import numpy as np
from onnxruntime import OrtValue

REQUIRES = ["onnxruntime==1.32.0", "numpy==2.4.6"]
GROUP = "torch"
TAKES = [
    "OrtValue.from_dlpack(b)",
    "OrtValue.ortvalue_from_numpy(b)",
    "OrtValue.ortvalue_from_numpy(np.asarray(b))",
]
BACK = "x.numpy()"
MAKE = "OrtValue.ortvalue_from_numpy(array)"
REASONS = {"OrtValue.ortvalue_from_numpy(b)": "It takes arrays by their type, ndarray."}
OPERATORS = False
