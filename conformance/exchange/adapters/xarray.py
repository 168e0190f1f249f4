"""xarray."""

import numpy as np
import xarray as xr

REQUIRES = ["xarray==2026.9.0", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["xr.DataArray(b)", "xr.Variable([*'xy'][:b.ndim], b)"]
WRITE = "x[...] = 1"
MAKE = "xr.DataArray(array)"
