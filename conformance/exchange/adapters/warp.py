"""Warp."""

import warp as wp

REQUIRES = ["warp-lang==1.19.0", "numpy==2.4.6"]
GROUP = "torch"
ADVICE = "`wp.array(b, copy=False)` and kernels write into the read-only array that they get: pass `wp.from_dlpack(b)`."
TAKES = ["wp.array(b)", "wp.array(b, copy=False)", "wp.from_dlpack(b)"]
BACK = "x.numpy()"
WRITE = "x.fill_(1)"
MAKE = "wp.array(array, copy=False)"
OPERATORS = False
wp.config.quiet = True
