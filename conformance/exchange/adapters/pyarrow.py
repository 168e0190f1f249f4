"""PyArrow."""

import numpy as np
import pyarrow as pa

REQUIRES = ["pyarrow==26.0.1", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["pa.array(b)", "pa.Tensor.from_numpy(np.asarray(b))"]
BACK = "x.to_numpy() if isinstance(x, pa.Tensor) else x.to_numpy(zero_copy_only=False)"
MAKE = "pa.array(array)"
ONE_AXIS = ["pa.array(b)"]
OPERATORS = False
