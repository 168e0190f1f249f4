"""Paddle."""

import numpy as np
import paddle

REQUIRES = ["paddlepaddle==3.3.1", "numpy==2.4.6"]
GROUP = "paddle"
TAKES = ["paddle.to_tensor(b)", "paddle.from_dlpack(b)"]


def back(x):
    if x.dtype == paddle.bfloat16:
        import ml_dtypes

        return x.numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


def write(x):
    x.fill_(1)


make = paddle.to_tensor
