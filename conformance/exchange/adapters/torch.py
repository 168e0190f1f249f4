"""PyTorch."""

import torch

REQUIRES = ["torch==2.13.0"]
GROUP = "torch"
ADVICE = (
    "It writes through the read-only flag of DLPack: pass a copy of a const Blob that it may write."
)
REASONS = {
    "x + b": "PyTorch does not add these dtypes. Beside an ndarray NumPy does, and returns an ndarray."
}
TAKES = ["torch.from_dlpack(b)", "torch.as_tensor(b)", "torch.tensor(b)"]
BACK = "back(x)"
WRITE = "x.fill_(1)"
MAKE = "make(array)"


def back(x):
    if x.dtype is torch.bfloat16:
        import ml_dtypes

        return x.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


def make(array):
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("uint16")).view(torch.bfloat16)
    return torch.from_numpy(array)
