"""Zarr."""

import numpy as np
import zarr

REQUIRES = ["zarr==3.1.6", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["zarr.create_array({}, data=b)", "assigned(b)", "assigned(np.asarray(b))"]
BACK = "x[...]"
MAKE = "zarr.create_array({}, data=array)"
REASONS = {
    "zarr.create_array({}, data=b)": "It compares on the device, which copies while an alias of the host lives.",
    "assigned(b)": "It compares on the device, which copies while an alias of the host lives.",
}
OPERATORS = False
ADVICE = (
    "`assigned(b)` is `array[...] = b`; with `np.asarray(b)` it compares nothing on the device."
)


def assigned(b):
    array = zarr.create_array({}, shape=b.shape, dtype=b.dtype)
    array[...] = b
    return array
