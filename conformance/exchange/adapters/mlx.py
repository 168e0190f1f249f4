"""MLX."""

import mlx.core as mx
import numpy as np

REQUIRES = ["mlx[cpu]==0.32.4", "numpy==2.4.6"]
GROUP = "jax"
ADVICE = "`x[...] = value` makes new memory for `x`, which a Blob that shared it does not see."
TAKES = ["mx.array(b)"]
BACK = "back(x)"
WRITE = "x[...] = 1"
MAKE = "mx.array(array)"


def back(x):
    if x.dtype == mx.bfloat16:
        import ml_dtypes

        return np.array(x.view(mx.uint16)).view(ml_dtypes.bfloat16)
    return np.array(x)
