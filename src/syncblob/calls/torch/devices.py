"""The device of PyTorch's functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from syncblob.devices import HOST, Device, accelerator
from syncblob.errors import NoDeviceError

if TYPE_CHECKING:
    from syncblob.devices.base import Home

# The devices that torch was found to use, because asking it is slow.
_reached: set[Device] = set()


def require_reach(home: Home) -> None:
    """Raise a NoDeviceError if this PyTorch cannot use the device of a home."""
    if home.device.type != "cuda" or home.device in _reached:
        return
    if torch.cuda.is_available():
        # Otherwise nobody could ask for its current stream before its first function.
        torch.cuda.init()  # type: ignore[no-untyped-call]  # torch's stubs lack its result
        _reached.add(home.device)
        return
    built = torch.version.cuda
    reason = f"built for CUDA {built}, finds no device" if built else "was built without CUDA"
    raise NoDeviceError(
        f"PyTorch cannot use {home.device}: torch {torch.__version__} {reason}. Install a build "
        "for this device, or compute on the host, with blob.on('cpu')"
    )


def device_of_tensors(
    tensors: Sequence[torch.Tensor], devices: Iterable[Device]
) -> tuple[torch.device, Home]:
    """Return the device on which a function of tensors runs, and its home.

    Those of the Blobs matter only if all tensors are 0-d on the host.
    """
    names = [str(tensor.device) for tensor in tensors if tensor.is_cuda]
    if not names and not any(tensor.ndim for tensor in tensors):
        names = [str(device) for device in devices if device.type == "cuda"]
    if not names:
        return torch.device("cpu"), HOST
    home = accelerator(names[0])
    require_reach(home)
    return torch.device(names[0]), home
