"""Dask."""

import dask.array as da

REQUIRES = ["dask[array]==2026.8.0", "numpy==2.4.6"]
GROUP = "tables"
ADVICE = "`computed(x)` is `x.compute()`. It copies `b` and hashes the copy, unless you pass `name=False`."
TAKES = ["computed(da.from_array(b))", "computed(da.asarray(b))"]
BACK = "computed(x) if isinstance(x, da.Array) else x"
MAKE = "da.from_array(array)"


def computed(x):
    return x.compute(scheduler="synchronous")
