"""PyOpenCL with PoCL."""

import numpy as np
import pyopencl as cl
import pyopencl.array

REQUIRES = ["pyopencl==2026.1.4", "pocl-binary-distribution==3.0", "numpy==2.4.6"]
GROUP = "sycl"
REASONS = {"cl.array.to_device(queue, b)": "It takes buffers, and a Blob is none."}
# The compiler of PoCL 3.0, the newest on PyPI, does not know all CPUs, and operators compile.
OPERATORS = False
TAKES = ["cl.array.to_device(queue, b)", "cl.array.to_device(queue, np.asarray(b))"]
BACK = "x.get()"
MAKE = "cl.array.to_device(queue, array)"
platforms = [x for x in cl.get_platforms() if "Portable" in x.name] or cl.get_platforms()
queue = cl.CommandQueue(cl.Context(platforms[0].get_devices()[:1]))
