"""safetensors."""

import numpy as np
from safetensors.numpy import load, save

REQUIRES = ["safetensors==0.8.0", "numpy==2.4.6"]
GROUP = "tables"
ADVICE = "It ignores strides: pass `np.ascontiguousarray(b)`."
TAKES = ["save({'x': b})", "save({'x': np.asarray(b)})"]
BACK = "load(x)['x']"
