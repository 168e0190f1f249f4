"""Paddle."""

import numpy as np
import paddle

REQUIRES = ["paddlepaddle==3.3.1", "numpy==2.4.6"]
GROUP = "paddle"
ADVICE = (
    "It writes through the read-only flag of DLPack: pass a copy of a const Blob that it may write. It "
    "takes uint16 for bfloat16. `x == b` is False: write `b == x`."
)
REASONS = {
    "paddle.to_tensor(b)": "It takes arrays by their type, ndarray.",
    "x == b": "It compares with ndarrays and numbers alone, and returns False for all else.",
    "b == x": "It takes uint16 for bfloat16.",
}
TAKES = ["paddle.to_tensor(b)", "paddle.from_dlpack(b)"]
BACK = "back(x)"
WRITE = "x.fill_(1)"
MAKE = "paddle.to_tensor(array)"


def back(x):
    if x.dtype == paddle.bfloat16:
        import ml_dtypes

        return x.numpy().view(ml_dtypes.bfloat16)
    return x.numpy()
