"""MAX."""

import numpy as np
from max.driver import Buffer

REQUIRES = ["max==26.7.0", "numpy==2.4.6"]
GROUP = "max"
ADVICE = "It ignores strides: pass `b.copy()` of a transposed view or one with gaps."
REASONS = {
    "Buffer.from_dlpack(b)": "It asks for DLPack without versions, which cannot mark const memory. Of "
    "a read-only ndarray it makes a copy."
}
TAKES = ["Buffer.from_dlpack(b)", "Buffer.from_numpy(np.asarray(b))"]
BACK = "x.to_numpy()"
WRITE = "x.to_numpy()[...] = 1"
MAKE = "Buffer.from_numpy(array)"
OPERATORS = False
