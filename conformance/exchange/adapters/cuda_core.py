"""cuda.core."""

import numpy as np
from cuda.core.utils import StridedMemoryView

REQUIRES = ["cuda-core==1.2.2", "cuda-bindings==13.5.0", "numpy==2.4.6"]
GROUP = "torch"
ADVICE = "It takes no simulated device, whose DLPack id is not 0: pass `b.cpu`."
REASONS = {"StridedMemoryView.from_dlpack(b, -1)": "It takes only the DLPack id 0 on the host."}
TAKES = ["StridedMemoryView.from_dlpack(b, -1)", "StridedMemoryView.from_dlpack(b.cpu, -1)"]
BACK = "np.from_dlpack(x)"
WRITE = "np.from_dlpack(x)[...] = 1"
MAKE = "StridedMemoryView.from_dlpack(array, -1)"
OPERATORS = False
