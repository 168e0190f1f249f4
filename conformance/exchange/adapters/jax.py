"""JAX."""

import jax
import jax.numpy as jnp
import numpy as np

REQUIRES = ["jax==0.10.2", "numpy==2.4.6"]
GROUP = "jax"
ADVICE = "Pass `b.cpu`, because it takes no simulated device. It assumes that shared memory never changes."
TAKES = ["jnp.asarray(b)", "jax.dlpack.from_dlpack(b.cpu)", "jax.device_put(np.asarray(b))"]
MAKE = "jnp.asarray(array)"
jax.config.update("jax_enable_x64", True)
