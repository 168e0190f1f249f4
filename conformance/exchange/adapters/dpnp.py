"""dpnp."""

import dpnp

REQUIRES = ["dpnp==0.20.0", "intel-opencl-rt==2026.2.0", "numpy==2.4.6"]
GROUP = "sycl"
ADVICE = "Pass `b.cpu`, because it takes no simulated device."
TAKES = ["dpnp.asarray(b)", "dpnp.from_dlpack(b.cpu)"]
BACK = "dpnp.asnumpy(x)"
WRITE = "x[...] = 1"
MAKE = "dpnp.asarray(array)"
