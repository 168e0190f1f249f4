"""TensorFlow."""

import numpy as np
import tensorflow as tf

REQUIRES = ["tensorflow-cpu==2.21.0", "numpy==2.4.6"]
GROUP = "tensorflow"
TAKES = [
    "tf.convert_to_tensor(b)",
    "tf.constant(b)",
    "tf.experimental.dlpack.from_dlpack(b.__dlpack__())",
]
BACK = "np.asarray(memoryview(x)) if x.dtype != tf.bfloat16 else x.numpy()"
MAKE = "tf.constant(array)"
ADVICE = (
    "It assumes that shared memory never changes: pass `b.copy()` if the Blob is written meanwhile."
)
