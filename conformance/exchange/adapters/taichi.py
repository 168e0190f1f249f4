"""Taichi."""

import numpy as np
import taichi as ti

REQUIRES = ["taichi==1.7.4", "numpy==2.4.6"]
GROUP = "taichi"
TAKES = ["field(b)", "field(np.asarray(b))"]
OPERATORS = False
ti.init(ti.cpu, offline_cache=False, log_level=ti.ERROR)


def field(b):
    made = ti.field(getattr(ti, str(np.dtype(b.dtype))), b.shape)
    made.from_numpy(b)
    return made


def back(x):
    return x.to_numpy()
