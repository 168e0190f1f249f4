"""Numba."""

import numba

REQUIRES = ["numba==0.68.1", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["same(b)"]
WRITE = "x[...] = 1"
ADVICE = "`same` is `njit(lambda x: x)`. Its compiler refuses a function that writes into `b`; `b.cpu` may be written."
same = numba.njit(lambda x: x)
