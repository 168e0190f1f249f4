"""Taichi."""

import numpy as np
import taichi as ti

REQUIRES = ["taichi==1.7.4", "numpy==2.4.6"]
GROUP = "taichi"
TAKES = ["ndarray(np.asarray(b))", "ndarray(b)", "np.asarray(b)"]
BACK = "x if isinstance(x, np.ndarray) else x.to_numpy()"
WRITE = "write(x)"
ADVICE = "Its kernels write into read-only arrays: pass `np.asarray(b.cpu)` if they write."
REASONS = {"ndarray(b)": "It takes arrays by their type, ndarray."}
OPERATORS = False
ti.init(ti.cpu, offline_cache=False, log_level=ti.ERROR)


def ndarray(b):
    made = ti.ndarray(getattr(ti, str(np.dtype(b.dtype)).replace("bool", "u1")), b.shape)
    made.from_numpy(b)
    return made


@ti.kernel
def write(x: ti.types.ndarray()):
    for i in ti.grouped(x):
        x[i] = 1
