"""Awkward Array."""

import awkward as ak
import numpy as np

REQUIRES = ["awkward==2.14.0", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["ak.from_dlpack(b)", "ak.from_numpy(np.asarray(b))", "ak.Array(b)"]
BACK = "ak.to_numpy(x)"
MAKE = "ak.from_numpy(array)"
